"""What one subscriber still has to get: events that wait for it, and gaps that the log has to fill.

Owns a bounded queue and, for a subscriber that follows the log, the seam of each session: up to
where its records were queued, read or passed over. It is pure, and knows no tasks and no store: who
delivers takes an event or a gap, reads the log after the gap's `after`, and says how far that went.

The seam holds by two rules. While a session has a gap, none of its records is queued: each only
moves the gap's `target`, since it is in the log by then. A gap is closed when the log was read up
to its target, and from there on a record at or below the seam is a repeat, and one that is not next
after it opens a gap anew. Records of a session are published in the order of their `seq`.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, Literal, TypeAlias, TypeVar

import attrs

from agent_actors.domain.events import Event

K = TypeVar("K", bound=Hashable)

# What a full queue does: the oldest event goes; the subscription ends; or what is recorded is read
# again from the log, and what is live only goes.
Overflow: TypeAlias = Literal["drop_oldest", "close", "reread"]

# Sessions whose seam is remembered: far more than can be between a commit and its publishing. One
# that is forgotten begins anew with its next record.
SEAMS: Final = 1024


@attrs.define(eq=False)
class Gap:
    """Records of one session that are to come from the log.

    Attributes:
        session_id: The session.
        after: Everything up to this `seq` is delivered, queued or not wanted.
        target: The highest `seq` that is known to be in the log.
        position: How many events were queued before it: these come first.
        left: The session has left the memory since; its log may begin anew.
    """

    session_id: str
    after: int
    target: int
    position: int
    left: bool = False


class Backlog:
    """The queue and the gaps of one subscriber.

    Args:
        types: The event classes that are wanted.
        session_id: The session that is wanted; None: all.
        capacity: Events that may wait; at least 1.
        overflow: What a full queue does.
        window: How many ids are remembered, to know a repeat by.
        after_seq: Begin with the log of the session, after this `seq`; None: with what is published
            next.

    Attributes:
        dropped: Events that were wanted and will not come.
        duplicates: Events that were known.
        overflowed: The queue was full, and the subscription ends by that.
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
        # The events queued, and taken out of the queue, so far.
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
        """The events that wait in the queue."""
        return len(self._queue)

    def offer(self, event: Event) -> None:
        """Take what was published, if it is wanted."""
        if self._session_id is not None and event.session_id != self._session_id:
            return
        wanted = isinstance(event, self._types)
        if self._follows and event.seq is not None:
            self._offer_record(event, event.seq, wanted=wanted)
        elif not wanted:
            return
        elif self._is_repeat(event):
            self.duplicates += 1
        elif event.session_id in self._gaps:
            self.dropped += 1  # live only: behind the log it would be out of order
        else:
            self._put(event)

    def wants(self, record: object) -> bool:
        """Whether what was read from the log is of a type that is wanted."""
        return isinstance(record, self._types)

    def take(self) -> Event | Gap | None:
        """What comes next: an event, which is taken, or a gap to fill; None if nothing waits."""
        gap = next(iter(self._gaps.values()), None)
        if gap is not None and gap.position <= self._taken:
            return gap
        if not self._queue:
            return None
        self._taken += 1
        return self._queue.popleft()

    def fill(self, gap: Gap, upto: int) -> bool:
        """The log was read after `gap.after` and up to there, its end at that time.

        Returns:
            Whether to deliver what was read; no, if the log has begun anew meanwhile.
        """
        if self._gaps.get(gap.session_id) is not gap:
            return False
        if gap.after < upto < gap.target:
            gap.after = upto
            return True
        del self._gaps[gap.session_id]
        self.dropped += max(0, gap.target - upto)  # what the log no longer has
        self._set_seam(gap.session_id, max(upto, gap.target))
        return True

    def session_left(self, session_id: str) -> None:
        """The session has left the memory: its log may begin anew, at 1."""
        self._seams.pop(session_id, None)
        for key in [key for key in self._seqs if key[0] == session_id]:
            del self._seqs[key]
        gap = self._gaps.get(session_id)
        if gap is not None:
            gap.left = True

    def clear(self) -> None:
        """Nothing more is to come."""
        self.dropped += len(self._queue)
        self._queue.clear()
        self._gaps.clear()

    def _offer_record(self, event: Event, seq: int, *, wanted: bool) -> None:
        session_id = event.session_id
        gap = self._gaps.get(session_id)
        if gap is not None:
            if not gap.left or seq > gap.target:
                gap.target, gap.left = max(gap.target, seq), False
                return
            del self._gaps[session_id]  # that log is gone, and this one begins
            self.dropped += gap.target - gap.after
        seam = self._seams.get(session_id)
        if seam is not None and seq <= seam:
            self.duplicates += wanted
        elif seam is not None and seq > seam + 1:
            self._open_gap(session_id, seam, seq)
        elif wanted and self._overflow == "reread" and len(self._queue) >= self._capacity:
            self._open_gap(session_id, seq - 1, seq)
        else:
            self._set_seam(session_id, seq)
            if wanted:
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
                return  # live only: the oldest that waits may be a record
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
