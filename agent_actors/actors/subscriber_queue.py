"""The pending events of one subscriber: queued events, and gaps to be filled from the log.

A `SubscriberQueue` owns a bounded queue. For a subscriber that follows the log, it also owns the
seam of each session: the `seq` up to which records were queued, read or skipped. The module is
pure, and knows nothing about tasks or the store. The delivering task takes an event or a gap. For a
gap, it reads the log from the record after `after`, and reports the `seq` up to which it has read.

Two rules keep the seam correct. First, while a session has a gap, none of its records are queued: a
published record only moves the gap's `target`, because by then the record is in the log. Second, a
gap is closed when the log has been read up to its target. From then on, a record at or below the
seam is a repeat, and a record that does not directly follow the seam opens a new gap. The records
of a session are published in the order of their `seq`.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, Literal, TypeAlias, TypeVar

import attrs

from agent_actors.domain.events import Event

K = TypeVar("K", bound=Hashable)

# The policy for a full queue: drop the oldest event, end the subscription, or read recorded events
# again from the log and drop live-only events.
Overflow: TypeAlias = Literal["drop_oldest", "close", "reread"]

# The number of sessions whose seam is remembered. It is far larger than the number of sessions that
# can be between a commit and its publication. A forgotten session starts again with its next
# record.
SEAMS: Final = 1024


@attrs.define(eq=False)
class Gap:
    """Records of one session that must be read from the log.

    Attributes:
        session_id: The session.
        after: All records up to this `seq` have been delivered, are queued or are not wanted.
        target: The highest `seq` known to be in the log.
        position: The number of events queued before the gap, which are delivered first.
        left: True if the session has since been evicted from memory, so its log may start again.
        requested: The value of `target` when the log was last read; 0 before the first time.
    """

    session_id: str
    after: int
    target: int
    position: int
    left: bool = False
    requested: int = 0


class SubscriberQueue:
    """The queue and the gaps of one subscriber.

    Args:
        types: The event classes to deliver.
        session_id: The session to deliver events of; None for all sessions.
        capacity: The maximum number of waiting events; at least 1.
        overflow: The policy for a full queue.
        window: The number of ids to remember for detecting repeats.
        after_seq: Start with the session's log, after this `seq`; None to start with the next
            published event.

    Attributes:
        dropped: The number of wanted events that will never be delivered.
        duplicates: The number of events that had already been seen.
        overflowed: True if the queue was full, which ends the subscription.
    """

    def __init__(
        self,
        types: tuple[type[Event], ...],
        session_id: str | None,
        *,
        capacity: int,
        overflow: Overflow,
        window: int,
        after_seq: int | None = None,
    ) -> None:
        self._types = types
        self._session_id = session_id
        self._capacity = capacity
        self._overflow: Overflow = overflow
        self._window = window
        self._follows = overflow == "reread" or after_seq is not None
        self._queue: deque[Event] = deque()
        # The number of events queued, and the number taken out of the queue, so far.
        self._queued = self._taken = 0
        self._gaps: dict[str, Gap] = {}
        self._seams: OrderedDict[str, int] = OrderedDict()
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._seqs: OrderedDict[tuple[str, int], None] = OrderedDict()
        self.dropped: int = 0
        self.duplicates: int = 0
        self.overflowed: bool = False
        if after_seq is not None:
            assert session_id is not None
            self._open_gap(session_id, after_seq, after_seq)

    def __len__(self) -> int:
        """Return the number of queued events."""
        return len(self._queue)

    def offer(self, event: Event) -> None:
        """Process a published event, and queue it if it is wanted."""
        if self._session_id is not None and event.session_id != self._session_id:
            return
        is_subscribed = isinstance(event, self._types)
        if self._follows and event.seq is not None:
            self._offer_record(event, event.seq, is_subscribed=is_subscribed)
        elif not is_subscribed:
            return
        elif self._is_repeat(event):
            self.duplicates += 1
        elif event.session_id in self._gaps:
            self.dropped += 1  # live only: after the records from the log, it would be out of order
        else:
            self._put(event)

    def wants(self, record: object) -> bool:
        """Return whether a record from the log has a wanted type."""
        return isinstance(record, self._types)

    def take(self) -> Event | Gap | None:
        """Remove and return the next event, or return the next gap; None if there is none."""
        gap = next(iter(self._gaps.values()), None)
        if gap is not None and gap.position <= self._taken:
            gap.requested = gap.target
            return gap
        if not self._queue:
            return None
        self._taken += 1
        return self._queue.popleft()

    def fill(self, gap: Gap, upto: int) -> bool:
        """Report that the log was read from the record after `gap.after` up to `upto`, its end.

        Returns:
            True if the records should be delivered; False if the log has started again in the
            meantime.
        """
        if self._gaps.get(gap.session_id) is not gap:
            return False
        if upto < gap.target and (gap.after < upto or gap.requested < gap.target):
            gap.after = max(gap.after, upto)  # read again: the log may have grown meanwhile
            return True
        del self._gaps[gap.session_id]
        self.dropped += max(0, gap.target - upto)  # records that the log no longer has
        self._set_seam(gap.session_id, max(upto, gap.target))
        return True

    def session_left(self, session_id: str) -> None:
        """Record that the session was evicted from memory; its log may start again at 1."""
        self._seams.pop(session_id, None)
        for key in [key for key in self._seqs if key[0] == session_id]:
            del self._seqs[key]
        gap = self._gaps.get(session_id)
        if gap is not None:
            gap.left = True

    def clear(self) -> None:
        """Drop all queued events and gaps."""
        self.dropped += len(self._queue)
        self._queue.clear()
        self._gaps.clear()

    def _offer_record(self, event: Event, seq: int, *, is_subscribed: bool) -> None:
        session_id = event.session_id
        gap = self._gaps.get(session_id)
        if gap is not None:
            if not gap.left or seq > gap.target:
                gap.target, gap.left = max(gap.target, seq), False
                return
            del self._gaps[session_id]  # the old log is gone, and a new one starts here
            self.dropped += gap.target - gap.after
        seam = self._seams.get(session_id)
        if seam is not None and seq <= seam:
            self.duplicates += is_subscribed
        elif seam is not None and seq > seam + 1:
            self._open_gap(session_id, seam, seq)
        elif is_subscribed and self._overflow == "reread" and len(self._queue) >= self._capacity:
            self._open_gap(session_id, seq - 1, seq)
        else:
            self._set_seam(session_id, seq)
            if is_subscribed:
                self._put(event)

    def _open_gap(self, session_id: str, after: int, target: int) -> None:
        self._gaps[session_id] = Gap(session_id, after, target, self._queued)

    def _set_seam(self, session_id: str, seq: int) -> None:
        self._seams[session_id] = seq
        self._seams.move_to_end(session_id)
        if len(self._seams) > SEAMS:
            self._seams.popitem(last=False)

    def _put(self, event: Event) -> None:
        if self.overflowed:
            self.dropped += 1
            return
        if len(self._queue) >= self._capacity:
            self.dropped += 1
            if self._overflow == "close":
                self.overflowed = True
                return
            if self._overflow == "reread":
                return  # live only; the oldest queued event may be a record
            self._queue.popleft()
            self._taken += 1
        self._queue.append(event)
        self._queued += 1

    def _is_repeat(self, event: Event) -> bool:
        if not self._window:
            return False
        repeat = self._is_known(event.id, self._ids)
        if event.seq is not None:
            repeat |= self._is_known((event.session_id, event.seq), self._seqs)
        return repeat

    def _is_known(self, key: K, window: "OrderedDict[K, None]") -> bool:
        known = key in window
        window[key] = None
        window.move_to_end(key)
        if len(window) > self._window:
            window.popitem(last=False)
        return known
