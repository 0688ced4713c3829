"""The queue of a subscriber: the switch from records of the log to published events."""

from collections.abc import Callable

import pytest
from hypothesis import settings, target
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from agent_actors.actors import subscriber_queue as _backlog
from agent_actors.actors.subscriber_queue import Gap, Overflow, SubscriberQueue
from agent_actors.domain.events import Event, Notification, UserMessage
from tests.actors.helpers import notice, scope_of


def backlog(
    *,
    types: tuple[type[Event], ...] = (Event,),
    session_id: str | None = None,
    capacity: int = 2,
    overflow: Overflow = "reread",
    window: int = 256,
    after_seq: int | None = None,
) -> SubscriberQueue:
    return SubscriberQueue(
        types,
        session_id,
        capacity=capacity,
        overflow=overflow,
        window=window,
        after_seq=after_seq,
    )


def record(seq: int, session_id: str = "s") -> Event:
    return notice(f"{session_id}{seq}", session_id=session_id, seq=seq)


def drain(waiting: SubscriberQueue, log: list[Event]) -> list[str]:
    """Take all items, and fill gaps from this log of `s`."""
    got: list[str] = []
    while (item := waiting.take()) is not None:
        if isinstance(item, Gap):
            tail = [one for one in log if (one.seq or 0) > item.after]
            if waiting.fill(item, tail[-1].seq or 0 if tail else item.after):
                got += [one.id for one in tail if waiting.wants(one)]
        else:
            got.append(item.id)
    return got


SESSIONS = ("a", "b")


class Seam(RuleBasedStateMachine):
    """Commits, publications, deltas and reads of the log, in any order that a runtime allows."""

    @initialize(
        capacity=st.integers(1, 4),
        late=st.booleans(),
        before=st.integers(0, 5),
        after=st.integers(0, 5),
        only_notes=st.booleans(),
    )
    def begin(self, capacity: int, late: bool, before: int, after: int, only_notes: bool) -> None:
        self.logs: dict[str, list[Event]] = {name: [] for name in SESSIONS}
        # The committed events that are published next, and the greatest published `seq`.
        self.unpublished: dict[str, list[Event]] = {name: [] for name in SESSIONS}
        self.published: dict[str, int] = {"a": 0, "b": 0}
        self.got: list[Event] = []
        self.offered = 0
        self.reading: tuple[Gap, list[Event]] | None = None
        self.types: tuple[type[Event], ...] = (Notification,) if only_notes else (Event,)
        for number in range(before):
            self._commit("a", note=number % 2 == 0)
        self.published["a"] = before
        # The record after which each session begins; None: at the first published record.
        self.began: dict[str, int | None] = {"a": after if late else None, "b": None}
        self.sessions = ("a",) if late else SESSIONS
        self.waiting = backlog(
            types=self.types,
            session_id="a" if late else None,
            capacity=capacity,
            after_seq=after if late else None,
        )

    def _commit(self, session_id: str, *, note: bool) -> Event:
        log = self.logs[session_id]
        seq = len(log) + 1
        if note:
            log.append(record(seq, session_id))
        else:
            log.append(UserMessage(scope_of(session_id), f"{session_id}{seq}", 1.0, "x", seq=seq))
        return log[-1]

    @rule(session_id=st.sampled_from(SESSIONS), note=st.booleans())
    def commit(self, session_id: str, note: bool) -> None:
        self.unpublished[session_id].append(self._commit(session_id, note=note))

    @rule(session_id=st.sampled_from(SESSIONS))
    def publish(self, session_id: str) -> None:
        for event in self.unpublished[session_id]:
            assert event.seq is not None
            if self.began[session_id] is None:
                self.began[session_id] = event.seq - 1
            self.published[session_id] = event.seq
            self.waiting.offer(event)
        self.unpublished[session_id] = []

    @rule(session_id=st.sampled_from(SESSIONS))
    def lose_the_publishing_of_a_commit(self, session_id: str) -> None:
        """The outcome of the commit was unknown, but the commit succeeded."""
        self.unpublished[session_id] = []

    @rule(session_id=st.sampled_from(SESSIONS))
    def show_a_delta(self, session_id: str) -> None:
        self.offered += 1
        self.waiting.offer(notice(f"live {self.offered}", session_id=session_id))

    @rule()
    def take_or_read(self) -> None:
        if self.reading is not None:
            gap, tail = self.reading
            self.reading = None
            assert self.waiting.fill(gap, (tail[-1].seq or 0) if tail else gap.after)
            self.got += [one for one in tail if self.waiting.wants(one)]
            return
        item = self.waiting.take()
        if isinstance(item, Gap):
            self.reading = (item, self.logs[item.session_id][item.after :])
        elif item is not None:
            self.got.append(item)

    @invariant()
    def every_record_came_once_and_in_order(self) -> None:
        for name in self.sessions if hasattr(self, "waiting") else ():
            seqs = [e.seq for e in self.got if e.session_id == name and e.seq is not None]
            assert seqs == self._due(name)[: len(seqs)]

    def _due(self, name: str) -> list[int | None]:
        began = self.began[name]
        if began is None:
            return []
        return [e.seq for e in self.logs[name][began:] if isinstance(e, self.types)]

    def teardown(self) -> None:
        if not hasattr(self, "waiting"):
            return
        for name in SESSIONS:
            self.publish(name)
        for _ in range(10_000):
            idle = self.reading is None
            before = len(self.got)
            self.take_or_read()
            if idle and self.reading is None and len(self.got) == before:
                break
        self.every_record_came_once_and_in_order()
        for name in self.sessions:
            seqs = {e.seq for e in self.got if e.session_id == name}
            due = {seq for seq in self._due(name) if (seq or 0) <= self.published[name]}
            assert due <= seqs, f"missing in {name}: {sorted(due - seqs, key=str)}"
        target(float(self.waiting.dropped))


