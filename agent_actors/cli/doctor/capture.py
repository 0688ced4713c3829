"""Records the bytes and the timing of responses, in addition to the provider's result.

An exchange keeps a copy of each response while the real provider reads it, so that the doctor
measures and judges exactly the bytes that an agent would get.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from agent_actors.abc import ByteExchange, ByteSink, ExchangeStatistics, HttpRequest
from agent_actors.domain.model import ModelDelta, TextDelta, ThinkingDelta, ToolCallDelta

MAX_KEPT: Final = 8 * 1024 * 1024
"""Maximum number of bytes to keep of a response: enough for a long list of models."""

_LAST_WORDS: Final = (b"[DONE]", b"message_stop")
_TAIL: Final = 512
"""Number of bytes at the end of a body in which to search for the end marker."""


@attrs.define(eq=False)
class Capture:
    """One response, as it arrived. Times are those of `trio.current_time`.

    Attributes:
        status: The HTTP status; 0: no response began.
        headers: The headers, with names in lower case.
        body: The beginning of the body, up to `MAX_KEPT` bytes.
        reads: The number of reads that returned bytes of the body.
    """

    status: int = 0
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    body: bytearray = attrs.field(factory=bytearray)
    reads: int = 0

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Record the status and the headers of the response."""
        self.status = status
        self.headers = dict(headers)

    def take(self, data: bytes) -> None:
        """Record the bytes of one read."""
        self.reads += 1
        self.body += data[: MAX_KEPT - len(self.body)]


class CapturingExchange:
    """An exchange that keeps a copy of each response.

    Args:
        exchange: Sends the requests; closed with this exchange.

    Attributes:
        last: The response to the last request; None before the first.
    """

    def __init__(self, exchange: ByteExchange) -> None:
        self._exchange = exchange
        self.last: Capture | None = None

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Send the request, as `ByteExchange.exchange` does."""
        self.last = Capture()
        await self._exchange.exchange(request, _Copied(sink, self.last))

    async def fetch(self, url: str, headers: Mapping[str, str]) -> Capture:
        """Request a document.

        Raises:
            ProviderError: No response arrived.

        Cancellation: closes the connection.
        """
        capture = Capture()
        request = HttpRequest(url, headers, b"", "GET")
        await self._exchange.exchange(request, _Copied(_IgnoreDeltas(), capture))
        return capture

    def statistics(self) -> ExchangeStatistics:
        """Return a snapshot of the statistics."""
        return self._exchange.statistics()

    async def aclose(self) -> None:
        """Close every connection; idempotent."""
        await self._exchange.aclose()


class Replay:
    """An exchange that repeats a recorded response.

    Args:
        capture: The response.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Pass the recorded response to the sink."""
        del request
        await trio.lowlevel.checkpoint()
        sink.start(self._capture.status, self._capture.headers)
        sink.feed(bytes(self._capture.body))

    def statistics(self) -> ExchangeStatistics:
        """Return a snapshot of the statistics."""
        return ExchangeStatistics(live=0, begun=0)

    async def aclose(self) -> None:
        """Do nothing; a capture has no connection to close."""


class _Copied:
    """A sink that copies the bytes on their way to another sink."""

    def __init__(self, sink: ByteSink, capture: Capture) -> None:
        self._sink = sink
        self._capture = capture

    @property
    def full(self) -> bool:
        return self._sink.full

    @property
    def done(self) -> bool:
        # The reader may be done before the end of the stream. The doctor must see the end, so it
        # continues to read up to the end marker.
        end_marked = any(word in self._capture.body[-_TAIL:] for word in _LAST_WORDS)
        return (self._sink.done and end_marked) or len(self._capture.body) >= MAX_KEPT

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        self._capture.start(status, headers)
        self._sink.start(status, headers)

    def feed(self, data: bytes) -> bool | None:
        self._capture.take(data)
        if not self._sink.done:
            self._sink.feed(data)
        return None

    async def wait_room(self) -> None:
        await self._sink.wait_room()


class _IgnoreDeltas:
    """A sink that accepts everything and keeps nothing."""

    full = False
    done = False

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        pass

    def feed(self, data: bytes) -> bool | None:
        return None

    async def wait_room(self) -> None:
        pass


class Stopwatch:
    """A `ModelSink` that measures when deltas arrive.

    Attributes:
        started: The time when the stopwatch was created.
        first: The time of the first delta; None before it.
        last: The time of the last delta.
        pieces: The number of deltas.
    """

    full = False

    def __init__(self) -> None:
        self.started: float = trio.current_time()
        self.first: float | None = None
        self.last: float = self.started
        self.pieces: int = 0

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Count these deltas."""
        seen = sum(isinstance(one, TextDelta | ThinkingDelta | ToolCallDelta) for one in deltas)
        if seen:
            self.last = trio.current_time()
            self.first = self.last if self.first is None else self.first
            self.pieces += seen
        return None

    async def wait_room(self) -> None:
        """Return at once.

        Cancellation: safe.
        """
