"""The request rate that an endpoint accepts, learned from its refusals.

This module owns the state learned about one endpoint: the time until which no requests may be sent,
the number of unanswered requests that are allowed at once, and the number of responses that may be
in progress at once. An endpoint that never refuses a request is not slowed down at all. The module
uses no clock and no tasks: the caller passes in the time, and methods return how long to wait.

The algorithm is additive increase, multiplicative decrease. A refusal (429, or another form of "too
many requests") halves the window of unanswered requests, but not below one, and pauses all requests
for as long as the endpoint asked. Refusals of requests that were sent before a rate reduction do
not cause another one. Each response widens the window again, by one per full window of responses.
The limit on the responses in progress, `ceiling`, is learned in the same way. After a minute
without a refusal, all limits are reset.
"""

import math
from typing import Final

import attrs

_RECOVERED_AFTER: Final = 60.0
"""The number of seconds without a refusal after which the limits are removed. Endpoints count
requests per minute.
"""

_WIDE: Final = 64.0
"""The number of unanswered requests above which the window no longer matters."""

_SHORTEST_GAP: Final = 0.01
"""The minimum number of seconds between two requests, used when one request at a time is still too
fast. A smaller gap is dropped.
"""

_MANY: Final = 3
"""The number of consecutive refusals, with one request at a time, that indicate a rate limit and
not chance.
"""

_LONGEST_GAP: Final = 1.0

_SHORTER: Final = 1 / 8
"""The fraction by which one response shortens the gap."""


@attrs.define(eq=False)
class Ticket:
    """One request in progress.

    Attributes:
        cuts: The number of rate reductions before the request was sent.
        answered: True once a part of the response has arrived, or the request has ended.
    """

    cuts: int
    answered: bool = False


@attrs.frozen
class RateStatistics:
    """A snapshot of the rate limits that were learned.

    Attributes:
        refusals: The number of refusals by the endpoint so far.
        window: The number of requests that may be unanswered at once; inf while there is no limit.
        ceiling: The number of responses that may be in progress at once; inf while there is no
            limit.
        paused_until: The time until which no requests are sent, on the caller's clock.
    """

    refusals: int
    window: float
    ceiling: float
    paused_until: float


@attrs.define(eq=False)
class RateController:
    """The state learned about one endpoint. Times are in seconds, on any monotonic clock."""

    # For an endpoint that never refuses, checking this flag is the only cost.
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
    # The number of responses begun so far. It shows a refused caller whether other requests were
    # accepted.
    answers: int = attrs.field(default=0, init=False)
    # The time of the first refusal since the last response; inf if there was none.
    refusing_since: float = attrs.field(default=math.inf, init=False)

    def wait(self, now: float, live: int) -> float:
        """Return the number of seconds until a request may begin.

        Args:
            now: The current time.
            live: The number of responses in progress.

        Returns:
            0 if a request may begin now; inf if another request must make progress first.
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
        """Record that a request is being sent."""
        self._unanswered += 1
        if self._gap:
            self._paused_until = max(self._paused_until, now + self._gap)
        return Ticket(self._cuts)

    def answered(self, ticket: Ticket) -> None:
        """Record that the first part of a response has arrived."""
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
        """Record the end of a request, with or without a response. Idempotent."""
        if not ticket.answered:
            self._settle(ticket)

    def refused(self, ticket: Ticket, now: float, *, pause: float, live: int) -> None:
        """Record that the endpoint refused a request, which has ended.

        Args:
            ticket: The request.
            now: The current time.
            pause: The pause that the endpoint asked for, in seconds; 0 if it did not ask for one.
            live: The number of other responses in progress.
        """
        self._refusals += 1
        self._refused_at = now
        self.refusing_since = min(self.refusing_since, now)
        self.is_open = False
        # A request that was sent before the last reduction shows nothing new.
        if ticket.cuts == self._cuts:
            self._cut(live)
        self._paused_until = max(self._paused_until, now + max(pause, self._gap))

    def statistics(self) -> RateStatistics:
        """Return a snapshot of the limits."""
        return RateStatistics(self._refusals, self._window, self._ceiling, self._paused_until)

    def _cut(self, live: int) -> None:
        self._cuts += 1
        self._in_a_row += 1
        if self._in_a_row >= _MANY:  # even a window of one is too wide
            self._gap = min(_LONGEST_GAP, max(_SHORTEST_GAP, self._gap * 2))
        self._window = 1.0 if self._window == math.inf else max(1.0, self._window / 2)
        self._ceiling = float(max(1, live))

    def _settle(self, ticket: Ticket) -> None:
        ticket.answered = True
        self._unanswered -= 1
