"""The journal of a run: concurrent appends are one commit, in order."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, PermissionPolicy, open_runtime, tool
from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.events import EventBuilder, Notification
from agent_actors.errors import SessionStoreError
from agent_actors.runs.context import current_context
from agent_actors.runs.output.journal import Journal
from agent_actors.testing import ScriptedModel, call, interleave
from tests.runs.helpers import SlowStore, check_records


class AppendBatches(SlowStore):
    """A slow store that records which events were committed together, and that may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.fails = False

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        if self.fails:
            raise OSError("full")
        self.batches += [[event.type for event in one.events] for one in batch]
        return await super().append(batch)


def note(text: str) -> EventBuilder:
    return partial(Notification, text=text)


def journal() -> Journal:
    context = current_context.get()
    assert context is not None
    return context.journal


def using(*handlers: Callable[..., object]) -> AgentOptions:
    tools = [tool(handler) for handler in handlers]
    turn = interleave(*(call(made.name, {}) for made in tools))
    return AgentOptions(model="m", provider=ScriptedModel([[turn], "Done."]), tools=tools)


async def test_appends_of_one_tick_are_one_commit(autojump_clock: MockClock) -> None:
    async def first() -> str:
        """Append."""
        await journal().append(note("a"))
        return "ok"

    async def second() -> str:
        """Append."""
        await journal().append(note("b"))
        return "ok"

    store = AppendBatches()
    async with open_runtime(store=store) as runtime:
        await runtime.run("Go.", using(first, second), session_id="s")
    assert store.batches.count(["notification", "notification"]) == 1
    check_records(await store.load("s"))


async def test_append_returns_when_its_event_is_recorded(autojump_clock: MockClock) -> None:
    recorded: list[int] = []

    async def busy() -> str:
        """Append two events, one while the other is committed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal().append, note("a"))
            await trio.sleep(0.1)
            await journal().append(note("b"))
            recorded.append(sum(batch.count("notification") for batch in store.batches))
        return "ok"

    store = AppendBatches()
    async with open_runtime(store=store) as runtime:
        await runtime.run("Go.", using(busy), session_id="s")
    assert recorded == [2]
    texts = [r.text for r in await store.load("s") if isinstance(r, Notification)]
    assert texts == ["a", "b"]


async def test_cancelled_append_is_recorded_with_the_run(autojump_clock: MockClock) -> None:
    async def give_up() -> str:
        """Append, and give up at once."""
        with trio.CancelScope() as scope:
            scope.cancel()
            await journal().append(note("a"))
        return "ok"

    store = AppendBatches()
    async with open_runtime(store=store) as runtime:
        await runtime.run("Go.", using(give_up), session_id="s")
    assert ["notification", "tool.result"] in store.batches


async def test_failed_append_fails_its_caller(autojump_clock: MockClock) -> None:
    async def unlucky() -> str:
        """Append to a store that fails."""
        store.fails = True
        with pytest.raises(SessionStoreError):
            await journal().append(note("a"))
        return "ok"

    store = AppendBatches()
    async with open_runtime(store=store) as runtime:
        with pytest.raises(SessionStoreError):
            await runtime.run("Go.", using(unlucky), session_id="s")


async def test_last_question_is_recorded_with_the_suspension(autojump_clock: MockClock) -> None:
    async def first() -> str:
        """Ask."""
        return "ok"

    async def second() -> str:
        """Ask."""
        return "ok"

    store = AppendBatches()
    options = using(first, second).evolve(
        permissions=PermissionPolicy(ask=["first", "second"]), on_ask="suspend"
    )
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("Go.", options, session_id="s")
    assert len(result.questions) == 2
    # The order of the two calls within a tick is random: at most one of them is recorded earlier.
    assert store.batches[-1][-3:] == ["user.question", "run.suspended", "result"]
    assert len(store.batches) <= 4
