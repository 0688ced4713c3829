"""Observers in the public API: replays of recorded events, and a caller's own events."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.actors.hook_bus import Subscription, SubscriptionOptions
from agent_actors.actors.subscriber_queue import Overflow
from agent_actors.domain.events import (
    AssistantDelta,
    AssistantMessage,
    Event,
    EventScope,
    Notification,
    ResultEvent,
    ToolResult,
)
from agent_actors.errors import ConfigError, RuntimeClosed, RuntimeFailure
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.sqlite import SqliteStore
from agent_actors.testing import ScriptedModel, Turn, call, pause, say
from tests.actors.helpers import run_in_order
from tests.runs.helpers import check_quiet


@attrs.frozen
class Deployed(Event):
    """An event type of a user."""

    type: ClassVar[str] = "app.deployed"
    recorded: ClassVar[bool] = False
    release: str


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


def agent(turns: int = 1) -> AgentOptions:
    script = [turn for _ in range(turns) for turn in (call("echo", {"text": "a"}), "Done.")]
    return AgentOptions(model="m", provider=ScriptedModel(script), tools=[echo])


def no_event(scope: EventScope, event_id: str, ts: float) -> str:
    return f"{scope} {event_id} {ts}"


class Observer:
    def __init__(self, pace: float = 0.0) -> None:
        self.events: list[Event] = []
        self.pace = pace

    async def __call__(self, event: Event) -> None:
        if self.pace:
            await trio.sleep(self.pace)
        self.events.append(event)

    @property
    def seqs(self) -> list[int | None]:
        return [event.seq for event in self.events if event.seq is not None]


async def test_late_subscriber_gets_whole_session(
    autojump_clock: MockClock,
) -> None:
    options, late, early = agent(2), Observer(), Observer()
    async with open_runtime() as runtime:
        runtime.subscribe(early, session_id="s")
        await runtime.run("Go.", options, session_id="s")
        await runtime.run("Else.", agent(), session_id="other")
        runtime.subscribe(late, session_id="s", replay=True)
        await runtime.run("And.", options, session_id="s")
        await trio.sleep(1)
        check_quiet(runtime)
    assert late.seqs == early.seqs == list(range(1, len(late.seqs) + 1))
    recorded = [event for event in early.events if event.seq is not None]
    assert [event for event in late.events if event.seq is not None] == recorded


@pytest.mark.parametrize("kind", [SqliteStore, JsonlStore])
async def test_disk_store_replays_each_record_once(
    kind: type[SqliteStore] | type[JsonlStore], tmp_path: Path
) -> None:
    options, late, slow, everything = agent(12), Observer(), Observer(0.001), Observer()
    async with open_runtime(store=kind(tmp_path / "sessions")) as runtime:
        runtime.subscribe(everything, session_id="s", capacity=1_000)
        runtime.subscribe(slow, overflow="reread", capacity=2)
        for number in range(12):
            await runtime.run("Go.", options, session_id="s")
            if number == 5:
                runtime.subscribe(late, session_id="s", replay=True)
    recorded = [event for event in everything.events if event.seq is not None]
    assert [event for event in late.events if event.seq is not None] == recorded
    assert [event for event in slow.events if event.seq is not None] == recorded
    assert late.seqs == list(range(1, len(late.seqs) + 1))


async def test_subscription_resumes_after_last_record() -> None:
    options, first, second = agent(2), Observer(), Observer()
    async with open_runtime() as runtime:
        with runtime.subscribe(first, ToolResult, ResultEvent, session_id="s") as before:
            await runtime.run("Go.", options, session_id="s")
        await before.ended.wait()
        last = first.seqs[-1]
        await runtime.run("And.", options, session_id="s")
        runtime.subscribe(second, ToolResult, ResultEvent, session_id="s", after_seq=last)
        await wait_all_tasks_blocked()
    assert [type(event) for event in first.events] == [ToolResult, ResultEvent]
    assert [type(event) for event in second.events] == [ToolResult, ResultEvent]
    assert set(first.seqs).isdisjoint(second.seqs)


@given(seed=st.integers(0, 2**32), pace=st.sampled_from([0.0, 0.3]), at=st.integers(0, 8))
@settings(max_examples=30)
def test_any_timing_loses_no_record(seed: int, pace: float, at: int) -> None:
    async def main() -> None:
        observer, everywhere = Observer(pace), Observer(pace)
        turn: Turn = [say("a", "b"), pause(0.2), say("c")]
        options = AgentOptions(model="m", provider=ScriptedModel([turn] * 8))
        async with open_runtime() as runtime:
            runtime.subscribe(everywhere, overflow="reread", capacity=2)
            async with trio.open_nursery() as nursery:

                async def talk() -> None:
                    for _ in range(8):
                        await runtime.run("Go.", options, session_id="s")

                nursery.start_soon(talk)
                await trio.sleep(at * 0.19)
                runtime.subscribe(
                    observer, session_id="s", replay=True, overflow="reread", capacity=2
                )
            await trio.sleep(60)
        assert observer.seqs == everywhere.seqs == list(range(1, len(observer.seqs) + 1))
        assert isinstance(observer.events[-1], ResultEvent)

    run_in_order(main, seed)


async def test_evicted_session_is_followed_again(
    autojump_clock: MockClock,
) -> None:
    observer = Observer()
    async with open_runtime(session_ttl=10, store=MemoryStore()) as runtime:
        runtime.subscribe(observer, session_id="s", replay=True)
        await runtime.run("Go.", agent(), session_id="s")
        await trio.sleep(1000)
        await runtime.run("Go.", agent(), session_id="s")
        await trio.sleep(1)
    half = len(observer.seqs) // 2
    assert observer.seqs == [*range(1, half + 1)] * 2


async def test_pending_replay_finishes_before_store_closes(
    autojump_clock: MockClock,
) -> None:
    observer = Observer(pace=0.1)
    async with open_runtime() as runtime:
        kept = runtime.subscribe(observer, overflow="reread", capacity=1)
        await runtime.run("Go.", agent(), session_id="s")
    assert observer.seqs == list(range(1, len(observer.seqs) + 1))
    assert isinstance(observer.events[-1], ResultEvent)
    assert kept.end_reason == "shutdown"


@pytest.mark.parametrize("overflow", ["drop_oldest", "close", "reread"])
async def test_bad_subscriber_harms_no_other(overflow: Overflow, autojump_clock: MockClock) -> None:
    async def hang(_: Event) -> None:
        await trio.sleep_forever()

    async def fail(_: Event) -> None:
        raise ValueError("odd")

    good = Observer()
    base = SubscriptionOptions(capacity=2, overflow=overflow)
    async with open_runtime(subscriptions=base) as runtime:
        for bad in (hang, fail):
            runtime.subscribe(bad)
        runtime.subscribe(good, capacity=500, overflow="drop_oldest")
        assert (await runtime.run("Go.", agent())).text == "Done."
        await trio.sleep(1)
    assert good.seqs == list(range(1, len(good.seqs) + 1))


@pytest.mark.feature("ASDK-054")
async def test_queue_sizes_are_configurable() -> None:
    go_on = trio.Event()

    async def wait(_: Event) -> None:
        await go_on.wait()

    def dropped(one: Subscription) -> int:
        return one.statistics().dropped

    async with open_runtime(subscriptions=SubscriptionOptions(capacity=3)) as runtime:
        kept = [runtime.subscribe(wait), runtime.subscribe(wait, capacity=5)]
        for number in range(10):
            runtime.notify(str(number))
        assert [dropped(one) for one in kept] == [7, 5]
        go_on.set()
    with pytest.raises(ConfigError, match="after_seq cannot be a default"):
        open_runtime(subscriptions=SubscriptionOptions(after_seq=1))
    with pytest.raises(ConfigError, match="capacity must be an int of at least 1"):
        async with open_runtime() as runtime:
            runtime.subscribe(wait, capacity=0)


@pytest.mark.parametrize(
    ("arguments", "session_id", "message"),
    [
        ((5,), None, "a handler must be an async function that takes an event; got 5"),
        (
            (trio.sleep, "tool.result"),
            None,
            "types must be event classes, for example .*; got 'tool.result'",
        ),
        (
            (trio.sleep, Event, int),
            None,
            "types must be event classes, for example .*; got <class 'int'>",
        ),
        ((trio.sleep,), 5, "session_id must be a str; got 5"),
    ],
)
async def test_invalid_subscription_is_refused(
    arguments: tuple[object, ...], session_id: object, message: str
) -> None:
    async with open_runtime() as runtime:
        subscribe = cast("Callable[..., Subscription]", runtime.subscribe)
        with pytest.raises(ConfigError, match=message):
            subscribe(*arguments, session_id=session_id)
        assert (await runtime.run("Go.", agent())).text == "Done."


@pytest.mark.feature("ASDK-056")
async def test_own_event_gets_id_and_time() -> None:
    observer, deployed = Observer(), Observer()
    async with open_runtime() as runtime:
        runtime.subscribe(observer)
        runtime.subscribe(deployed, Deployed)
        sent = [
            runtime.publish(Deployed(EventScope("s", "", ""), "", 0.0, "1.2")),
            runtime.publish(partial(Deployed, release="1.3"), session_id="t"),
            runtime.publish(Deployed(EventScope("", "", ""), "own", 7.0, "1.4"), session_id="u"),
            runtime.notify("Look.", data={"at": 1}),
        ]
        await wait_all_tasks_blocked()
        with pytest.raises(ConfigError, match="not recorded; got an event with seq=3"):
            runtime.publish(Notification(EventScope("s", "", ""), "", 0.0, "text", seq=3))
        for wrong in ("text", no_event):
            with pytest.raises(ConfigError, match="expects an event"):
                runtime.publish(cast("Event", wrong))
    assert observer.events == sent
    assert deployed.events == sent[:3]
    assert [event.session_id for event in sent] == ["s", "t", "u", ""]
    assert (sent[2].id, sent[2].ts) == ("own", 7.0)
    assert all(event.id and event.ts > 0 for event in sent)
    assert len({event.id for event in sent}) == 4


@pytest.mark.feature("ASDK-052")
async def test_event_of_tool_belongs_to_run() -> None:
    observer = Observer()

    @tool
    async def work() -> str:
        """Work."""
        runtime.notify("Half way.")
        runtime.notify("Elsewhere.", session_id="other")
        return "done"

    model = ScriptedModel([call("work", {}), "Done."])
    options = AgentOptions(model="m", provider=model, tools=[work])
    async with open_runtime() as runtime:
        runtime.subscribe(observer, Notification)
        result = await runtime.run("Go.", options, session_id="s")
        await wait_all_tasks_blocked()
    scopes = [(event.session_id, event.run_id) for event in observer.events]
    assert scopes == [("s", result.run_id), ("other", "")]
    assert all(event.seq is None for event in observer.events)


@pytest.mark.feature("ASDK-059")
async def test_publish_needs_an_open_runtime() -> None:
    runtime = open_runtime()
    with pytest.raises(RuntimeFailure, match="not open"):
        runtime.notify("Too early.")
    async with runtime:
        runtime.notify("In time.")
    with pytest.raises(RuntimeClosed):
        runtime.notify("Too late.")
    with pytest.raises(RuntimeClosed):
        runtime.subscribe(Observer())


async def test_leaving_the_block_unsubscribes() -> None:
    observer = Observer()
    async with open_runtime() as runtime:
        with runtime.subscribe(observer) as left:
            runtime.notify("Heard.")
        runtime.notify("Not heard.")
        await left.ended.wait()
        assert runtime.statistics().bus.subscriptions == 0
    assert [getattr(event, "text", "") for event in observer.events] == ["Heard."]


async def test_joining_mid_response_shows_rest(
    autojump_clock: MockClock,
) -> None:
    observer = Observer()
    model = ScriptedModel([[say("one "), pause(5), say("two "), pause(5), say("three")]])
    options = AgentOptions(model="m", provider=model)

    async def attach(runtime: Runtime) -> None:
        await trio.sleep(2)
        runtime.subscribe(observer, AssistantDelta, AssistantMessage, session_id="s", replay=True)

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(attach, runtime)
        await runtime.run("Go.", options, session_id="s")
        await trio.sleep(1)
    texts = [getattr(event, "text", "") for event in observer.events]
    assert texts == ["two ", "three", "one two three"]


def typed(runtime: Runtime, of_result: Callable[[ToolResult], Awaitable[None]]) -> None:
    """Type check: a handler may accept just the event types that it subscribes to."""
    runtime.subscribe(of_result, ToolResult)


async def test_flat_names_use_the_same_bus() -> None:
    seen = Observer()
    async with open_runtime() as runtime:
        with runtime.subscribe(seen, Notification, session_id="s"):
            runtime.events.notify("one", session_id="s")
            runtime.notify("elsewhere", session_id="t")
            await wait_all_tasks_blocked()
        with runtime.events.subscribe(seen, Notification):
            runtime.notify("two")
            await wait_all_tasks_blocked()
    assert [event.text for event in seen.events if isinstance(event, Notification)] == [
        "one",
        "two",
    ]
