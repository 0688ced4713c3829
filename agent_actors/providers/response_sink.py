"""The `ByteSink`s of HTTP providers: one answer, whatever it turns out to be.

Owns what every endpoint has in common: a status, a body of which a failure's first part is kept,
and the error that follows from them. A status that tells of a failure is the failure, however its
body ends. What a successful body means, a provider's own reader knows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from agent_actors.abc import ByteExchange, HttpRequest, ModelSink
from agent_actors.domain.model import ModelDelta
from agent_actors.errors import ProviderError, ProviderProtocolError, ProviderStatusError
from agent_actors.providers.end_of_response import Grace
from agent_actors.providers.error_body import message_of_body

_MAX_BODY: Final = 64 * 1024
"""Bytes of a body that are kept: a failure's message stands at the beginning."""

_MAX_ANSWER: Final = 64 * 1024 * 1024
"""Characters of an answer: a hundred times what a model with the longest answers can say."""

_MEASURED_EVERY: Final = 16 * 1024 * 1024
"""Bytes of a stream after which the answer is measured: seldom, since it takes a look at all."""

_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"
"""Bytes before the first character that count for nothing: blank lines keep a connection alive."""

_LINE_START: Final = 4
"""Bytes kept of the blanks in the first character's own line: a byte order mark and a blank."""

CUT_SHORT: Final = "the stream ended without saying so: the answer may be cut short"
"""The notice of an answer that is kept, since some endpoints never say how an answer ends."""


def begin_body(kept: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Look for the first character of a body, by which its kind is told.

    Args:
        kept: What was kept of the reads before.
        data: The next read.

    Returns:
        What of them counts, without the blank lines before it, however many they are; and the first
        character, empty while none has come.
    """
    data = kept + data
    rest = data.lstrip(_BLANKS)
    blanks = data[: len(data) - len(rest)]
    line = max(blanks.rfind(b"\n"), blanks.rfind(b"\r")) + 1
    return blanks[line : line + _LINE_START] + rest, rest[:1]


class AnswerReading(Protocol):
    """Reads the body of a successful answer."""

    @property
    def done(self) -> bool:
        """True once nothing more comes that counts."""
        ...

    @property
    def size(self) -> int:
        """Characters of the answer so far."""
        ...

    def feed(self, data: bytes) -> Sequence[ModelDelta]:
        """Take a read's worth; return what is to be shown."""
        ...

    def close(self) -> Sequence[ModelDelta]:
        """Take the end; return what is still to be shown."""
        ...


R = TypeVar("R", bound=AnswerReading)


class Reading:
    """Collects one HTTP answer: a failure, or a small document.

    Args:
        endpoint: What errors call the endpoint.
        grace: How long the end is waited for, once what counts has come; by default nobody who
            keeps deadlines is told of it.
    """

    def __init__(self, *, endpoint: str, grace: Grace | None = None) -> None:
        self._endpoint = endpoint
        self._grace = grace or Grace()
        self._status = 0
        self._response_headers: dict[str, str] = {}
        self._body = bytearray()

    @property
    def full(self) -> bool:
        """Never: it is small."""
        return False

    @property
    def done(self) -> bool:
        """True when as much has come as is worth reading."""
        return len(self._body) >= _MAX_BODY

    async def wait_room(self) -> None:
        """Return at once.

        Cancellation: safe.
        """

    async def fetch(self, exchange: ByteExchange, request: HttpRequest) -> None:
        """Send a request, and read its answer until it ends or its grace is over.

        Raises:
            ProviderError: It failed before a status told of a failure.

        Cancellation: closes the connection.
        """
        try:
            with self._grace.scope:
                await exchange.exchange(request, self)
        except ProviderError:
            if not self._has_failed:
                raise
        finally:
            self._grace.over()

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The answer's head."""
        self._status = status
        self._response_headers = dict(headers)
        if self._has_failed:
            self._grace.failed()

    def feed(self, data: bytes) -> bool | None:
        """One read's worth of the body."""
        self._body += data
        return None

    def document(self) -> bytes:
        """The body of a successful answer, now that the exchange has ended.

        Raises:
            ProviderError: It was none.
        """
        if not self._status or self._has_failed:
            raise self._failure()
        return bytes(self._body)

    @property
    def _has_failed(self) -> bool:
        """True if the head tells of a failure."""
        return self._status != 0 and not 200 <= self._status < 300

    def _failure(self) -> ProviderError:
        if not self._status:
            return ProviderProtocolError(
                "the exchange ended without an answer", endpoint=self._endpoint
            )
        message = message_of_body(bytes(self._body[:_MAX_BODY]))
        location = self._response_headers.get("location")
        if 300 <= self._status < 400 and location:
            message = f"redirects to {location}, which is not followed; set base_url to it"
        return ProviderStatusError(
            endpoint=self._endpoint,
            status=self._status,
            body_message=message,
            headers=self._response_headers,
        )


class AnswerSink(Reading, Generic[R]):
    """Hands a successful answer to its reader, and on what is to be shown.

    Args:
        sink: Whom it is shown to.
        reader: Makes the reader, told the answer's content type.
        endpoint: What errors call the endpoint.
        grace: How long the end is waited for, once what counts has come.
    """

    def __init__(
        self,
        sink: ModelSink,
        reader: Callable[[str], R],
        *,
        endpoint: str,
        grace: Grace | None = None,
    ) -> None:
        super().__init__(endpoint=endpoint, grace=grace)
        self._sink = sink
        self._reader = reader
        self._answer: R | None = None
        self._unmeasured = 0

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to take more."""
        return self._sink.full

    @property
    def done(self) -> bool:
        """True when the answer, or the message of a failure, is whole."""
        return super().done if self._answer is None else self._answer.done

    async def wait_room(self) -> None:
        """Return when `full` is no longer set.

        Cancellation: safe.
        """
        self._grace.pause()
        try:
            await self._sink.wait_room()
        finally:
            self._grace.resume()

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The answer's head."""
        super().start(status, headers)
        if not self._has_failed:
            self._answer = self._reader(headers.get("content-type", ""))

    def feed(self, data: bytes) -> bool | None:
        """One read's worth of the body."""
        if self._answer is None:
            return super().feed(data)
        deltas = self._answer.feed(data)
        self._unmeasured += len(data)
        if self._unmeasured >= _MEASURED_EVERY:
            self._measure(self._answer.size)
        if not deltas:
            return None
        return self._sink.feed(deltas) and not self._answer.done

    def _measure(self, size: int) -> None:
        """Give up an answer that has no end: its text is kept until it has one."""
        self._unmeasured = 0
        if size > _MAX_ANSWER:
            raise ProviderProtocolError(
                f"the answer has no end: {size} characters came, and more than {_MAX_ANSWER} are "
                "not kept",
                endpoint=self._endpoint,
            )

    def whole(self) -> R:
        """The reader, closed, now that the exchange has ended.

        Raises:
            ProviderError: There is no answer.
        """
        if self._answer is None:
            raise self._failure()
        rest = self._answer.close()
        if rest:
            self._sink.feed(rest)
        return self._answer
