"""The request rate for an endpoint is learned from its refusals."""

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.protocol.rate_control import RateController, Ticket


def refused(pace: RateController, *, now: float = 0.0, pause: float = 0.0, live: int = 0) -> None:
    ticket = pace.begin(0)
    pace.refused(ticket, now, pause=pause, live=live)
    pace.ended(ticket)


def answered(pace: RateController, count: int) -> None:
    for _ in range(count):
        pace.answered(pace.begin(0))


def admitted(pace: RateController, *, now: float = 0.0, live: int = 0) -> list[Ticket]:
    """Begin as many requests as the window allows."""
    tickets: list[Ticket] = []
    while pace.wait(now, live) == 0 and len(tickets) < 1000:
        tickets.append(pace.begin(now))
    return tickets


def test_unrefused_endpoint_is_not_slowed() -> None:
    assert len(admitted(RateController(), live=10**6)) == 1000


def test_refusal_reduces_to_one_request() -> None:
    pace = RateController()
    refused(pace)
    assert len(admitted(pace)) == 1


def test_response_widens_refusal_halves_window() -> None:
    pace = RateController()
    refused(pace)
    answered(pace, 40)
    wide = pace.statistics().window
    assert 8 < wide < 10  # 1 + 1 + 1/2 + ...: the window grows by one per window of responses
    refused(pace)
    assert pace.statistics().window == wide / 2
    for _ in range(10):
        refused(pace)
    assert pace.statistics().window == 1


def test_refusals_from_before_cut_are_ignored() -> None:
    pace = RateController()
    refused(pace)
    answered(pace, 40)
    burst = [pace.begin(0) for _ in range(8)]
    for ticket in burst:
        pace.refused(ticket, 0, pause=0, live=0)
        pace.ended(ticket)
    assert pace.statistics().window > 4
    assert pace.statistics().refusals == 9


def test_retry_after_pauses_every_request() -> None:
    pace = RateController()
    refused(pace, now=10, pause=5)
    assert pace.wait(11, 0) == 4
    refused(pace, now=12, pause=1)  # a shorter pause does not end a longer one
    assert pace.wait(12, 0) == 3
    assert pace.wait(15, 0) == 0
    assert pace.statistics().paused_until == 15


def test_window_limits_requests_in_progress() -> None:
    pace = RateController()
    refused(pace, live=3)
    assert pace.wait(0, 3) == math.inf
    assert pace.wait(0, 2) == 0
    answered(pace, 1)
    assert pace.wait(0, 3) == 0
    refused(pace, live=0)
    assert pace.wait(0, 0) == 0, "it never shuts anybody out for good"


def test_quiet_minute_resets_the_state() -> None:
    pace = RateController()
    refused(pace, now=100)
    assert len(admitted(pace, now=159)) == 1
    assert not pace.is_open
    assert len(admitted(pace, now=160)) == 1000
    assert pace.is_open


def test_slow_endpoint_gets_spaced_requests() -> None:
    pace = RateController()
    refused(pace)
    refused(pace)
    assert pace.wait(0, 0) == 0
    refused(pace)
    assert pace.wait(0, 0) == pytest.approx(0.01)
    for _ in range(20):
        refused(pace, now=5)
    assert pace.wait(5, 0) == 1, "a second at most"
    pace.answered(pace.begin(6))
    assert pace.wait(6, 0) == 1, "from one request to the next"
    for _ in range(80):
        pace.answered(pace.begin(6))
    assert pace.wait(7, 0) == 0
    assert len(admitted(pace, now=7)) > 1


def test_wide_window_becomes_unlimited() -> None:
    pace = RateController()
    refused(pace)
    answered(pace, 64 * 64)
    assert pace.wait(0, 0) == 0
    assert pace.statistics().window == math.inf


def test_unanswered_request_frees_its_place() -> None:
    pace = RateController()
    refused(pace)
    ticket = pace.begin(0)
    assert pace.wait(0, 0) == math.inf
    pace.ended(ticket)
    pace.ended(ticket)
    pace.answered(ticket)
    assert (pace.wait(0, 0), pace.statistics().window, pace.answers) == (0, 1, 0)


