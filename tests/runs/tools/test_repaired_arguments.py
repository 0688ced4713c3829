"""Arguments that are nearly JSON: an error by default; if allowed, the call runs and is marked."""

import pytest

from agent_actors import AgentOptions, RunResult, open_runtime, tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.events import AssistantMessage, RunEvent, ToolUse
from agent_actors.testing import Reply, ScriptedEndpoint, call, finish, reply

ODD = "{'q': Pura90, }"


@tool
def find(q: str) -> str:
    """Find it."""
    return f"found {q}"


async def run(*answers: Reply | str, lenient: bool) -> tuple[RunResult, list[RunEvent], str]:
    """Return the result, the events, and the body of the last request."""
    async with ScriptedEndpoint(answers) as endpoint, open_runtime() as runtime:
        options = AgentOptions(
            model="m",
            base_url=endpoint.base_url,
            tools=[find],
            allow_lenient_tool_json=lenient,
        )
        async with runtime.stream("Go.", options) as events:
            seen = [event async for event in events]
        return events.result, seen, endpoint.requests[-1].content.decode()


@pytest.mark.feature("OAS-070")
async def test_repaired_call_runs_and_is_marked() -> None:
    result, seen, sent = await run(reply(call("find", ODD)), "Done.", lenient=True)
    assert [(one.name, one.content) for one in result.tool_calls] == [("find", "found Pura90")]
    (use,) = (event for event in seen if isinstance(event, ToolUse))
    assert (use.input, use.repaired) == ({"q": "Pura90"}, True)
    blocks = [b for event in seen if isinstance(event, AssistantMessage) for b in event.blocks]
    (block,) = (block for block in blocks if isinstance(block, ToolUseBlock))
    assert (block.repaired, block.raw_arguments) == (True, ODD)
    # The repaired arguments are sent back as JSON.
    assert r'"arguments":"{\"q\": \"Pura90\"}"' in sent


@pytest.mark.feature("OAS-070")
async def test_repair_is_off_by_default() -> None:
    result, _, sent = await run(reply(call("find", ODD)), "Done.", lenient=False)
    (failed_call,) = result.tool_calls
    assert failed_call.is_error
    assert "not valid JSON" in str(failed_call.content)
    assert r'"arguments":"{}"' in sent


@pytest.mark.feature("OAS-070")
async def test_truncated_call_never_runs() -> None:
    cut = reply(call("find", ODD), finish("length"))
    result, _, _ = await run(cut, "Done.", lenient=True)
    assert [one for one in result.tool_calls if not one.is_error] == []
