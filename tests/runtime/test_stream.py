"""Errors and results of `stream()`: from the body, from the run, from both, and from neither."""

import time
from collections.abc import Iterable

import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, RunStream, open_runtime, tool
from agent_actors.domain.events import ErrorEvent, Event, ResultEvent
from agent_actors.errors import (
    AgentError,
    ProviderConnectError,
    ReaderStalled,
    RuntimeShutdown,
    SessionBusy,
)
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, fail, hang, pause, say
from tests.runs.helpers import check_history, check_left, check_quiet, check_records


def scripted(*turns: Turn, tools: Iterable[object] = ()) -> AgentOptions:
    return AgentOptions(
        model="m",
        provider=ScriptedModel(turns),
        tools=tools,
        reader_stall=30,
        max_retries=0,
    )


def broken() -> ProviderConnectError:
    return ProviderConnectError("it broke", endpoint="scripted")


async def read_all(events: RunStream, seen: list[Event] | None = None) -> None:
    async for event in events:
        if seen is not None:
            seen.append(event)


async def fail_inside(events: RunStream, error: Exception) -> None:
    async with events:
        await trio.sleep(1)
        raise error


async def read_inside(events: RunStream, seen: list[Event], *, idle: float = 0) -> None:
    async with events:
        seen.append(await anext(events))
        await trio.sleep(idle)
        await read_all(events, seen)


async def test_body_error_is_bare_after_join(
    autojump_clock: MockClock,
) -> None:
    error = ValueError("mine")
    async with open_runtime() as runtime:
        events = runtime.stream("hi", scripted(hang()))
        with pytest.raises(ValueError, match="mine") as caught:
            await fail_inside(events, error)
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        check_quiet(runtime)
        check_left(events)


async def test_run_error_is_bare_from_iteration(autojump_clock: MockClock) -> None:
    error, seen = broken(), list[Event]()
    async with open_runtime() as runtime:
        events = runtime.stream("hi", scripted([say("Hel"), fail(error)]))
        with pytest.raises(ProviderConnectError) as caught:
            await read_inside(events, seen)
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        assert isinstance(seen[-1], ErrorEvent)
        assert [event for event in seen if isinstance(event, ErrorEvent)] == seen[-1:]
        with pytest.raises(ProviderConnectError):
            _ = events.result


