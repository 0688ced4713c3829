"""How fast an endpoint may be asked, learnt from its refusals.

Owns what one endpoint has taught: until when it wants to be left alone, how many requests may wait
for its answer at once, and how many answers may be under way. An endpoint that never refuses is not
slowed at all. It knows no clock and no tasks: times are passed in, and whoever waits is told how
long.

Additive increase, multiplicative decrease: a refusal (429, or what else means "too much") halves
the window of unanswered requests, down to one, once for all that had been sent by then, and pauses
everybody for as long as the endpoint asked. Each answer widens the window again, by one in a whole
window's worth. An endpoint that bounds the answers under way is learnt through `ceiling` in the
same way. After a minute without a refusal all is as if there had been none.
"""

import math
from typing import Final

import attrs

_RECOVERED_AFTER: Final = 60.0
"""Seconds without a refusal after which nothing holds requests back: limits are per minute."""

_WIDE: Final = 64.0
"""Requests without an answer from which on a window no longer matters."""

_SHORTEST_GAP: Final = 0.01
"""Seconds between two requests, where one at a time is still too fast; less is none."""

_MANY: Final = 3
"""Refusals in a row, with one request at a time, that tell of a rate and not of chance."""

_LONGEST_GAP: Final = 1.0

_SHORTER: Final = 1 / 8
"""The part of the gap by which an answer shortens it."""


@attrs.define(eq=False)
class Ticket:
    """One request under way.

    Attributes:
        cuts: How often the window had been cut when it was sent.
        answered: True once something of its answer has come, or it has ended.
    """

    cuts: int
    answered: bool = False


@attrs.frozen
class PaceStatistics:
    """A snapshot of a pace.

    Attributes:
        refusals: How often the endpoint refused so far.
        window: Requests that may be without an answer at once; inf while nothing is held back.
        ceiling: Answers that may be under way at once; inf while nothing is held back.
        paused_until: Until when nothing is sent, by the clock that was passed in.
    """

    refusals: int
    window: float
    ceiling: float
    paused_until: float


@attrs.define(eq=False)
class Pace:
    """What one endpoint has taught. Times are seconds of any clock that never goes back."""

    # One look at this, and an endpoint that refuses nothing costs nothing.
    is_open: bool = attrs.field(default=True, init=False)
    _window: float = attrs.field(default=math.inf, init=False)
    _ceiling: float = attrs.field(default=math.inf, init=False)
    _paused_until: float = attrs.field(default=-math.inf, init=False)
    _unanswered: int = attrs.field(default=0, init=False)
    _cuts: int = attrs.field(default=0, init=False)
    _refused_at: float = attrs.field(default=-math.inf, init=False)
    _gap: float = attrs.field(default=0.0, init=False)
    _in_a_row: int = attrs.field(default=0, init=False)
    _refusals: int = attrs.field(default=0, init=False)
    # Answers begun so far: whoever was refused can tell whether others were not.
    answers: int = attrs.field(default=0, init=False)
    # When the first of the refusals came since which there was no answer; inf while there is none.
    refusing_since: float = attrs.field(default=math.inf, init=False)

    def wait(self, now: float, live: int) -> float:
        """Seconds until a request may begin: 0 for at once, inf for when another one gets on.

        Args:
            now: The time.
            live: Answers under way.
        """
        if self.is_open:
            return 0.0
        if now < self._paused_until:
            return self._paused_until - now
        if now >= self._refused_at + _RECOVERED_AFTER or self._window >= _WIDE:
            self._window = self._ceiling = self.refusing_since = math.inf
            self._gap = 0.0
            self.is_open = True
            return 0.0
        room = self._unanswered + 1 <= self._window and live < self._ceiling
        return 0.0 if room else math.inf

    def begin(self, now: float) -> Ticket:
        """A request is sent."""
        self._unanswered += 1
        if self._gap:
            self._paused_until = max(self._paused_until, now + self._gap)
        return Ticket(self._cuts)

    def answered(self, ticket: Ticket) -> None:
        """Something of the answer has come."""
        if not ticket.answered:
            self._settle(ticket)
            self.answers += 1
            self.refusing_since = math.inf
            self._window += 1 / self._window
            self._ceiling += 1 / self._ceiling
            self._in_a_row = 0
            self._gap -= self._gap * _SHORTER
            if self._gap < _SHORTEST_GAP:
                self._gap = 0.0

    def ended(self, ticket: Ticket) -> None:
        """The request is over; it may be without an answer. Idempotent."""
        if not ticket.answered:
            self._settle(ticket)

    def refused(self, ticket: Ticket, now: float, *, pause: float, live: int) -> None:
        """The endpoint refused a request, which has ended.

        Args:
            ticket: The request.
            now: The time.
            pause: Seconds for which the endpoint asked to be left alone; 0 if it named none.
            live: Answers under way beside this one.
        """
        self._refusals += 1
        self._refused_at = now
        self.refusing_since = min(self.refusing_since, now)
        self.is_open = False
        if ticket.cuts == self._cuts:  # else it was sent before the last cut, and says nothing new
            self._cut(live)
        self._paused_until = max(self._paused_until, now + max(pause, self._gap))

    def statistics(self) -> PaceStatistics:
        """A snapshot."""
        return PaceStatistics(self._refusals, self._window, self._ceiling, self._paused_until)

    def _cut(self, live: int) -> None:
        self._cuts += 1
        self._in_a_row += 1
        if self._in_a_row >= _MANY:  # a window of one is too wide
            self._gap = min(_LONGEST_GAP, max(_SHORTEST_GAP, self._gap * 2))
        self._window = 1.0 if self._window == math.inf else max(1.0, self._window / 2)
        self._ceiling = float(max(1, live))

    def _settle(self, ticket: Ticket) -> None:
        ticket.answered = True
        self._unanswered -= 1