Seam.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestSeam = Seam.TestCase


def test_log_fills_gap_of_full_queue() -> None:
    waiting = backlog(capacity=2)
    log = [record(seq) for seq in range(1, 8)]
    for event in log[:5]:
        waiting.offer(event)
    assert len(waiting) == 2
    assert drain(waiting, log[:6]) == ["s1", "s2", "s3", "s4", "s5", "s6"]
    waiting.offer(log[5])  # it came from the log already
    waiting.offer(log[6])
    assert drain(waiting, log) == ["s7"]
    assert (waiting.duplicates, waiting.dropped) == (1, 0)


def test_events_around_a_gap_keep_order() -> None:
    waiting = backlog(capacity=2)
    waiting.offer(record(1, "a"))
    waiting.offer(record(1))
    waiting.offer(record(2))
    assert [getattr(waiting.take(), "id", None) for _ in range(2)] == ["a1", "s1"]
    waiting.offer(record(2, "a"))
    gap = waiting.take()
    assert isinstance(gap, Gap)
    assert (gap.session_id, gap.after, gap.target) == ("s", 1, 2)
    assert waiting.take() is gap
    assert waiting.fill(gap, 2)
    assert waiting.take() == record(2, "a")


def test_late_subscriber_reads_log_before_live_events() -> None:
    log = [record(seq) for seq in range(1, 6)]
    waiting = backlog(session_id="s", after_seq=2, overflow="drop_oldest")
    waiting.offer(notice("live, too early"))
    waiting.offer(notice("elsewhere", session_id="other"))
    waiting.offer(log[3])
    assert drain(waiting, log[:4]) == ["s3", "s4"]
    waiting.offer(log[3])
    waiting.offer(notice("live"))
    waiting.offer(log[4])
    assert drain(waiting, log) == ["live", "s5"]
    assert (waiting.duplicates, waiting.dropped) == (1, 1)


def test_unpublished_record_comes_from_the_log() -> None:
    log = [record(seq) for seq in range(1, 6)]
    waiting = backlog(session_id="s", after_seq=0)
    assert drain(waiting, log[:1]) == ["s1"]
    waiting.offer(log[4])
    assert drain(waiting, log) == ["s2", "s3", "s4", "s5"]


def test_records_missing_from_log_are_counted() -> None:
    waiting = backlog(session_id="s", after_seq=0)
    waiting.offer(record(3))
    assert drain(waiting, []) == []
    assert waiting.dropped == 3
    waiting.offer(record(4))
    assert drain(waiting, []) == ["s4"]


