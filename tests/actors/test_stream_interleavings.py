"""Any schedule of streams, cancellations, deadlines and crashes, in any order of tasks."""

import math
from collections import Counter
from typing import Literal

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from agent_actors.abc import ModelSink
from agent_actors.actors.model_stream import ModelStream
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.limits import Timeouts
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest, ModelSettings, TextDelta
from agent_actors.errors import (
    ActorCrashed,
    ProviderConnectError,
    ProviderDeadlineError,
    RuntimeClosed,
)
from agent_actors.providers.response_sink import DroppingSink
from tests.actors.helpers import Bug, run_in_order

DEADLINES = Timeouts(first_token=3.5, idle=2.5, total=20)
# Few distinct times, so that ends, deadlines and cancellations often meet in one tick.
TIMES = st.sampled_from([0.0, 1.0, 2.0, 4.0])
LIMITS = st.sampled_from([0.0, 1.0, 2.0, 3.0, math.inf])
Ending = Literal["answer", "refuse", "bug", "hang"]


@attrs.frozen
class Call:
    """A caller of the endpoint: its start and patience, and how the provider answers it."""

    start: float
    patience: float
    first: float
    second: float
    cleanup: float
    ending: Ending


CALLS = st.lists(
    st.builds(
        Call,
        start=TIMES,
        patience=LIMITS,
        first=TIMES,
        second=TIMES,
        cleanup=st.sampled_from([0.0, 1.0]),
        ending=st.sampled_from(["answer", "answer", "refuse", "bug", "hang"]),
    ),
    max_size=8,
)


@attrs.define(eq=False)
class Endpoint:
    """A provider that answers each caller by its plan, and knows which streams are alive."""

    calls: list[Call]
    name: str = "http://planned/v1"
    alive: set[int] = attrs.field(factory=set[int])
    peak: int = 0
    answered: set[int] = attrs.field(factory=set[int])

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        number = int(request.settings.model)
        call = self.calls[number]
        self.alive.add(number)
        self.peak = max(self.peak, len(self.alive))
        try:
            await trio.sleep(call.first)
            sink.feed([TextDelta("begun")])
            await trio.sleep(call.second)
            if call.ending == "refuse":
                raise ProviderConnectError("no", endpoint=self.name)
            if call.ending == "bug":
                raise Bug(number)
            if call.ending == "hang":
                await trio.sleep_forever()
            self.answered.add(number)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(call.cleanup)
            self.alive.discard(number)
        return ModelCompleted((TextBlock(str(number)),))

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError


@attrs.define(eq=False)
class Scene:
    """The calls of one schedule, on one endpoint, and their outcomes."""

    calls: list[Call]
    max_live: float
    endpoint: Endpoint = attrs.field(init=False)
    stream: ModelStream = attrs.field(init=False)
    outcomes: dict[int, str] = attrs.field(factory=dict[int, str])
    crashes: list[BaseException] = attrs.field(factory=list[BaseException])
    errors: list[BaseException] = attrs.field(factory=list[BaseException])

    def __attrs_post_init__(self) -> None:
        self.endpoint = Endpoint(self.calls)
        self.stream = ModelStream(self.endpoint, max_live=self.max_live)

    async def take_part(self, number: int) -> None:
        call = self.calls[number]
        await trio.sleep(call.start)
        with trio.move_on_after(call.patience):
            self.outcomes[number] = await self.outcome(number)
        self.outcomes.setdefault(number, "cancelled")
        assert number not in self.endpoint.alive, "the stream outlived its caller"

    async def outcome(self, number: int) -> str:
        request = ModelRequest(Messages(), ModelSettings(str(number)))
        try:
            answer = await self.stream.stream(request, DroppingSink(), DEADLINES)
        except ProviderDeadlineError as late:
            return late.kind
        except ProviderConnectError:
            return "refused"
        except Bug as bug:
            assert bug.args == (number,)  # noqa: PT017 - one of several ends
            return "bug"
        except ActorCrashed as crash:
            self.errors.append(crash)
            return "crashed"
        except RuntimeClosed:
            return "closed"
        assert answer.text == str(number)
        return "answer"

    async def serve(self) -> None:
        try:
            await self.stream.owner.serve()
        except ActorCrashed as error:
            self.crashes.append(error)

    async def run(self, end: "Literal['close', 'crash']", at: float) -> None:
        owner = self.stream.owner

        async def crash() -> None:
            await trio.sleep(at)
            raise Bug("in the actor")

        with trio.fail_after(1_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.serve)
                await wait_all_tasks_blocked()
                if end == "crash" and at < math.inf:
                    owner.start_background(crash)
                async with trio.open_nursery() as callers:
                    for number in range(len(self.calls)):
                        callers.start_soon(self.take_part, number)
                    if end == "close":
                        await trio.sleep(min(at, 100.0))
                        owner.close()
                        await owner.ended.wait()
                        assert not self.endpoint.alive, "the actor ended before its streams"
                owner.close()

    def check(self) -> None:
        found = self.stream.statistics()
        assert (found.streams.used, found.streams.waiting, found.held_back) == (0, 0, 0)
        assert self.endpoint.peak <= self.max_live
        assert self.stream.is_idle
        assert not self.stream._sweeper._watched
        assert self.stream._line._live == 0
        assert sorted(self.outcomes) == list(range(len(self.calls)))
        got = {number for number, outcome in self.outcomes.items() if outcome == "answer"}
        assert got == self.endpoint.answered, "exactly the reached responses are returned"
        seen = Counter(self.outcomes.values())
        failed = seen["refused"] + seen["bug"] + seen["first_token"] + seen["idle"]
        assert found.failures >= failed
        assert {*self.errors} <= {*self.crashes}, "all callers get the same crash error"


@given(
    calls=CALLS,
    max_live=st.sampled_from([1.0, 2.0, math.inf]),
    seed=st.integers(0, 1_000_000),
    end=st.sampled_from(["close", "crash"]),
    at=LIMITS,
)
def test_each_stream_ends_with_its_caller(
    calls: list[Call],
    max_live: float,
    seed: int,
    end: Literal["close", "crash"],
    at: float,
) -> None:
    scene = Scene(calls, max_live)

    async def main() -> None:
        await scene.run(end, at)

    run_in_order(main, seed)
    scene.check()
    for number, call in enumerate(calls):
        outcome = scene.outcomes[number]
        if outcome == "cancelled":
            assert call.patience < math.inf
        elif outcome == "crashed":
            assert end == "crash"
        elif outcome == "closed":
            assert end == "close"
        elif call.ending == "hang":
            assert outcome in ("first_token", "idle")
