"""What came over the wire and when, beside what a provider made of it.

Owns an exchange that keeps a copy of each answer while the real provider reads it, so that what is
measured and judged is what an agent would get.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from agent_actors.abc import ByteExchange, ByteSink, ExchangeStatistics, HttpRequest
from agent_actors.domain.model import ModelDelta, TextDelta, ThinkingDelta, ToolCallDelta

MAX_KEPT: Final = 8 * 1024 * 1024
"""Bytes of an answer that are kept: a long list of models fits, an endless stream does no harm."""

_LAST_WORDS: Final = (b"[DONE]", b"message_stop")
_TAIL: Final = 512
"""Bytes in which the last word is looked for."""


@attrs.define(eq=False)
class Capture:
    """One answer, as it came. Times are those of `trio.current_time`.

    Attributes:
        status: The HTTP status; 0: no answer began.
        headers: Its headers, names in lower case.
        body: The beginning of its body, up to `MAX_KEPT` bytes.
        reads: How many reads brought something of the body.
    """

    status: int = 0
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    body: bytearray = attrs.field(factory=bytearray)
    reads: int = 0

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The answer's head."""
        self.status = status
        self.headers = dict(headers)

    def take(self, data: bytes) -> None:
        """One read's worth of the body."""
        self.reads += 1
        self.body += data[: MAX_KEPT - len(self.body)]


class CapturingExchange:
    """An exchange that keeps what each answer was.

    Args:
        exchange: Does the work; closed with this one.

    Attributes:
        last: The answer of the last request; None before the first.
    """

    def __init__(self, exchange: ByteExchange) -> None:
        self._exchange = exchange
        self.last: Capture | None = None

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Send the request; like `ByteExchange.exchange`."""
        self.last = Capture()
        await self._exchange.exchange(request, _Copied(sink, self.last))

    async def fetch(self, url: str, headers: Mapping[str, str]) -> Capture:
        """Ask for a document.

        Raises:
            ProviderError: No answer came.

        Cancellation: closes the connection.
        """
        capture = Capture()
        request = HttpRequest(url, headers, b"", "GET")
        await self._exchange.exchange(request, _Copied(_Nobody(), capture))
        return capture

    def statistics(self) -> ExchangeStatistics:
        """A snapshot."""
        return self._exchange.statistics()

    async def aclose(self) -> None:
        """Close every connection; idempotent."""
        await self._exchange.aclose()


class _Copied:
    """A sink whose bytes are kept on their way."""

    def __init__(self, sink: ByteSink, capture: Capture) -> None:
        self._sink = sink
        self._capture = capture

    @property
    def full(self) -> bool:
        return self._sink.full

    @property
    def done(self) -> bool:
        # A reader may have enough before the stream says that it ends; how it ends is to be seen,
        # for as long as the reader lets it.
        told = any(word in self._capture.body[-_TAIL:] for word in _LAST_WORDS)
        return (self._sink.done and told) or len(self._capture.body) >= MAX_KEPT

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


class _Nobody:
    """A sink that wants all and keeps nothing."""

    full = False
    done = False

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        pass

    def feed(self, data: bytes) -> bool | None:
        return None

    async def wait_room(self) -> None:
        pass


class Stopwatch:
    """A `ModelSink` that takes the time of what an agent would see.

    Attributes:
        started: When it was made.
        first: When the first piece came; None while none has.
        last: When the last one came.
        pieces: How many came.
    """

    full = False

    def __init__(self) -> None:
        self.started: float = trio.current_time()
        self.first: float | None = None
        self.last: float = self.started
        self.pieces: int = 0

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Take these pieces."""
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