def test_record_published_while_log_is_read() -> None:
    waiting = backlog(session_id="s", after_seq=0)
    gap = waiting.take()
    assert isinstance(gap, Gap)
    waiting.offer(record(1))  # committed after the log was read
    assert waiting.fill(gap, 0)
    assert waiting.take() is gap
    assert waiting.fill(gap, 1)
    assert (waiting.take(), waiting.dropped) == (None, 0)


def test_reading_continues_where_it_ended() -> None:
    waiting = backlog(session_id="s", after_seq=0)
    waiting.offer(record(5))
    gap = waiting.take()
    assert isinstance(gap, Gap)
    assert waiting.fill(gap, 3)
    again = waiting.take()
    assert again is gap
    assert gap.after == 3
    assert waiting.fill(gap, 5)
    assert waiting.take() is None


@pytest.mark.parametrize("read", [False, True], ids=["begun before", "begun while it is read"])
def test_restarted_log_is_followed_from_start(read: bool) -> None:
    waiting = backlog(session_id="s", after_seq=10)
    waiting.offer(record(12))
    gap = waiting.take() if read else None
    waiting.session_left("s")
    waiting.offer(record(1))
    if gap is not None:
        assert isinstance(gap, Gap)
        assert not waiting.fill(gap, 12), "the records may come from either log"
    assert drain(waiting, [record(1)]) == ["s1"]
    assert waiting.dropped == 2
    waiting.session_left("s")
    waiting.offer(record(1))
    assert drain(waiting, []) == ["s1"]


def test_evicted_session_leaves_no_gap() -> None:
    log = [record(seq) for seq in range(1, 15)]
    waiting = backlog(session_id="s", after_seq=10)
    waiting.offer(log[11])
    waiting.session_left("s")
    waiting.offer(log[12])
    waiting.offer(log[13])
    assert drain(waiting, log) == ["s11", "s12", "s13", "s14"]


def test_evicted_session_is_no_duplicate() -> None:
    waiting = backlog(overflow="drop_oldest", capacity=9)
    waiting.offer(record(1))
    waiting.offer(record(1, "other"))
    waiting.session_left("s")
    waiting.offer(notice("anew", seq=1))
    waiting.offer(notice("repeat", session_id="other", seq=1))
    assert drain(waiting, []) == ["s1", "other1", "anew"]


def test_remembered_seams_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_backlog, "SEAMS", 2)
    waiting = backlog(capacity=9)
    for name in "abc":
        waiting.offer(record(1, name))
    for name in "abc":
        waiting.offer(record(1, name))
    assert drain(waiting, []) == ["a1", "b1", "c1", "a1", "b1", "c1"]


def test_close_policy_ends_queue_on_overflow() -> None:
    waiting = backlog(overflow="close", capacity=2)
    for number in range(4):
        waiting.offer(notice(str(number)))
    assert waiting.overflowed
    assert drain(waiting, []) == ["0", "1"]
    assert waiting.dropped == 2


def test_live_deltas_give_way_to_waiting_events() -> None:
    waiting = backlog(capacity=1)
    waiting.offer(record(1))
    waiting.offer(notice("live"))
    assert drain(waiting, []) == ["s1"]
    assert waiting.dropped == 1


def test_unwanted_record_moves_the_seam() -> None:
    waiting = backlog(types=(UserMessage,), capacity=1)
    for seq in range(1, 5):
        waiting.offer(record(seq))
    waiting.offer(record(4))
    assert (len(waiting), waiting.duplicates, waiting.take()) == (0, 0, None)


@pytest.mark.feature("ASDK-054")
@pytest.mark.parametrize(("window", "noticed"), [(0, False), (1, False), (2, True)])
def test_number_of_remembered_ids_is_configurable(window: int, noticed: bool) -> None:
    waiting = backlog(overflow="drop_oldest", capacity=9, window=window)
    for name in ("one", "two", "one"):
        waiting.offer(notice(name))
    assert waiting.duplicates == noticed


@pytest.mark.parametrize("fill", [backlog, lambda: backlog(session_id="s", after_seq=0)])
def test_cleared_queue_is_empty(fill: Callable[[], SubscriberQueue]) -> None:
    waiting = fill()
    waiting.offer(record(1))
    waiting.clear()
    assert waiting.take() is None
