"""A model in memory that answers what its script says.

It owns nothing but its script and its counts: no socket, no task. All it waits for are trio's
clock and what the script names, so that it runs under a virtual clock (`trio.testing.MockClock`)
and whole conversations with pauses and deadlines take no time. It feeds its sink as a provider
that reads a network does: one `feed` per read, a checkpoint before each, and nothing while the
sink is full.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

import attrs
import trio

from agent_actors.abc import ModelSink
from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    ModelRequest,
)
from agent_actors.testing.script import (
    Do,
    Fail,
    Hang,
    Happening,
    Pause,
    Turn,
    Wait,
    finished,
    play,
)

ModelScript: TypeAlias = Sequence[Turn] | Callable[[ModelRequest], Turn]


class ScriptExhausted(AssertionError):
    """A script was asked for more answers than it has.

    It is an `AssertionError`, no `AgentError`: the test, or the code under test, is wrong, and
    nothing should handle it.
    """


@attrs.define(eq=False)
class _NoSink:
    """For `complete`: takes every piece and keeps none."""

    @property
    def full(self) -> bool:
        return False

    def feed(self, deltas: Sequence[ModelDelta]) -> None:
        pass

    async def wait_room(self) -> None:  # pragma: no cover - it is never full
        await trio.lowlevel.checkpoint()


class ScriptedModel:
    """A `ModelProvider` that answers from a script.

    Args:
        script: The turns, taken in order by whoever asks, each once. Or a function of the
            request: called for each, it can answer each session by its messages, any number of
            times.
        name: What errors and statistics call it.
        batch: The most deltas of one `feed`; those that nothing parts stand together.

    Example:
        `ScriptedModel([call("get_weather", {"city": "Paris"}), "It rains."])`

    Attributes:
        requests: What it was asked, in order.
        live: Streams under way now.
        peak_live: The most streams that were under way at once.
        closed: True after `aclose`.
    """

    def __init__(self, script: ModelScript, *, name: str = "scripted", batch: int = 1) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self._script = script
        self._name = name
        self._batch = batch
        self.requests: list[ModelRequest] = []
        self.live: int = 0
        self.peak_live: int = 0
        self.closed: bool = False

    @property
    def name(self) -> str:
        """What errors and statistics call it."""
        return self._name

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        """Play the next turn to `sink`.

        Raises:
            ScriptExhausted: The script has no turn left for this request.
            RuntimeError: The model was closed.
            Exception: Whatever the turn fails with.

        Cancellation: ends the turn; a turn of a sequence is used up.
        """
        if self.closed:
            raise RuntimeError(f"{self._name}: asked after it was closed")
        self.requests.append(request)
        self.live += 1
        self.peak_live = max(self.peak_live, self.live)
        try:
            turn = self._turn_for(request)
            await self._play(turn, request, sink)
            return finished(
                turn,
                call_id=_ids_for(request),
                input_tokens=request.messages.estimate_tokens(),
                model=request.settings.model,
                response_id=f"scripted-{len(self.requests)}",
            )
        finally:
            self.live -= 1

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Play the next turn to nobody and return the whole answer; raises as `stream` does."""
        return await self.stream(request, _NoSink())

    async def aclose(self) -> None:
        """Take no more requests; idempotent. Streams under way are their callers' to end."""
        self.closed = True
        await trio.lowlevel.checkpoint()

    def _turn_for(self, request: ModelRequest) -> Turn:
        if callable(self._script):
            return self._script(request)
        number = len(self.requests)
        if number > len(self._script):
            last = request.messages.last()
            raise ScriptExhausted(
                f"{self._name}: the script has {len(self._script)} turns, and this is request "
                f"{number}; its last message: {last.pretty() if last else '(none)'}"
            )
        return self._script[number - 1]

    async def _play(self, turn: Turn, request: ModelRequest, sink: ModelSink) -> None:
        read: list[ModelDelta] = []
        tokens = request.messages.estimate_tokens()
        for action in play(turn, call_id=_ids_for(request), input_tokens=tokens):
            if isinstance(action, Pause | Wait | Do | Hang | Fail):
                await _feed(sink, read)
                await _happen(action)
            else:
                read.append(action)
            if len(read) >= self._batch:
                await _feed(sink, read)
        await _feed(sink, read)


async def _feed(sink: ModelSink, read: list[ModelDelta]) -> None:
    """Feed what was read, as one read, and begin the next."""
    await trio.lowlevel.checkpoint()
    if not read:
        return
    while sink.full:
        await sink.wait_room()
    sink.feed(tuple(read))
    read.clear()


async def _happen(action: Happening) -> None:
    match action:
        case Pause():
            await trio.sleep(action.seconds)
        case Wait():
            await action.event.wait()
        case Do():
            action.action()
        case Hang():
            await trio.sleep_forever()
        case Fail():
            raise action.error
        case _:
            assert_never(action)


def _ids_for(request: ModelRequest) -> Callable[[int], str]:
    """Ids as a provider makes them up: by turn and slot, none of an earlier call."""

    def call_id(slot: int) -> str:
        name = f"call_{request.turn}_{slot}"
        while name in request.known_call_ids:
            name += "_"
        return name

    return call_id