async def test_body_error_carries_run_error_note(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime() as runtime:
        events = runtime.stream("hi", scripted(fail(broken())))
        with pytest.raises(ValueError, match="mine") as caught:
            await fail_inside(events, ValueError("mine"))
        assert caught.value.__notes__ == [
            "and the run failed: ProviderConnectError: scripted: it broke"
        ]
        assert isinstance(events._error(cancelled=True), ProviderConnectError)


async def test_unread_failure_raises_on_exit(
    autojump_clock: MockClock,
) -> None:
    error = broken()
    async with open_runtime() as runtime:
        with pytest.raises(ProviderConnectError) as caught:
            async with runtime.stream("hi", scripted(fail(error))):
                await trio.sleep(1)
        assert caught.value is error


async def test_seen_error_is_not_raised_again(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime() as runtime:
        async with runtime.stream("hi", scripted(fail(broken()))) as events:
            with pytest.raises(ProviderConnectError):
                await read_all(events)
        async with runtime.stream("hi", scripted(fail(broken()))) as events:
            await trio.sleep(1)
            with pytest.raises(ProviderConnectError):
                _ = events.result


@pytest.mark.parametrize("reads", [0, 1, 3])
async def test_early_exit_cancels_and_commits(reads: int, autojump_clock: MockClock) -> None:
    ended: list[str] = []

    @tool
    async def linger() -> str:
        """Take some time to end."""
        try:
            await trio.sleep(100)
            return "done"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            ended.append("linger")

    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        options = scripted([say("Let me"), call("linger")], "No.", tools=[linger])
        async with runtime.stream("hi", options, session_id="s") as events:
            for _ in range(reads):
                await anext(events)
            if reads == 3:
                await trio.sleep(1)
        assert events.result.stop_reason == "interrupted"
        assert ended == (["linger"] if reads == 3 else [])
        check_quiet(runtime)
        check_left(events)
        check_history(events.result.messages)
        if reads:  # otherwise, the run was stopped before it had opened its session
            records = await store.load("s")
            check_records(records)
            assert isinstance(records[-1], ResultEvent)
            assert events.result.messages == runtime.history("s")
        again = await runtime.run("again", scripted("Hello."), session_id="s")
        assert again.text == "Hello."


async def test_stream_is_entered_once_before_reading(autojump_clock: MockClock) -> None:
    async with open_runtime() as runtime:
        events = runtime.stream("hi", scripted("Hello."))
        with pytest.raises(RuntimeError, match="the stream is not entered"):
            await anext(events)
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = events.result
        async with events:
            with pytest.raises(RuntimeError, match="has not ended"):
                _ = events.result
            await read_all(events)
        with pytest.raises(RuntimeError, match="entered only once"):
            async with events:
                pass
        assert events.result.text == "Hello."


async def test_busy_session_is_reported_on_entering(autojump_clock: MockClock) -> None:
    async with open_runtime() as runtime:
        async with runtime.stream("hi", scripted(hang()), session_id="s") as first:
            run_id = (await anext(first)).run_id
            with pytest.raises(SessionBusy, match=f"session 's': run {run_id}"):
                async with runtime.stream("hi", scripted("Hello."), session_id="s"):
                    pass
        check_quiet(runtime)


async def test_stream_reader_sees_runtime_close(
    autojump_clock: MockClock,
) -> None:
    seen: list[Event] = []
    raised: list[AgentError] = []
    store = MemoryStore()
    runtime = open_runtime(drain=0, store=store)

    async def read() -> None:
        try:
            async with runtime.stream("hi", scripted([say("Hel"), hang()]), session_id="s") as s:
                await read_all(s, seen)
        except AgentError as error:
            raised.append(error)

    async with trio.open_nursery() as nursery, runtime:
        nursery.start_soon(read)
        await trio.sleep(1)
    assert [type(error) for error in raised] == [RuntimeShutdown]
    assert isinstance(seen[-1], ErrorEvent)
    assert seen[-1].error == "RuntimeShutdown"
    records = await store.load("s")
    check_records(records)
    assert records[-1] == seen[-1]


async def test_run_caller_sees_runtime_close(
    autojump_clock: MockClock,
) -> None:
    raised: list[AgentError] = []
    runtime = open_runtime(drain=0)

    async def run() -> None:
        try:
            await runtime.run("hi", scripted(hang()))
        except AgentError as error:
            raised.append(error)

    async with trio.open_nursery() as nursery, runtime:
        nursery.start_soon(run)
        await trio.sleep(1)
    assert [type(error) for error in raised] == [RuntimeShutdown]


async def test_stalled_reader_ends_only_its_run(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        texts: list[str] = []

        async def other() -> None:
            texts.append((await runtime.run("hi", scripted([pause(50), say("Hello.")]))).text)

        nursery.start_soon(other)
        flood = scripted([say("x" * 500, chunks=500)])
        seen: list[Event] = []
        with pytest.raises(ReaderStalled):
            await read_inside(runtime.stream("hi", flood, session_id="s"), seen, idle=100)
        assert isinstance(seen[-1], ErrorEvent)
        await trio.sleep(1)
        assert texts == ["Hello."]
        again = await runtime.run("hi", scripted("Hello again."), session_id="s")
        check_history(again.messages)


async def test_events_have_wall_clock_times() -> None:
    """Not the time of the monotonic clock, which begins when the machine starts."""
    now = time.time()
    async with open_runtime() as runtime:
        options = AgentOptions(model="m", provider=ScriptedModel(["Hello."]))
        await runtime.run("Hi", options, session_id="s")
        records = await runtime.sessions.records("s")
    assert all(abs(record.ts - now) < 86_400 for record in records)
