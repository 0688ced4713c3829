"""A client whose tools run by themselves: rounds, failures, and the blocks that readers see."""

from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock

from agent_actors import Client, StopReason, ToolResultBlock, ToolUseError, tool
from agent_actors.errors import HookError
from agent_actors.hooks import PostToolUseEvent
from agent_actors.testing import Turn, call, say
from tests.client.helpers import ONE_SUM, agent, ask, roles, shown
from tests.runs.helpers import check_history

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject


@pytest.mark.feature("OAS-045", "OAS-044")
async def test_tools_run_until_response_without_call() -> None:
    options, model = agent(ONE_SUM, call("add", {"a": 3, "b": 4}), "7.", auto_execute_tools=True)
    async with Client(options) as client:
        blocks = await ask(client, "1 + 2 + 4?")
        assert shown(blocks) == [
            "text Let m",
            "text e see.",
            "use add",
            "result add",
            "use add",
            "result add",
            "text 7.",
        ]
        assert blocks[3] == ToolResultBlock("call_1_0", {"sum": 3}, name="add")
        assert client.turn_count == 1
        assert client.result is not None
        assert client.result.stop_reason == StopReason.COMPLETED
    assert len(model.requests) == 3


async def test_text_streams_while_tools_run(autojump_clock: MockClock) -> None:
    @tool
    async def slow(seconds: float) -> str:
        """Take some time."""
        await trio.sleep(seconds)
        return "done"

    both: Turn = [say("One.", chunks=1), call("slow", {"seconds": 5}), call("slow", {"seconds": 5})]
    options, _ = agent(both, "Both.", tools=[slow], auto_execute_tools=True)
    started = trio.current_time()
    async with Client(options) as client:
        await client.query("?")
        times = [trio.current_time() - started async for _ in client.receive_messages()]
    assert times == [0, 0, 0, 5, 5, 5]


@pytest.mark.feature("OAS-046", "OAS-047", "OAS-048")
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("nope", {}, "unknown tool 'nope'; the available tools are: add, broken"),
        ("broken", {}, "tool 'broken' raised ValueError: no luck with {}"),
        ("add", {"a": 1}, "field b: required, but missing"),
    ],
)
async def test_failed_call_is_shown_and_reported(
    name: str, arguments: dict[str, int], expected: str
) -> None:
    after: list[object] = []

    async def post(event: PostToolUseEvent) -> None:
        after.append(event.tool_result)

    options, model = agent(
        call(name, arguments), "Sorry.", auto_execute_tools=True, hooks={"post_tool_use": [post]}
    )
    async with Client(options) as client:
        blocks = await ask(client, "?")
    assert shown(blocks) == [f"use {name}", f"error {name}", f"result {name}", "text Sorry."]
    error, result = blocks[1:3]
    assert isinstance(error, ToolUseError)
    assert (error.error, error.id) == (expected, "call_1_0")
    assert error.raw_data is not None
    failure: JsonObject = {"error": expected, "tool": name}
    assert result == ToolResultBlock("call_1_0", failure, is_error=True, name=name)
    assert after == [failure], "hooks and the model get the same error"
    (sent,) = model.requests[1].messages[-1].blocks
    assert sent == result


async def test_failed_call_without_hooks_is_reported() -> None:
    options, model = agent(call("broken", {}), "Sorry.", auto_execute_tools=True)
    async with Client(options) as client:
        await ask(client, "?")
    assert '"tool": "broken"' in model.requests[1].messages[-1].content


async def test_failing_hook_keeps_other_results() -> None:
    async def post(event: PostToolUseEvent) -> None:
        if event.tool_name == "nope":
            raise RuntimeError("oh")

    both: Turn = [call("add", {"a": 1, "b": 2}), call("nope", {})]
    options, _ = agent(both, auto_execute_tools=True, hooks={"post_tool_use": [post]})
    async with Client(options) as client:
        with pytest.raises(HookError, match="oh"):
            await ask(client, "?")
        results = [message["content"] for message in client.history if message["role"] == "tool"]
    assert results[0] == '{"sum": 3}'
    assert "unknown tool 'nope'" in str(results[1])


async def test_error_object_of_tool_is_kept() -> None:
    @tool
    async def picky() -> dict[str, object]:
        """Refuse the argument."""
        raise RuntimeError("no")

    options, _ = agent(call("picky", {}), "Sorry.", tools=[picky], auto_execute_tools=True)
    async with Client(options) as client:
        blocks = await ask(client, "?")
    assert isinstance(blocks[2], ToolResultBlock)
    assert blocks[2].content == {"error": "tool 'picky' raised RuntimeError: no", "tool": "picky"}


@pytest.mark.feature("OAS-049")
@pytest.mark.parametrize("rounds", [0, 1, 2])
async def test_n_rounds_make_n_plus_one_responses(rounds: int) -> None:
    ran: list[int] = []

    @tool
    async def count(n: int) -> str:
        """Count."""
        ran.append(n)
        return "counted"

    turns: list[Turn] = [
        (say(f"Round {n}."), call("count", {"n": n})) for n in range(2 * rounds + 2)
    ]
    options, model = agent(
        *turns, tools=[count], auto_execute_tools=True, max_tool_iterations=rounds
    )
    async with Client(options) as client:
        blocks = await ask(client, "?")
        assert client.result is not None
        assert client.result.stop_reason == StopReason.MAX_ITERATIONS
        assert len(model.requests) == rounds + 1
        assert ran == list(range(rounds))
        assert shown(blocks)[-4:] == [
            f"text Round {rounds}.",
            "use count",
            "error count",
            "result count",
        ]
        last = blocks[-1]
        assert isinstance(last, ToolResultBlock)
        assert "max_tool_iterations" in last.text
        history = client.history
        assert [m["role"] for m in history[-2:]] == ["assistant", "tool"]
        check_history(client.result.messages)
        await ask(client, "Go on.")
    assert roles(model.requests[rounds + 1])[-3:] == ["assistant", "tool", "user"]


async def test_broken_calls_use_up_rounds() -> None:
    options, model = agent(*[call("nope", {})] * 4, auto_execute_tools=True, max_tool_iterations=2)
    async with Client(options) as client:
        await ask(client, "?")
    assert len(model.requests) == 3
