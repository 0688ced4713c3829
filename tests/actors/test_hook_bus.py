"""Fan-out of events to observers, which can neither change events nor block other code."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.hook_bus import DEDUP_WINDOW, HookBus, SubscriptionOptions
from agent_actors.domain.events import Event, Notification, ToolProgress, UserMessage
from agent_actors.errors import ConfigError, RuntimeClosed
from tests.actors.helpers import Attempt, Bug, notice, said, scope_of

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.fixture
async def bus(nursery: trio.Nursery) -> HookBus:
    made = HookBus()
    await nursery.start(made.owner.serve)
    return made


class Observer:
    """An observer that keeps the events that it gets, and that waits or raises on request."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.on_event: Callable[[Event], Awaitable[None]] | None = None

    async def __call__(self, event: Event) -> None:
        self.events.append(event)
        if self.on_event is not None:
            await self.on_event(event)

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.events]


def notices(first: int, end: int) -> list[Event]:
    return [notice(str(number)) for number in range(first, end)]


@pytest.mark.feature("ASDK-053")
async def test_every_observer_gets_every_event_in_order(bus: HookBus) -> None:
    one, two = Observer(), Observer()
    listened = [bus.has_subscribers]
    bus.subscribe(one)
    bus.subscribe(two)
    listened.append(bus.has_subscribers)
    assert listened == [False, True]
    bus.publish_nowait(notices(0, 10))
    bus.publish_nowait(notices(10, 12))
    await wait_all_tasks_blocked()
    assert one.ids == two.ids == [str(number) for number in range(12)]


async def test_publish_is_synchronous_and_never_blocks(
    bus: HookBus,
) -> None:
    slow, quick = Observer(), Observer()
    slow.on_event = hang
    bus.subscribe(slow, options=SubscriptionOptions(capacity=2))
    bus.subscribe(quick, options=SubscriptionOptions(capacity=10_000))
    with assert_no_checkpoints():
        for number in range(1_000):
            bus.publish_nowait([notice(str(number))])
        bus.statistics()
    await wait_all_tasks_blocked()
    assert len(quick.events) == 1_000
    assert len(slow.events) == 1


async def hang(_: Event) -> None:
    await trio.sleep_forever()


async def fail(_: Event) -> None:
    raise Bug("in an observer")


async def leave(_: Event) -> None:
    raise SystemExit(3)


async def test_subscriber_filters_by_type_and_session(bus: HookBus) -> None:
    exact, several, of_session, base = (Observer() for _ in range(4))
    bus.subscribe(exact, UserMessage)
    bus.subscribe(several, UserMessage, ToolProgress)
    bus.subscribe(of_session, session_id="b")
    bus.subscribe(base, Event)
    bus.publish_nowait(
        [
            notice("n-a", session_id="a"),
            notice("n-b", session_id="b"),
            said("hello")(scope_of("a"), "said", 1.0, seq=1),
            ToolProgress(scope_of("b"), "progress", 1.0, "call", "tool", 50),
        ]
    )
    await wait_all_tasks_blocked()
    assert exact.ids == ["said"]
    assert several.ids == ["said", "progress"]
    assert of_session.ids == ["n-b", "progress"]
    assert len(base.ids) == 4


async def test_class_filter_includes_subclasses(bus: HookBus) -> None:
    class Own(Notification):
        pass

    observer = Observer()
    bus.subscribe(observer, Notification)
    bus.publish_nowait([Own(scope_of("s"), "own", 1.0, "text")])
    await wait_all_tasks_blocked()
    assert observer.ids == ["own"]


@pytest.mark.feature("ASDK-055")
async def test_duplicate_events_are_dropped(
    bus: HookBus,
) -> None:
    observer = Observer()
    subscription = bus.subscribe(observer, options=SubscriptionOptions(capacity=1_000))
    first = notice("first", seq=1)
    bus.publish_nowait([first, first])
    bus.publish_nowait([notice("reread", seq=1)])
    bus.publish_nowait([notice("other session", session_id="other", seq=1)])
    await wait_all_tasks_blocked()
    assert observer.ids == ["first", "other session"]
    assert subscription.statistics().duplicates == 2


