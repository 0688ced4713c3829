"""`ctx.record` of tools and hooks: events are validated and committed with the call's result."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import attrs
import pytest
import trio
import trio.lowlevel

from agent_actors import AgentOptions, Client, ToolContext, open_runtime, tool
from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.events import (
    AnyEvent,
    EventBuilder,
    FileChanged,
    Notification,
    UserMessage,
)
from agent_actors.errors import ConfigError, InvalidEventError
from agent_actors.hooks import (
    AfterAgentEvent,
    HookContext,
    PostToolUseEvent,
    PreToolUseEvent,
    SessionEndEvent,
)
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call
from agent_actors.tools.context import DetachedContext
from tests.runs.helpers import check_records
from tests.runs.hooks.helpers import USE, agent

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonValue

FILE: EventBuilder = partial(FileChanged, path="a.txt", content="new")
NOTE: EventBuilder = partial(Notification, text="indexed")
# The classes without the types of their fields.
ANY_FILE = cast("Callable[..., object]", FileChanged)
ANY_NOTE = cast("Callable[..., object]", Notification)


class AppendBatches(MemoryStore):
    """A store that records which events were committed together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    def append_nowait(self, append: LogAppend) -> AppendOutcome:
        self.batches.append([event.type for event in append.events])
        return super().append_nowait(append)

    def of(self, event_type: str) -> list[str]:
        """Return the batch with an event of this type."""
        (batch,) = [batch for batch in self.batches if event_type in batch]
        return batch


async def run(options: AgentOptions) -> tuple[AppendBatches, Sequence[AnyEvent]]:
    store = AppendBatches()
    async with open_runtime(store=store) as runtime:
        await runtime.run("Go.", options, session_id="s")
    records = await store.load("s")
    check_records(records)
    return store, records


def using(handler: Callable[..., object]) -> AgentOptions:
    made = tool(handler)
    model = ScriptedModel([call(made.name, {}), "Done."])
    return AgentOptions(model="m", provider=model, tools=[made])


async def test_tool_event_is_committed_with_its_result() -> None:
    async def edit(ctx: ToolContext) -> str:
        """Edit a file."""
        ctx.record(FILE)
        await trio.lowlevel.checkpoint()
        ctx.record(NOTE)
        return "edited"

    store, _ = await run(using(edit))
    assert store.of("file.changed") == ["file.changed", "notification", "tool.result"]


async def test_tool_in_a_thread_records_events() -> None:
    def edit(ctx: ToolContext) -> str:
        """Edit a file."""
        ctx.record(FILE)
        return "edited"

    store, _ = await run(using(edit))
    assert store.of("file.changed") == ["file.changed", "tool.result"]


async def test_failed_tool_keeps_its_events() -> None:
    async def edit(ctx: ToolContext) -> str:
        """Edit a file, and fail."""
        ctx.record(FILE)
        raise ValueError("late")

    store, _ = await run(using(edit))
    assert store.of("file.changed") == ["file.changed", "tool.result"]


async def test_cancelled_call_keeps_its_events() -> None:
    async def edit(ctx: ToolContext) -> None:
        """Edit a file, and wait."""
        ctx.record(FILE)
        recorded.set()
        await trio.sleep_forever()

    recorded, store = trio.Event(), AppendBatches()
    async with open_runtime(store=store) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(partial(runtime.run, "Go.", using(edit), session_id="s"))
        await recorded.wait()
        await runtime.interrupt("s")
    assert store.of("file.changed")[:2] == ["file.changed", "tool.result"]
    check_records(await store.load("s"))


async def test_record_after_the_call_raises() -> None:
    kept: list[ToolContext] = []

    async def keep(ctx: ToolContext) -> str:
        """Keep the context."""
        kept.append(ctx)
        return "ok"

    _, records = await run(using(keep))
    with pytest.raises(RuntimeError, match="has ended"):
        kept[0].record(FILE)
    assert "file.changed" not in [record.type for record in records]


async def test_recorded_event_shares_nothing_with_the_caller() -> None:
    lines: list[JsonValue] = [1]

    async def note(ctx: ToolContext) -> str:
        """Record data, and change it."""
        ctx.record(partial(Notification, text="x", data={"lines": lines}))
        lines.append(2)
        return "ok"

    _, records = await run(using(note))
    (noted,) = [record for record in records if isinstance(record, Notification)]
    assert noted.data == {"lines": [1]}


@pytest.mark.parametrize(
    ("event", "error", "message"),
    [
        (partial(UserMessage, text="hi"), ConfigError, "got UserMessage"),
        (partial(ANY_FILE, path=5, content=""), InvalidEventError, "path"),
        (partial(ANY_NOTE, text="x", data={"a": object()}), InvalidEventError, "notification"),
        (partial(FileChanged, path="a"), InvalidEventError, "without its header"),
        ("text", InvalidEventError, "without its header"),
    ],
)
async def test_invalid_events_are_refused(
    event: object, error: type[Exception], message: str
) -> None:
    async def record(ctx: ToolContext) -> str:
        """Record it."""
        with pytest.raises(error, match=message):
            ctx.record(cast("EventBuilder", event))
        return "refused"

    store, records = await run(using(record))
    assert [r.type for r in records].count("tool.result") == 1
    assert not {"file.changed", "notification"} & {r.type for r in records}
    assert store.batches


async def test_context_without_a_run_refuses_events() -> None:
    with pytest.raises(RuntimeError, match="no run made this call"):
        DetachedContext("tool").record(FILE)


async def test_tool_hooks_record_with_the_call() -> None:
    async def before(event: PreToolUseEvent, ctx: HookContext) -> None:
        ctx.record(FILE)

    async def after(event: PostToolUseEvent, ctx: HookContext) -> None:
        ctx.record(NOTE)

    store, _ = await run(agent(*USE, hooks={"before_tool": before, "after_tool": after}))
    assert store.of("file.changed") == ["file.changed", "notification", "tool.result"]


async def test_other_hooks_record_with_the_next_commit() -> None:
    contexts: list[HookContext] = []

    async def end(event: AfterAgentEvent, ctx: HookContext) -> None:
        contexts.append(ctx)
        ctx.record(NOTE)

    store, _ = await run(agent("Done.", hooks={"after_agent": end}))
    assert store.of("notification")[-1] == "result"
    with pytest.raises(RuntimeError, match="the run has ended"):
        contexts[0].record(NOTE)


async def test_session_end_hook_cannot_record() -> None:
    refused: list[str] = []

    async def end(event: SessionEndEvent, ctx: HookContext) -> None:
        try:
            ctx.record(NOTE)
        except RuntimeError as error:
            refused.append(str(error))

    await run(agent("Done.", hooks={"session_end": end}))
    assert refused == ["no run is live, so ctx.record() cannot record an event"]


async def test_hook_records_with_a_clients_result() -> None:
    async def after(event: PostToolUseEvent, ctx: HookContext) -> None:
        ctx.record(FILE)

    store = AppendBatches()
    options = attrs.evolve(agent(*USE, hooks={"after_tool": after}), auto_execute_tools=False)
    async with open_runtime(store=store) as runtime, Client(options, runtime=runtime) as client:
        await client.query("Go.")
        assert [block async for block in client.receive_messages()]
        await client.add_tool_result(client.open_calls[0].id, "fine")
    assert store.of("file.changed") == ["file.changed", "tool.result"]
