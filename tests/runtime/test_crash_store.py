"""Stores that fail at any of their calls: the run fails, and its session stays usable."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, RunStream, Runtime, open_runtime
from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.events import AnyEvent, ErrorEvent, Event, ResultEvent
from agent_actors.errors import SessionFenced, SessionStoreError
from agent_actors.sessions import fold
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, pause, say
from tests.runs.helpers import (
    Probe,
    check_history,
    check_left,
    check_quiet,
    check_records,
    check_run,
    three_tools,
)

Fault: TypeAlias = Literal[
    "raises", "writes and raises", "hangs", "writes and hangs", "refuses", "forgets to say"
]
# For the run with three tools: the prompt, the response, three results, the response, and the end.
APPENDS: Final = 6


@attrs.define(eq=False)
class FaultyStore(MemoryStore):
    """A store that fails at one of its appends to session `s`, counted from 1."""

    fault: Fault = "raises"
    fails_at: int = 0
    appends: int = 0

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        if not any(append.session_id == "s" for append in batch):
            return await super().append(batch)
        self.appends += 1
        if self.appends != self.fails_at:
            return await super().append(batch)
        if self.fault.startswith("writes"):
            await super().append(batch)
        if self.fault.endswith("hangs"):
            await trio.sleep(1_000)
        if self.fault.endswith("raises"):
            raise OSError(28, "No space left on device")
        if self.fault == "forgets to say":
            return ()
        return [SessionStoreError("no space", session_id="s") for _ in batch]


async def fails_at(fault: Fault, number: int) -> None:
    """Check a run whose store fails at one append, while another session has its own run."""
    store, model, probe = FaultyStore(fault=fault), ScriptedModel(three_tools), Probe()
    options = AgentOptions(model="m", provider=model, tools=probe.tools())
    other = AgentOptions(model="m", provider=ScriptedModel([[pause(60), say("Undisturbed.")]]))
    texts: list[str] = []

    async def run_other() -> None:
        await trio.sleep(0.5)
        texts.append((await runtime.run("hi", other, session_id="other")).text)

    async with open_runtime(store=store) as runtime, trio.open_nursery() as nursery:
        await runtime.run("before", options, session_id="s")
        store.fails_at = store.appends + number
        nursery.start_soon(run_other)
        events, seen = runtime.stream("go", options, session_id="s"), list[Event]()
        with pytest.raises(SessionStoreError) as caught:
            await read(events, seen)
        assert caught.value.session_id == "s"
        check_last(seen)
        probe.check()
        check_left(events)
        assert not runtime.is_busy("s")
        assert store.appends == store.fails_at
        records = await store.load("s")
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        await check_goes_on(runtime, store, options)
        await trio.sleep(100)
        assert texts == ["Undisturbed."]
        check_records(await store.load("other"))
        check_quiet(runtime)
        for request in model.requests:
            check_history(request.messages)


def check_last(seen: Sequence[Event]) -> None:
    assert isinstance(seen[-1], ErrorEvent)
    assert seen[-1].error == "SessionStoreError"
    assert not any(isinstance(event, ErrorEvent | ResultEvent) for event in seen[:-1])
    recorded = [event.seq for event in seen if event.seq is not None]
    assert recorded == list(range(recorded[0], recorded[0] + len(recorded))) if recorded else True


async def check_goes_on(
    runtime: Runtime, store: MemoryStore, options: AgentOptions, session_id: str = "s"
) -> None:
    """Check that the next run starts with the history from the log and is recorded completely."""
    before = len(await store.load(session_id))
    result = await runtime.run("go", options, session_id=session_id)
    assert result.text == "It rains."
    check_history(result.messages)
    records = await store.load(session_id)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    check_run(records[before:])
    assert result.messages == fold(records).history()


@pytest.mark.parametrize("fault", get_args(Fault))
def test_failed_append_fails_only_its_run(fault: Fault) -> None:
    for number in range(1, APPENDS + 1):
        trio.run(fails_at, fault, number, clock=MockClock(autojump_threshold=0))


async def test_fault_sweep_covers_every_append(
    autojump_clock: MockClock,
) -> None:
    store, probe = FaultyStore(), Probe()
    options = AgentOptions(model="m", provider=ScriptedModel(three_tools), tools=probe.tools())
    async with open_runtime(store=store) as runtime:
        await runtime.run("go", options, session_id="s")
    assert store.appends == APPENDS


@attrs.define(eq=False)
class Unreadable(MemoryStore):
    """A store that cannot be read at first."""

    fault: Literal["raises", "hangs"] = "raises"
    faults: int = 1

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        if self.faults:
            self.faults -= 1
            if self.fault == "raises":
                raise OSError(5, "Input/output error")
            await trio.sleep(1_000)
        return await super().load(session_id, after_seq=after_seq)


@pytest.mark.parametrize("fault", ["raises", "hangs"])
async def test_unreadable_session_can_be_retried(
    fault: Literal["raises", "hangs"], autojump_clock: MockClock
) -> None:
    store, probe, seen = Unreadable(fault=fault), Probe(), list[Event]()
    options = AgentOptions(model="m", provider=ScriptedModel(three_tools), tools=probe.tools())
    async with open_runtime(store=store) as runtime:
        with pytest.raises(SessionStoreError, match=r"session 's'.*(Input/output|not read within)"):
            await read(runtime.stream("go", options, session_id="s"), seen)
        check_last(seen)
        assert len(seen) == 1
        check_quiet(runtime)
        await check_goes_on(runtime, store, options)


@attrs.define(eq=False)
class Stuck(MemoryStore):
    """A store whose appends to one session hang."""

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        if any(append.session_id == "stuck" for append in batch):
            await trio.sleep(1_000)
        return await super().append(batch)


async def test_unrecorded_end_is_a_failure(
    autojump_clock: MockClock,
) -> None:
    store, probe = Stuck(), Probe()
    plain = AgentOptions(model="m", provider=ScriptedModel(["Never.", "Hello."]))
    options = AgentOptions(model="m", provider=ScriptedModel(three_tools), tools=probe.tools())

    async def stick() -> None:
        with pytest.raises(SessionStoreError):
            await runtime.run("hi", plain, session_id="stuck")

    async def leave(nursery: trio.Nursery) -> None:
        async with runtime.stream("go", options, session_id="s") as events:
            async for event in events:
                if event.type == "tool.use":
                    break
            await trio.sleep(1)
            nursery.start_soon(stick)
            await trio.sleep(1)

    async with open_runtime(store=store) as runtime, trio.open_nursery() as nursery:
        with pytest.raises(SessionStoreError, match="were not written"):
            await leave(nursery)
        await trio.sleep(100)
        probe.check()
        history = runtime.history("s")
        assert history is not None
        check_history(history)
        await check_goes_on(runtime, store, options)


async def read(events: RunStream, seen: list[Event]) -> None:
    async with events:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - keeps what came before an error


async def test_overtaken_writer_rereads_the_log(
    autojump_clock: MockClock,
) -> None:
    store, probe = MemoryStore(), Probe()
    options = AgentOptions(model="m", provider=ScriptedModel(three_tools), tools=probe.tools())
    async with open_runtime(store=store) as first:
        await first.run("before", options, session_id="s")
        # The newer opening of a store has higher fencing numbers.
        async with open_runtime(store=store) as second:
            await second.run("go", options, session_id="s")
            with pytest.raises(SessionFenced):
                await first.run("go", options, session_id="s")
            await check_goes_on(second, store, options)
        check_quiet(first)