@given(st.lists(st.sampled_from("barewx"), max_size=60), st.data())
def test_idle_endpoint_always_admits_a_request(steps: list[str], data: st.DataObject) -> None:
    pace = RateController()
    live: list[Ticket] = []
    now = 0.0
    for step in steps:
        if step == "b" and pace.wait(now, len(live)) == 0:
            live.append(pace.begin(now))
        elif step == "w":
            now += data.draw(st.floats(0, 30))
        elif live:
            ticket = live.pop(data.draw(st.integers(0, len(live) - 1)))
            if step == "a":
                pace.answered(ticket)
            elif step == "r":
                pace.refused(ticket, now, pause=data.draw(st.floats(0, 60)), live=len(live))
            pace.ended(ticket)
    for ticket in live:
        pace.ended(ticket)
    wait = pace.wait(now, 0)
    assert wait < math.inf
    assert pace.wait(now + wait, 0) == 0


class _Endpoint:
    """An endpoint with a limit on its rate or concurrency, and clients that retry until they
    succeed.
    """

    def __init__(
        self,
        *,
        per_second: float = math.inf,
        at_once: float = math.inf,
        by_chance: float = 0.0,
    ) -> None:
        self.by_chance = by_chance
        self.per_second = per_second
        self.at_once = at_once
        self.random = random.Random(1)
        self.tokens = 20.0
        self.filled_at = 0.0
        self.streams = 0
        self.pace = RateController()
        self.now = 0.0
        self.sent = self.live = 0
        self.line: deque[int] = deque()
        self.refused: deque[int] = deque()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._order), do))

    def run(self, clients: int, turns: int) -> None:
        self.line.extend([turns] * clients)
        self.admit()
        while self._due:
            self.now, _, do = heapq.heappop(self._due)
            do()

    def admit(self) -> None:
        while self.refused or self.line:
            wait = self.pace.wait(self.now, self.live)
            if 0 < wait < math.inf:
                self.after(wait, self.admit)
            if wait > 0:
                return
            self.send((self.refused or self.line).popleft())

    def send(self, left: int) -> None:
        self.sent += 1
        self.live += 1
        ticket = self.pace.begin(self.now)
        self.after(self.random.uniform(0.001, 0.01), lambda: self.arrive(left, ticket))

    def arrive(self, left: int, ticket: Ticket) -> None:
        if not self.takes():
            self.live -= 1
            self.pace.refused(ticket, self.now, pause=0, live=self.live)
            self.pace.ended(ticket)
            self.after(self.random.uniform(0, 0.5), lambda: self.again(left))
            return
        self.streams += 1
        self.pace.answered(ticket)
        self.admit()
        self.after(self.random.uniform(0.01, 0.1), lambda: self.leave(left))

    def takes(self) -> bool:
        if self.per_second < math.inf:
            self.tokens = min(20.0, self.tokens + (self.now - self.filled_at) * self.per_second)
            self.filled_at = self.now
            if self.tokens < 1:
                return False
            self.tokens -= 1
        return self.streams < self.at_once and self.random.random() >= self.by_chance

    def again(self, left: int) -> None:
        self.refused.append(left)
        self.admit()

    def leave(self, left: int) -> None:
        self.live -= 1
        self.streams -= 1
        if left > 1:
            self.line.append(left - 1)
        self.admit()


@pytest.mark.parametrize(
    ("rate", "seconds", "most"),
    [(100, 4, 1.8), (20, 20, 2.6), (5, 80, 3.3)],
    ids=["100 a second", "20 a second", "5 a second"],
)
@pytest.mark.no_cover
def test_clients_use_up_fixed_rate_calmly(rate: float, seconds: float, most: float) -> None:
    endpoint = _Endpoint(per_second=rate)
    endpoint.run(clients=100, turns=4)
    assert endpoint.sent / 400 < most
    assert endpoint.now < seconds * 1.1


def test_random_refusals_barely_slow_clients() -> None:
    endpoint = _Endpoint(by_chance=1 / 3)
    endpoint.run(clients=200, turns=5)
    assert endpoint.sent / 1000 < 1.6
    assert endpoint.now < 30


def test_clients_fill_a_concurrency_limit() -> None:
    endpoint = _Endpoint(at_once=10)
    endpoint.run(clients=200, turns=5)
    assert endpoint.sent / 1000 < 1.6
    assert endpoint.now < 1000 * 0.055 / 10 * 1.2  # a response takes 55 ms on average
