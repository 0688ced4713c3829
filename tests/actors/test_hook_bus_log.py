"""Observers that read the log: late ones, slow ones, and those whose log cannot be read."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors.abc import LogAppend
from agent_actors.actors.hook_bus import READ_TRIES, HookBus, Subscription, SubscriptionOptions
from agent_actors.actors.log_reader import LogReader
from agent_actors.actors.subscriber_queue import Overflow
from agent_actors.domain.events import AnyEvent, Event, Notification, UnknownEvent, UserMessage
from agent_actors.errors import ConfigError, RuntimeClosed, SessionStoreError
from agent_actors.stores.memory import MemoryStore
from tests.actors.helpers import Attempt, Bug, notice, scope_of


@attrs.define(eq=False)
class Waiting(MemoryStore):
    """A memory store that is read like one on disk, and whose reads wait or fail on request."""

    before: Callable[[], Awaitable[None]] | None = None
    reads: list[int] = attrs.field(factory=list[int])

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        return await super().load(session_id, after_seq=after_seq)

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        self.reads.append(after_seq)
        if self.before is not None:
            await self.before()
        return await super().export(session_id, after_seq=after_seq)


class Desk:
    """A bus on a store, and the events that one observer of it got."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.bus = HookBus(LogReader(store).read)
        self.got: list[str] = []
        self.slow = 0.0

    async def watch(self, event: Event) -> None:
        await trio.sleep(self.slow)
        self.got.append(event.id)

    def record(self, count: int, *, publish: bool = True) -> None:
        """Commit `count` more records, and publish them."""
        last = len(self.store.load_nowait("s"))
        events = tuple(notice(f"r{last + n}", seq=last + n) for n in range(1, count + 1))
        assert self.store.append_nowait(LogAppend("s", last, 1, events)) is None
        if publish:
            self.bus.publish_nowait(events)

    def subscribe(
        self,
        *types: type[Event],
        capacity: int = 4,
        overflow: Overflow = "reread",
        after_seq: int | None = None,
        session_id: str | None = "s",
    ) -> Subscription:
        options = SubscriptionOptions(capacity=capacity, overflow=overflow, after_seq=after_seq)
        return self.bus.subscribe(self.watch, *types, session_id=session_id, options=options)


@pytest.fixture(params=[MemoryStore, Waiting], ids=["instant", "as on disk"])
async def desk(request: pytest.FixtureRequest, nursery: trio.Nursery) -> Desk:
    made = Desk(request.param())
    await nursery.start(made.bus.owner.serve)
    return made


def records(first: int, last: int) -> list[str]:
    return [f"r{seq}" for seq in range(first, last + 1)]


async def test_late_subscriber_gets_log_then_live_events(desk: Desk) -> None:
    desk.record(5)
    late = desk.subscribe(after_seq=0, overflow="drop_oldest")
    desk.record(2)
    await wait_all_tasks_blocked()
    desk.bus.publish_nowait([notice("live")])
    desk.record(1)
    await wait_all_tasks_blocked()
    assert desk.got == [*records(1, 7), "live", "r8"]
    found = late.statistics()
    assert (found.reread, found.delivered, found.dropped, found.duplicates) == (7, 9, 0, 0)


async def test_replay_starts_after_given_record(desk: Desk) -> None:
    desk.record(5)
    desk.subscribe(after_seq=3)
    desk.subscribe(after_seq=9)
    await wait_all_tasks_blocked()
    assert desk.got == ["r4", "r5"]


@pytest.mark.parametrize("capacity", [1, 2, 7])
async def test_rereading_subscriber_misses_no_record(
    desk: Desk, capacity: int, autojump_clock: MockClock
) -> None:
    desk.slow = 1.0
    slow = desk.subscribe(capacity=capacity, session_id=None)
    for number in range(20):
        desk.record(3)
        desk.bus.publish_nowait([notice(f"live {number}")])
        await trio.sleep(0.5)
    await trio.sleep(100)
    assert [one for one in desk.got if one[0] == "r"] == records(1, 60)
    found = slow.statistics()
    assert found.reread > 0
    assert found.delivered + found.dropped == 80
    desk.record(1)
    await trio.sleep(5)
    desk.bus.publish_nowait([notice("at the end")])
    await trio.sleep(5)
    assert desk.got[-2:] == ["r61", "at the end"], "the subscriber has caught up"


async def test_type_filter_applies_to_replayed_records(desk: Desk) -> None:
    desk.record(2, publish=False)
    others = (
        UserMessage(scope_of("s"), "said", 1.0, "x", seq=3),
        UnknownEvent({"type": "from.the.future", "seq": 4, "v": 1, "id": "u", "ts": 1.0}),
    )
    assert desk.store.append_nowait(LogAppend("s", 2, 1, others)) is None
    desk.subscribe(UserMessage, after_seq=0)
    await wait_all_tasks_blocked()
    assert desk.got == ["said"]
    desk.subscribe(after_seq=2)
    await wait_all_tasks_blocked()
    assert desk.got == ["said", "said"], "unknown records are not delivered"


