"""A session uses at most its share: a stuck tool, reader or observer blocks no other session."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.events import AssistantDelta, Event, ToolDelta, ToolProgress, ToolResult
from agent_actors.errors import ReaderStalled
from agent_actors.testing import ScriptedModel, call, pause, say
from agent_actors.tools import ToolContext
from tests.runs.helpers import check_history, check_quiet


@tool
async def stuck(number: int) -> None:
    """Wait forever."""
    await trio.sleep_forever()


@tool
async def quick(number: int) -> int:
    """Return at once."""
    await trio.lowlevel.checkpoint()
    return number


def calls(name: str, count: int) -> AgentOptions:
    """Return an agent whose first response calls a tool `count` times."""
    first = [call(name, {"number": number}) for number in range(count)]
    model = ScriptedModel(
        lambda request: first if request.messages.last_content() == "Go." else "Done."
    )
    return AgentOptions(model="m", provider=model, tools=[stuck, quick])


async def test_800_calls_stay_bounded_and_ordered() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run(
            "Go.", attrs.evolve(calls("quick", 800), max_calls_per_response=800)
        )
        assert runtime.statistics().tools.tools.peak <= 16
    assert [c.content for c in result.tool_calls] == [str(number) for number in range(800)]
    assert [m.content for m in result.messages.tool_messages()] == [str(n) for n in range(800)]
    check_history(result.messages)


async def test_stuck_tools_use_only_their_share(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(tools_per_runtime=20) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(runtime.run, "Go.", calls("stuck", 100))
        await trio.testing.wait_all_tasks_blocked()
        assert runtime.statistics().tools.tools.used == 16
        result = await runtime.run("Go.", calls("quick", 100))
        assert len(result.tool_calls) == 100
        nursery.cancel_scope.cancel()
    check_quiet(runtime)


async def test_stalled_reader_ends_only_its_run(
    autojump_clock: MockClock,
) -> None:
    words = [say(*("word " for _ in range(500)), every=0.01)]
    slow = AgentOptions(model="m", provider=ScriptedModel([words]), reader_stall=5)
    other = AgentOptions(model="m", provider=ScriptedModel([[pause(3), say("Fine.")]]))

    async def read_slowly(runtime: Runtime) -> None:
        async with runtime.stream("Go.", slow, session_id="slow") as events:
            async for _ in events:
                await trio.sleep(60)

    async def stall(runtime: Runtime) -> None:
        with pytest.raises(ReaderStalled, match="reader_stall"):
            await read_slowly(runtime)

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(stall, runtime)
        assert (await runtime.run("Hello", other)).text == "Fine."
    check_quiet(runtime)


async def test_stuck_observer_harms_no_run(
    autojump_clock: MockClock,
) -> None:
    seen: list[Event] = []

    async def watch(event: Event) -> None:
        seen.append(event)

    async def hang(event: Event) -> None:
        await trio.sleep_forever()

    async def fail(event: Event) -> None:
        raise ZeroDivisionError

    async with open_runtime() as runtime:
        with (
            runtime.subscribe(watch, AssistantDelta, ToolResult, session_id="a"),
            runtime.subscribe(hang) as hung,
            runtime.subscribe(fail),
        ):
            await runtime.run("Go.", calls("quick", 2), session_id="a")
            await runtime.run("Go.", calls("quick", 2), session_id="b")
            await trio.testing.wait_all_tasks_blocked()
        assert hung.statistics().failed == 0
    assert [event.type for event in seen] == ["tool.result", "tool.result", "assistant.delta"]
    assert {event.session_id for event in seen} == {"a"}


async def test_progress_is_dropped_for_slow_readers(
    autojump_clock: MockClock,
) -> None:
    @tool
    async def work(context: ToolContext) -> str:
        """Report progress often."""
        for percent in range(200):
            context.report(percent)
        await trio.sleep(1)
        context.report("almost")
        return "done"

    options = AgentOptions(model="m", provider=ScriptedModel([call("work"), "Done."]), tools=[work])
    async with open_runtime() as runtime, runtime.stream("Go.", options) as events:
        shown = [event.progress async for event in events if isinstance(event, ToolProgress)]
    assert shown[0] == 0
    assert len(shown) < 200
    assert events.result.text == "Done."


@pytest.mark.feature("OAS-069")
@pytest.mark.parametrize("wanted", [True, False])
async def test_argument_deltas_need_an_option(wanted: bool) -> None:
    model = ScriptedModel([call("quick", {"number": 12345}, chunks=3), "Done."])
    options = AgentOptions(model="m", provider=model, tools=[quick], tool_deltas=wanted)
    async with open_runtime() as runtime, runtime.stream("Go.", options) as events:
        shown = [event async for event in events if isinstance(event, ToolDelta)]
    assert "".join(event.partial_json for event in shown) == ('{"number":12345}' if wanted else "")
    assert all(event.partial_json for event in shown)
    assert {event.name for event in shown} == ({"quick"} if wanted else set())
    assert len({event.tool_use_id for event in shown}) == (1 if wanted else 0)
