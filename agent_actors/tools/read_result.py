"""The tool with which a model reads the rest of a truncated tool result.

A run offers the tool once a result in its session has been truncated, unless the agent has a tool
with the same name or the run's permission policy does not allow it.
"""

from collections.abc import Awaitable, Callable
from typing import Final, cast

from agent_actors.domain.json import JsonObject
from agent_actors.tools.output import ToolOutput
from agent_actors.tools.tool import Tool

READ_RESULT: Final = "ReadResult"

# Number of bytes of a result that are reserved for its notice.
NOTICE_BYTES: Final = 500

# Reads a part of the complete text of a call's result, beginning at an offset.
Read = Callable[[str, int], Awaitable[ToolOutput]]


def read_result_tool(read: Read) -> Tool:
    """Return the tool for one run.

    Args:
        read: Reads a part of a result, given the id of its call and the offset in bytes.
    """

    async def handler(arguments: JsonObject) -> ToolOutput:
        offset = cast(int, arguments.get("offset", 0))
        return await read(str(arguments["tool_use_id"]), offset)

    return Tool(
        READ_RESULT,
        "Read more of a tool result that was cut because it was too long. The notice at the end of "
        "the cut result has the arguments.",
        {
            "type": "object",
            "properties": {
                "tool_use_id": {
                    "type": "string",
                    "description": "The id of the call whose result was cut.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Where to begin, in bytes of the complete text.",
                },
            },
            "required": ["tool_use_id"],
            "additionalProperties": False,
        },
        handler,
        read_only=True,
        open_world=False,
    )


def cut_notice(call_id: str, shown: int, total: int, *, readable: bool) -> str:
    """Return the notice at the end of a truncated result.

    Args:
        call_id: The call.
        shown: The number of bytes of the text before the notice.
        total: The number of bytes in the complete text.
        readable: True if the model can read the rest.
    """
    rest = _how_to_continue(call_id, shown) if readable else "The rest is not available."
    return f"\n\n[This result was cut after {shown} of {total} bytes. {rest}]"


def page_notice(call_id: str, start: int, end: int, total: int) -> str:
    """Return the notice after a part of a result, from byte `start` to byte `end`."""
    rest = _how_to_continue(call_id, end) if end < total else "This is the end of the result."
    return f"\n\n[These are bytes {start} to {end} of {total}. {rest}]"


def _how_to_continue(call_id: str, offset: int) -> str:
    return (
        f"Call {READ_RESULT} with tool_use_id={call_id!r} and offset={offset} to continue reading."
    )