@pytest.mark.feature("ASDK-055")
@pytest.mark.parametrize(("between", "noticed"), [(DEDUP_WINDOW - 1, True), (DEDUP_WINDOW, False)])
@pytest.mark.parametrize("by", ["id", "seq"])
async def test_duplicate_window_is_256_events(
    bus: HookBus, between: int, noticed: bool, by: str
) -> None:
    observer = Observer()
    bus.subscribe(observer, options=SubscriptionOptions(capacity=1_000))
    recorded = by == "seq"
    bus.publish_nowait([notice("first", seq=1_000 if recorded else None)])
    bus.publish_nowait(
        [notice(f"n{number}", seq=number if recorded else None) for number in range(between)]
    )
    again = notice("again", seq=1_000) if recorded else notice("first")
    bus.publish_nowait([again])
    await wait_all_tasks_blocked()
    assert len(observer.events) == between + (1 if noticed else 2)


async def test_duplicates_are_detected_per_subscription(bus: HookBus) -> None:
    early, late = Observer(), Observer()
    bus.subscribe(early)
    bus.publish_nowait([notice("one")])
    bus.subscribe(late)
    bus.publish_nowait([notice("one")])
    await wait_all_tasks_blocked()
    assert early.ids == late.ids == ["one"]


async def test_full_queue_drops_and_counts_oldest_event(
    bus: HookBus,
) -> None:
    observer, go_on = Observer(), trio.Event()

    async def wait(_: Event) -> None:
        await go_on.wait()

    observer.on_event = wait
    subscription = bus.subscribe(observer, options=SubscriptionOptions(capacity=3))
    bus.publish_nowait([notice("first")])
    await wait_all_tasks_blocked()
    bus.publish_nowait(notices(0, 10))
    found = subscription.statistics()
    assert (found.queued, found.dropped) == (3, 7)
    go_on.set()
    await wait_all_tasks_blocked()
    assert observer.ids == ["first", "7", "8", "9"]


async def test_a_queue_without_room_is_refused(bus: HookBus) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        bus.subscribe(Observer(), options=SubscriptionOptions(capacity=0))
    assert not bus.has_subscribers


@pytest.mark.parametrize("harm", [fail, leave], ids=["exception", "SystemExit"])
async def test_failing_handler_harms_only_itself(
    bus: HookBus, caplog: pytest.LogCaptureFixture, harm: Callable[[Event], Awaitable[None]]
) -> None:
    raising, other = Observer(), Observer()
    raising.on_event = harm
    subscription = bus.subscribe(raising)
    bus.subscribe(other)
    bus.publish_nowait(notices(0, 2))
    await wait_all_tasks_blocked()
    assert raising.ids == other.ids == ["0", "1"]
    found = subscription.statistics()
    assert (found.failed, found.delivered) == (2, 0)
    assert "an observer raised an exception for event notification" in caplog.text


@pytest.mark.feature("ASDK-057")
async def test_hanging_handler_is_cancelled_per_event(
    bus: HookBus, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    hanging, other = Observer(), Observer()
    subscription = bus.subscribe(hanging, options=SubscriptionOptions(timeout=5))
    bus.subscribe(other)

    async def first_hangs(event: Event) -> None:
        if event.id == "0":
            await trio.sleep_forever()

    hanging.on_event = first_hangs
    bus.publish_nowait(notices(0, 2))
    await wait_all_tasks_blocked()
    assert other.ids == ["0", "1"]
    await trio.sleep(5.1)
    assert hanging.ids == ["0", "1"]
    found = subscription.statistics()
    assert (found.failed, found.delivered) == (1, 1)
    assert "exceeded its timeout of 5 s for event notification" in caplog.text


async def test_nursery_errors_of_hanging_handler_are_contained(
    bus: HookBus, autojump_clock: MockClock
) -> None:
    async def crumble(_: Event) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_stopped)
            await trio.sleep_forever()

    observer = Observer()
    observer.on_event = crumble
    subscription = bus.subscribe(observer, options=SubscriptionOptions(timeout=1))
    bus.publish_nowait(notices(0, 2))
    await trio.sleep(3)
    assert subscription.statistics().failed == 2


