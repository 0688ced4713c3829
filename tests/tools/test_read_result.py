"""The tool that reads the rest of a truncated result."""

import pytest

from agent_actors.domain.json import JsonObject
from agent_actors.tools.output import ToolOutput
from agent_actors.tools.read_result import READ_RESULT, read_result_tool


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [({"tool_use_id": "c1"}, ("c1", 0)), ({"tool_use_id": "c2", "offset": 7}, ("c2", 7))],
)
async def test_tool_reads_from_the_given_offset(
    arguments: JsonObject, asked: tuple[str, int]
) -> None:
    reads: list[tuple[str, int]] = []

    async def read(call_id: str, offset: int) -> ToolOutput:
        reads.append((call_id, offset))
        return ToolOutput("the rest")

    made = read_result_tool(read)
    assert made.name == READ_RESULT
    assert await made.execute(arguments) == ToolOutput("the rest")
    assert reads == [asked]