async def test_overflow_close_reports_reason_and_delivers_rest(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    closed = desk.subscribe(capacity=2, overflow="close")
    desk.record(4)
    await closed.ended.wait()
    assert (closed.end_reason, desk.got) == ("overflow", ["r1", "r2"])
    desk.record(1)
    assert closed.statistics().dropped == 1
    assert not desk.bus.has_subscribers


async def test_leaving_delivers_remaining_log_records(desk: Desk) -> None:
    desk.record(3)
    with desk.subscribe(after_seq=0) as left:
        desk.record(1)
    desk.bus.publish_nowait([notice("too late")])
    await left.ended.wait()
    assert desk.got == records(1, 4)
    assert left.end_reason == "left"


async def test_draining_delivers_remaining_log_records(desk: Desk) -> None:
    behind = desk.subscribe(capacity=1)
    desk.record(4)
    await desk.bus.drain()
    assert (behind.end_reason, desk.got) == ("shutdown", records(1, 4))


async def test_restarted_session_is_followed_from_start(desk: Desk) -> None:
    desk.subscribe(after_seq=0)
    desk.record(3)
    await wait_all_tasks_blocked()
    desk.store.evicted("s")
    desk.bus.session_left("s")
    desk.record(2)
    await wait_all_tasks_blocked()
    assert desk.got == [*records(1, 3), "r1", "r2"]


async def test_stale_replay_of_restarted_log_is_discarded(
    nursery: trio.Nursery,
) -> None:
    go_on = trio.Event()
    desk = Desk(Waiting(before=go_on.wait))
    await nursery.start(desk.bus.owner.serve)
    owed = desk.subscribe(after_seq=0)
    desk.record(3)
    await wait_all_tasks_blocked()
    desk.store.evicted("s")
    desk.bus.session_left("s")
    desk.record(2)
    go_on.set()
    await wait_all_tasks_blocked()
    assert desk.got == ["r1", "r2"]
    assert owed.statistics().dropped == 3


async def test_transient_log_failure_is_retried(
    autojump_clock: MockClock, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    async def busy() -> None:
        if len(store.reads) < READ_TRIES:
            raise OSError("busy")

    store = Waiting(before=busy)
    desk = Desk(store)
    await nursery.start(desk.bus.owner.serve)
    desk.record(2)
    desk.subscribe(after_seq=0)
    await trio.sleep(READ_TRIES)
    assert desk.got == records(1, 2)
    assert "session 's': its records cannot be read: OSError: busy" in caplog.text


@pytest.mark.parametrize("how", ["raises", "refuses", "hangs"])
async def test_unreadable_log_ends_only_its_subscription(
    how: str,
    autojump_clock: MockClock,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        if how == "raises":
            raise Bug("no disk")
        if how == "refuses":
            raise SessionStoreError("not yours", session_id="s")
        if how == "hangs":
            await trio.sleep_forever()

    store = Waiting(before=fail)
    desk = Desk(store)
    await nursery.start(desk.bus.owner.serve)
    owed = desk.subscribe(after_seq=0)
    other = desk.bus.subscribe(desk.watch)
    desk.bus.publish_nowait([notice("live")])
    with caplog.at_level(logging.ERROR):
        await owed.ended.wait()
    assert owed.end_reason == "log"
    assert isinstance(owed.failure, SessionStoreError)
    assert "a subscription has ended because" in caplog.text
    desk.bus.publish_nowait([notice("and on")])
    await wait_all_tasks_blocked()
    assert desk.got == ["live", "and on"]
    assert other.end_reason is None


async def test_cancelled_bus_stops_during_a_read(
    nursery: trio.Nursery,
) -> None:
    desk = Desk(Waiting(before=trio.sleep_forever))
    served = Attempt(nursery, desk.bus.owner.serve)
    await wait_all_tasks_blocked()
    owed = desk.subscribe(after_seq=0)
    await wait_all_tasks_blocked()
    served.scope.cancel()
    await served.ended.wait()
    assert owed.ended.is_set()


@pytest.mark.feature("ASDK-054")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity must be an int of at least 1; got 0"),
        ({"overflow": "wait"}, "drop_oldest, close, reread; got 'wait'"),
        ({"dedup_window": -1}, "dedup_window must be an int of at least 0; got -1"),
        ({"dedup_window": "1"}, "dedup_window must be an int of at least 0; got '1'"),
        ({"capacity": "5"}, "capacity must be an int of at least 1; got '5'"),
        ({"timeout": "5"}, "timeout must be above 0 seconds, or math.inf; got '5'"),
        ({"after_seq": True}, "after_seq must be an int of at least 0; got True"),
        ({"timeout": 0}, "above 0 seconds, or math.inf; got 0"),
        ({"after_seq": -1}, "after_seq must be an int of at least 0; got -1"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, object], message: str) -> None:
    make = cast("Callable[..., object]", SubscriptionOptions)
    with pytest.raises(ConfigError, match=message):
        make(**options)


async def test_replay_requires_session_and_log(nursery: trio.Nursery) -> None:
    desk = Desk(MemoryStore())
    await nursery.start(desk.bus.owner.serve)
    with pytest.raises(ConfigError, match="after_seq requires a session_id"):
        desk.subscribe(after_seq=0, session_id=None)
    without = HookBus()
    for options in (SubscriptionOptions(after_seq=0), SubscriptionOptions(overflow="reread")):
        with pytest.raises(ConfigError, match="no log to read from"):
            without.subscribe(desk.watch, session_id="s", options=options)
    assert not desk.bus.has_subscribers


@pytest.mark.feature("ASDK-059")
async def test_publish_after_close_is_refused(nursery: trio.Nursery) -> None:
    desk = Desk(MemoryStore())
    await nursery.start(desk.bus.owner.serve)
    desk.bus.publish(Notification(scope_of("s"), "n", 1.0, "text"))
    await desk.bus.drain()
    with pytest.raises(RuntimeClosed, match="the hook bus"):
        desk.bus.publish(Notification(scope_of("s"), "n", 1.0, "text"))
    assert desk.bus.statistics().published == 1