async def fail_when_stopped() -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise Bug("in finally")


async def test_crashing_handlers_end_with_the_actor(
    nursery: trio.Nursery,
) -> None:
    bus = HookBus()
    served = Attempt(nursery, bus.owner.serve)
    await wait_all_tasks_blocked()
    plain, grouped = Observer(), Observer()
    plain.on_event = hang

    async def crumble(_: Event) -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(fail_when_stopped)
            await trio.sleep_forever()

    grouped.on_event = crumble
    subscriptions = [bus.subscribe(plain), bus.subscribe(grouped)]
    bus.publish_nowait(notices(0, 1))
    await wait_all_tasks_blocked()
    served.scope.cancel()
    await served.ended.wait()
    assert served.outcome == "cancelled"
    assert all(subscription.ended.is_set() for subscription in subscriptions)
    assert bus.statistics().subscriptions == 0
    bus.publish_nowait(notices(1, 2))
    with pytest.raises(RuntimeClosed):
        bus.subscribe(plain)
    assert not bus.has_subscribers
    await bus.drain()


async def test_handler_runs_in_subscriber_context(bus: HookBus) -> None:
    seen: list[str] = []

    async def look(_: Event) -> None:
        seen.append(tenant.get())

    tenant.set("subscriber")
    bus.subscribe(look)
    tenant.set("publisher")
    bus.publish_nowait(notices(0, 1))
    await wait_all_tasks_blocked()
    assert seen == ["subscriber"]


async def test_leaving_unsubscribes_and_delivers_queued_events(
    bus: HookBus,
) -> None:
    observer = Observer()
    with bus.subscribe(observer) as subscription:
        bus.publish_nowait(notices(0, 3))
    bus.publish_nowait(notices(3, 6))
    await subscription.ended.wait()
    assert observer.ids == ["0", "1", "2"]
    assert not bus.has_subscribers


@pytest.mark.feature("ASDK-058")
async def test_drain_delivers_queued_events_and_is_idempotent(
    bus: HookBus, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    observer = Observer()

    async def take_a_second(_: Event) -> None:
        await trio.sleep(1)

    observer.on_event = take_a_second
    bus.subscribe(observer)
    bus.subscribe(Observer())
    bus.publish_nowait(notices(0, 5))
    drains = [Attempt(nursery, bus.drain) for _ in range(2)]
    await wait_all_tasks_blocked()
    bus.publish_nowait(notices(5, 6))
    for attempt in drains:
        await attempt.ended.wait()
    assert trio.current_time() == 5.0
    assert observer.ids == ["0", "1", "2", "3", "4"]
    await bus.drain()
    with pytest.raises(RuntimeClosed, match="hook bus"):
        bus.subscribe(observer)


async def test_cancelled_drain_can_be_repeated(bus: HookBus, nursery: trio.Nursery) -> None:
    observer, go_on = Observer(), trio.Event()

    async def wait(_: Event) -> None:
        await go_on.wait()

    observer.on_event = wait
    bus.subscribe(observer)
    bus.publish_nowait(notices(0, 2))
    first = Attempt(nursery, bus.drain)
    await wait_all_tasks_blocked()
    first.scope.cancel()
    await first.ended.wait()
    go_on.set()
    await bus.drain()
    assert observer.ids == ["0", "1"]


async def test_bus_and_subscriptions_have_statistics(bus: HookBus) -> None:
    observer = Observer()
    subscription = bus.subscribe(observer, options=SubscriptionOptions(capacity=10))
    bus.publish_nowait(notices(0, 4))
    assert subscription.statistics().queued == 4
    await wait_all_tasks_blocked()
    found = subscription.statistics()
    assert (found.queued, found.delivered, found.dropped) == (0, 4, 0)
    assert (found.duplicates, found.failed) == (0, 0)
    of_bus = bus.statistics()
    assert (of_bus.subscriptions, of_bus.published) == (1, 4)
