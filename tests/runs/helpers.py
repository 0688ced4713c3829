"""Checks that a run left nothing behind, and tools and models to run them against."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import groupby

import attrs
import trio

from agent_actors import AgentOptions, RunStream, Runtime, Tool, open_runtime, tool
from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.events import (
    AnyEvent,
    ErrorEvent,
    Event,
    ResultEvent,
    SystemInit,
    ToolResult,
    ToolUse,
)
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelRequest
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, interleave, pause, say


def check_history(history: Messages) -> None:
    """Check that all messages are valid and that each call is answered once, in order."""
    history.validate()
    expected: list[str] = []
    for message in history:
        if message.role == "tool":
            assert expected, f"a result without a call: {message}"
            assert message.tool_call_id == expected.pop(0)
            continue
        assert not expected, f"calls without a result: {expected}"
        expected = [one.id for one in message.tool_calls]
    assert not expected, f"calls without a result: {expected}"


def check_records(records: Sequence[AnyEvent]) -> None:
    """Check that `seq` has no gaps, runs do not overlap, and each run's records are complete."""
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    events = [record for record in records if isinstance(record, Event)]
    assert len(events) == len(records)
    runs = [list(run) for _, run in groupby(events, key=lambda event: event.run_id)]
    assert len({run[0].run_id for run in runs}) == len(runs), "runs overlap on a session"
    for run in runs:
        check_run(run)


def check_run(run: Sequence[AnyEvent]) -> None:
    """Check the records of one run: exactly one final record, at the end, and a result for each
    call.

    Before its `system.init`, a run may close calls that an earlier run left open.
    """
    run = run[next((at for at, one in enumerate(run) if isinstance(one, SystemInit)), 0) :]
    last = [isinstance(event, ResultEvent | ErrorEvent) for event in run]
    assert last == [False] * (len(run) - 1) + [True], [event.type for event in run]
    used = [event.tool_use_id for event in run if isinstance(event, ToolUse)]
    answered = [event.tool_use_id for event in run if isinstance(event, ToolResult)]
    assert Counter(used) == Counter(answered)
    assert len(set(used)) == len(used)


def check_quiet(runtime: Runtime) -> None:
    """Check that no run, lease, slot, stream, request or letter is left in the runtime."""
    actors = runtime._actors
    seen = runtime.statistics()
    assert (seen.runs, seen.gate.held, seen.gate.waiting) == (0, 0, 0), seen
    for slots in (seen.tools.tools, seen.tools.threads, *(e.streams for e in seen.endpoints)):
        assert (slots.used, slots.waiting) == (0, 0)
    assert seen.log.appends.depth == 0
    for owner in (actors.runs, actors.executor.owner, actors.gate.owner, actors.log.owner):
        # A withdrawn letter may still be in a mailbox until its loop discards it.
        assert owner.statistics().live == 0, owner.name
    assert all(loaded.users == 0 for loaded in actors.log._loaded.values())


def check_left(events: RunStream) -> None:
    """Check that both ends of the reader's mailbox are closed."""
    mailbox = events._mailbox
    assert (mailbox._closed, mailbox._abandoned, mailbox._reader) == (True, True, None)


@attrs.define(eq=False)
class Probe:
    """Records which tools began and which tools finished their cleanup."""

    begun: list[str] = attrs.field(factory=list[str])
    ended: list[str] = attrs.field(factory=list[str])

    def check(self) -> None:
        assert Counter(self.begun) == Counter(self.ended), "a tool did not finish its finally"

    def tools(self) -> tuple[Tool, ...]:
        """Return one tool that cleans up slowly, one that ignores cancellation for a while, and a
        quick one.
        """

        @tool
        async def careful() -> str:
            """Clean up, which takes a while, however the call ends."""
            self.begun.append("careful")
            try:
                await trio.sleep(2)
                return "cared for"
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
                    await trio.lowlevel.checkpoint()
                    self.ended.append("careful")

        @tool
        async def deaf() -> str:
            """Ignore cancellation for a while."""
            self.begun.append("deaf")
            try:
                with trio.CancelScope(shield=True):
                    await trio.sleep(4)
                await trio.sleep(1)
                return "heard"
            finally:
                self.ended.append("deaf")

        @tool
        async def quick() -> str:
            """Return at once."""
            self.begun.append("quick")
            self.ended.append("quick")
            return "done"

        return (careful, deaf, quick)


def three_tools(request: ModelRequest) -> Turn:
    """Call three tools for `go`, pause in the response to their results, else answer `Fine.`"""
    last = request.messages.last()
    assert last is not None
    if last.role == "tool":
        return [say("It "), pause(1), say("rains.")]
    if last.content == "go":
        calls = interleave(call("careful"), call("deaf"), call("quick"))
        return [say("Let me "), pause(1), say("look."), calls]
    return "Fine."


@attrs.define(eq=False)
class House:
    """A runtime with its model, its store, and a probe of its tools."""

    runtime: Runtime
    store: MemoryStore
    model: ScriptedModel
    probe: Probe
    options: AgentOptions
    streams: list[RunStream] = attrs.field(factory=list[RunStream])

    async def check(self, *sessions: str) -> None:
        """Check that nothing is alive and that each of these sessions is valid and can be used
        again.
        """
        self.check_silent()
        for session_id in sessions:
            check_records(await self.store.load(session_id))
            history = self.runtime.history(session_id)
            if history is not None:
                check_history(history)
            again = await self.runtime.run("again", self.options, session_id=session_id)
            assert again.text == "Fine."
            check_history(again.messages)
            check_records(await self.store.load(session_id))
        self.check_silent()
        for request in self.model.requests:
            check_history(request.messages)

    def check_silent(self) -> None:
        """Check that nothing is alive."""
        self.probe.check()
        check_quiet(self.runtime)
        assert self.model.live == 0
        for events in self.streams:
            check_left(events)


@attrs.define(eq=False)
class SlowStore(MemoryStore):
    """A store that sleeps before it reads, and before and after it writes."""

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        await trio.sleep(0.25)
        return await super().load(session_id, after_seq=after_seq)

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        await trio.sleep(0.25)
        outcomes = await super().append(batch)
        await trio.lowlevel.checkpoint()
        return outcomes


@asynccontextmanager
async def house(*, slow: bool = False, tools_per_runtime: int = 256) -> AsyncGenerator[House]:
    """Yield a runtime whose session `s` has a history and whose actors have all been started."""
    store = SlowStore() if slow else MemoryStore()
    model, probe = ScriptedModel(three_tools), Probe()
    options = AgentOptions(model="m", provider=model, tools=probe.tools())
    async with open_runtime(store=store, tools_per_runtime=tools_per_runtime) as runtime:
        await runtime.run("before", options, session_id="s")
        yield House(runtime, store, model, probe, options)
