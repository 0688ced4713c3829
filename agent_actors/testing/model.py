"""A model in memory that responds according to a script.

The model owns only its script and its counters: no sockets and no tasks. It waits only for trio's
clock and for events of the script, so it runs under a virtual clock (`trio.testing.MockClock`), and
conversations with pauses and deadlines take no time. It feeds its sink like a provider that reads
from a network: one `feed` per read, a checkpoint before each, and no `feed` while the sink is full.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

import trio

from agent_actors.abc import ModelSink
from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    ModelRequest,
)
from agent_actors.providers.response_sink import DroppingSink
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
    """More responses were requested than the script has.

    This is an `AssertionError` and not an `AgentError`: the test or the tested code is wrong, so no
    code should handle it.
    """


class ScriptedModel:
    """A `ModelProvider` that responds according to a script.

    Args:
        script: A sequence of turns, each used once, in the order of the requests. Alternatively, a
            function that is called with each request and returns the turn. A function can serve any
            number of sessions and requests, and tell sessions apart by their messages.
        name: The name in errors and statistics.
        batch: The maximum number of deltas per `feed`. Only deltas without a pause or another
            action between them are fed together.

    Example:
        `ScriptedModel([call("get_weather", {"city": "Paris"}), "It rains."])`

    Attributes:
        requests: The requests, in order.
        live: The number of streams that are active now.
        peak_live: The maximum number of streams that were active at once.
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
        """The name in errors and statistics."""
        return self._name

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        """Play the next turn to `sink`.

        Raises:
            ScriptExhausted: The script has no turn left for this request.
            RuntimeError: The model was closed.
            Exception: The error of a `fail` step, or of a function of the script.

        Cancellation: ends the turn. If the script is a sequence, the turn is used up.
        """
        if self.closed:
            raise RuntimeError(f"{self._name}: the model is closed and accepts no more requests")
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
        """Play the next turn without a sink, and return the response; raises like `stream`."""
        return await self.stream(request, DroppingSink())

    async def aclose(self) -> None:
        """Accept no more requests; idempotent. Callers must end active streams themselves."""
        self.closed = True
        await trio.lowlevel.checkpoint()

    def _turn_for(self, request: ModelRequest) -> Turn:
        if callable(self._script):
            return self._script(request)
        number = len(self.requests)
        if number > len(self._script):
            last = request.messages.last()
            raise ScriptExhausted(
                f"{self._name}: the script has only {len(self._script)} turns, but this is request "
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
    """Feed the collected deltas as one read, and clear the list."""
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
    """Return a function that makes ids from turn and slot, unlike the ids of earlier calls."""

    def call_id(slot: int) -> str:
        name = f"call_{request.turn}_{slot}"
        while name in request.known_call_ids:
            name += "_"
        return name

    return call_id
