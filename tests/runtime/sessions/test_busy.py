"""Runs that are stopped for another run, and the order of the runs that wait for the session."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.events import (
    Event,
    ResultEvent,
    RunQueued,
    SessionRewind,
    ToolResult,
    UsageEvent,
)
from agent_actors.errors import RuntimeFailure, SessionBusy
from agent_actors.hooks import AfterAgentEvent
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call
from tests.runs.helpers import SlowStore, check_history, check_quiet, check_records
from tests.runtime.sessions.busy_helpers import Runs, an_agent, answers, asked, on_record


@asynccontextmanager
async def held(store: MemoryStore | None = None) -> AsyncGenerator[Runs]:
    """Yield a runtime, and check it at the end."""
    store = store or MemoryStore()
    async with open_runtime(store=store) as runtime:
        async with trio.open_nursery() as nursery:
            yield Runs(runtime, nursery)
        check_quiet(runtime)
        assert not runtime._actors.services.inboxes
        check_records(await store.load("s"))
        history = runtime.history("s")
        assert history is not None
        check_history(history)


async def recorded(store: MemoryStore) -> list[str]:
    return on_record(tuple(await store.load("s")))


# `on_busy="interrupt"`.


async def test_interrupted_run_keeps_finished_work(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    async with held(store) as runs:
        await runs.start("naps", wait=2)
        await runs.start("stop", "interrupt")
    assert runs.ends == {"naps": "interrupted", "stop": "completed"}
    first = runs.results["naps"]
    contents = [str(one.content) for one in first.tool_calls]
    assert contents[0] == "slept 1 s"
    assert [one.is_error for one in first.tool_calls] == [False, True]
    assert asked(first.messages) == ["naps"]
    assert asked(runs.results["stop"].messages) == ["naps", "stop"]
    assert runs.results["stop"].text == "You said stop."
    assert await recorded(store) == ["naps", "interrupted", "stop", "completed"]
    assert trio.current_time() < 4, "the run was stopped, not awaited"


async def test_truncated_response_is_paid_not_kept(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    async with held(store) as runs:
        await runs.start("one", wait=0.5)
        await runs.start("two", "interrupt")
    assert runs.results["one"].usage.output_tokens > 0
    assert runs.results["one"].text == ""
    roles = [message.role for message in runs.results["two"].messages]
    assert roles == ["user", "user", "assistant"]
    spent = [e for e in await store.load("s") if isinstance(e, UsageEvent)]
    assert spent[0].run_id == runs.results["one"].run_id


@pytest.mark.parametrize("store", [MemoryStore, SlowStore])
async def test_latest_interrupt_wins_and_loses_nothing(
    store: type[MemoryStore], autojump_clock: MockClock
) -> None:
    made, model = store(), ScriptedModel(answers)
    async with held(made) as runs:
        runs.options = an_agent(model)
        await runs.start("one", wait=0.75)
        for prompt in ("two", "three", "four"):
            await runs.start(prompt, "interrupt", wait=0)
    assert runs.ends == {
        "one": "interrupted",
        "two": "interrupted",
        "three": "interrupted",
        "four": "completed",
    }
    assert asked(runs.results["four"].messages) == ["one", "two", "three", "four"]
    assert len(model.requests) == 2, "two and three were stopped before a request"


async def test_interrupts_precede_queue_in_order(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        await runs.start("holder")
        await runs.start("queued 1", "queue", wait=0)
        await runs.start("queued 2", "queue", wait=0)
        await runs.start("stopper", "interrupt", wait=0.5)
        await runs.start("queued 3", "queue", wait=0)
    assert list(runs.ends) == ["holder", "stopper", "queued 1", "queued 2", "queued 3"]
    assert list(runs.ends.values()) == ["interrupted", *["completed"] * 4]


async def test_answered_run_completes_despite_interrupt(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with held(store) as runs:
        await runs.start("one", wait=0)
        # 0.25 s to open, 0.25 s for the prompt and 1 s for the response: the last commit is in
        # progress.
        await trio.sleep(1.6)
        await runs.start("two", "rollback")
    assert runs.ends == {"one": "completed", "two": "completed"}
    assert asked(runs.results["two"].messages) == ["one", "two"]


async def test_interrupted_stream_is_read_to_end(autojump_clock: MockClock) -> None:
    async with held() as runs:
        async with runs.runtime.stream("nap", runs.options, session_id="s") as stream:
            seen: list[Event] = []
            async for event in stream:
                seen.append(event)
                if event.type == "tool.use":
                    await runs.start("stop", "interrupt", wait=0)
        last = seen[-1]
        assert isinstance(last, ResultEvent)
        assert (last.stop_reason, stream.result.stop_reason) == ("interrupted", "interrupted")


@tool
async def deaf() -> str:
    """Ignore cancellation for a while."""
    with trio.CancelScope(shield=True):
        await trio.sleep(5)
    return "done"


def deaf_agent() -> AgentOptions:
    """Return an agent whose first response calls `deaf`."""
    model = ScriptedModel([[call("deaf")], "Fine.", "Fine."])
    return AgentOptions(model="m", provider=model, tools=[deaf])


async def test_abandoned_interrupt_still_stops_run(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        runs.options = deaf_agent()
        await runs.start("one")
        await runs.start("two", "interrupt")
        runs.scopes["two"].cancel()
        await runs.start("three", "queue")
    assert runs.ends == {"one": "interrupted", "three": "completed"}
    assert asked(runs.results["three"].messages) == ["one", "three"]


# `on_busy="rollback"`.


@pytest.mark.parametrize("store", [MemoryStore, SlowStore])
async def test_rolled_back_run_is_paid_only(
    store: type[MemoryStore], autojump_clock: MockClock
) -> None:
    made = store()
    async with held(made) as runs:
        before = await runs.runtime.run("before", runs.options, session_id="s")
        await runs.start("naps", wait=2.75)
        await runs.start("instead", "rollback")
    rolled = runs.results["naps"]
    assert runs.ends == {"naps": "rolled_back", "instead": "completed"}
    assert rolled.messages == before.messages
    assert str(rolled.tool_calls[0].content) == "slept 1 s"
    assert asked(runs.results["instead"].messages) == ["before", "instead"]
    records = await made.load("s")
    last_before = max(r.seq or 0 for r in records if getattr(r, "run_id", "") == before.run_id)
    assert await recorded(made) == [
        "before",
        "completed",
        "naps",
        f"back to {last_before}",
        "rolled_back",
        "instead",
        "completed",
    ]
    results = [r for r in records if isinstance(r, ToolResult)]
    assert len(results) == 2, "they stay in the log, but do not count"


async def test_interrupt_can_become_a_rollback(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        runs.options = deaf_agent()  # its run takes a moment to end
        await runs.start("one")
        await runs.start("two", "interrupt", wait=0)
        await runs.start("three", "rollback", wait=0)
    assert list(runs.ends.values()) == ["rolled_back", "rolled_back", "completed"]
    assert asked(runs.results["three"].messages) == ["three"]


async def test_reloaded_session_equals_continued_one(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    async with held(store) as runs:
        await runs.start("nap", wait=2)
        await runs.start("instead", "rollback")
    [rewind] = [e for e in await store.load("s") if isinstance(e, SessionRewind)]
    assert rewind.to_seq == 0
    async with open_runtime(store=store) as again:
        result = await again.run("and", an_agent(), session_id="s")
    assert asked(result.messages) == ["instead", "and"]


async def test_run_of_departed_caller_rolls_back(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        runs.options = deaf_agent()
        await runs.start("one")
        runs.scopes["one"].cancel()
        await runs.start("instead", "rollback")
    assert runs.ends == {"instead": "completed"}
    assert asked(runs.results["instead"].messages) == ["instead"]


async def test_rollback_works_during_last_hooks(
    autojump_clock: MockClock,
) -> None:
    async def slowly(_: AfterAgentEvent) -> None:
        await trio.sleep(2)

    store = MemoryStore()
    async with held(store) as runs:
        runs.options = an_agent(hooks={"after_agent": slowly})
        await runs.start("one", wait=2)
        await runs.start("instead", "rollback")
    assert runs.ends == {"one": "rolled_back", "instead": "completed"}
    assert await recorded(store) == ["one", "back to 0", "rolled_back", "instead", "completed"]


# `runtime.interrupt()`.


async def test_interrupt_returns_after_run_ended(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        await runs.start("nap", wait=2)
        assert await runs.runtime.interrupt("s", "a person pressed stop")
        assert runs.runtime.statistics().runs == 0
        assert not runs.runtime.is_busy("s")
    [cut_off] = runs.results["nap"].tool_calls
    assert runs.ends == {"nap": "interrupted"}
    assert cut_off.is_error
    recorded = [str(m.content) for m in runs.results["nap"].messages if m.role == "tool"]
    assert recorded == ["the run was stopped: a person pressed stop"]


async def test_interrupt_starts_next_queued_run(autojump_clock: MockClock) -> None:
    async with held() as runs:
        await runs.start("one")
        await runs.start("two", "queue")
        assert await runs.runtime.interrupt("s")
        await trio.sleep(0.25)
        assert runs.runtime.is_busy("s")
    assert runs.ends == {"one": "interrupted", "two": "completed"}


async def test_interrupt_of_free_session_returns_false(autojump_clock: MockClock) -> None:
    async with open_runtime() as runtime:
        assert not await runtime.interrupt("s")
    with pytest.raises(RuntimeFailure, match="not open"):
        await open_runtime().interrupt("s")


async def test_unstarted_interrupted_run_keeps_prompt(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        runs.nursery.start_soon(runs.start, "one", "reject", 0)
        while not runs.runtime.is_busy("s"):  # noqa: ASYNC110 - to continue in that very tick
            await trio.lowlevel.checkpoint()
        assert await runs.runtime.interrupt("s")
    assert runs.ends == {"one": "interrupted"}
    assert asked(runs.results["one"].messages) == ["one"]


@pytest.mark.parametrize("on_busy", ["interrupt", "rollback", "steer", "queue", "reject"])
async def test_no_policy_reaches_an_ancestor(on_busy: OnBusy, autojump_clock: MockClock) -> None:
    refused: list[str] = []
    async with open_runtime(on_busy=on_busy) as runtime:

        @tool
        async def reach() -> str:
            """Try to use the session of the enclosing run."""
            for attempt in (
                lambda: runtime.run("x", agent, session_id="s"),
                lambda: runtime.steer("s", "x"),
                lambda: runtime.interrupt("s"),
            ):
                try:
                    await attempt()
                except SessionBusy as error:
                    refused.append(str(error))
            return "refused"

        agent = AgentOptions(
            model="m", provider=ScriptedModel([[call("reach")], "Done."]), tools=[reach]
        )
        result = await runtime.run("go", agent, session_id="s")
    assert (result.stop_reason, result.text) == ("completed", "Done.")
    assert len(refused) == 3
    assert all("descendant" in text for text in refused)


async def test_tool_may_stop_unrelated_run(autojump_clock: MockClock) -> None:
    async with held() as runs:
        runtime = runs.runtime

        @tool
        async def stop() -> str:
            """Stop a run in another session."""
            return str(await runtime.interrupt("s"))

        agent = AgentOptions(
            model="m", provider=ScriptedModel([[call("stop")], "Done."]), tools=[stop]
        )
        await runs.start("nap", wait=2)
        result = await runtime.run("go", agent, session_id="other")
        assert [one.content for one in result.tool_calls] == ["True"]
    assert runs.ends == {"nap": "interrupted"}


# Positions in the queue.


async def test_waiting_run_learns_position_changes(
    autojump_clock: MockClock,
) -> None:
    places: list[tuple[str, int]] = []

    async def see(event: RunQueued) -> None:
        places.append((event.request_id, event.position))

    async with held() as runs:
        runtime = runs.runtime
        runtime.subscribe(see, RunQueued)

        async def wait_in_line(request_id: str, on_busy: OnBusy) -> None:
            await runtime.run(
                "x", runs.options, session_id="s", request_id=request_id, on_busy=on_busy
            )

        await runs.start("holder", wait=0.1)
        for request_id in ("a", "b", "c"):
            runs.nursery.start_soon(wait_in_line, request_id, "queue")
            await trio.sleep(0.1)
        assert places == [("a", 1), ("b", 2), ("c", 3)]
        places.clear()
        runs.nursery.start_soon(wait_in_line, "first", "interrupt")
        await trio.sleep(0.1)
        pushed_back = [("first", 1), ("a", 2), ("b", 3), ("c", 4)]
        assert places == [*pushed_back, ("a", 1), ("b", 2), ("c", 3)]
        places.clear()
    assert places == [("b", 1), ("c", 2), ("c", 1)]


async def test_queue_position_is_first_event(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        await runs.start("one")
        stream = runs.runtime.stream("two", runs.options, session_id="s", on_busy="queue")
        async with stream as events:
            seen = [event async for event in events]
    assert isinstance(seen[0], RunQueued)
    assert (seen[0].position, seen[0].holder) == (1, runs.results["one"].run_id)
    assert (seen[0].seq, seen[0].run_id) == (None, seen[-1].run_id)
    assert [event.type for event in seen[1:3]] == ["system.init", "user.message"]


async def test_runtime_default_yields_to_call(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel(answers)
    async with open_runtime(on_busy="interrupt") as runtime, trio.open_nursery() as nursery:
        runs = Runs(runtime, nursery, an_agent(model))
        for prompt in ("one", "two"):
            run = partial(runtime.run, prompt, runs.options, session_id="s")
            await runs.begin(prompt, run, 0.25)
        with pytest.raises(SessionBusy):
            await runtime.run("three", runs.options, session_id="s", on_busy="reject")
    assert runs.ends == {"one": "interrupted", "two": "completed"}
    assert runtime.statistics().gate.stopped == 1
