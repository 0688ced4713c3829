"""The `ByteSink`s of HTTP providers, for any kind of response.

This module handles the parts that all endpoints have in common: the status, the body of a failure,
of which only the beginning is kept, and the resulting error. If the status reports a failure, this
failure is raised even if reading the body fails. Each provider has its own parser for the bodies of
successful responses.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from agent_actors.abc import ByteExchange, HttpRequest, ModelSink
from agent_actors.domain.model import ModelDelta
from agent_actors.errors import ProviderError, ProviderProtocolError, ProviderStatusError
from agent_actors.providers.end_of_response import Grace
from agent_actors.providers.error_body import message_of_body
from agent_actors.providers.secrets import Secrets

_MAX_BODY: Final = 64 * 1024
"""The number of bytes of a failure's body that are kept; its message is at the beginning."""

_MAX_ANSWER: Final = 64 * 1024 * 1024
"""The maximum number of characters of a response, a hundred times the longest output of any model.
"""

_MEASURED_EVERY: Final = 16 * 1024 * 1024
"""The number of bytes between two checks of the response's size. Each check visits all deltas."""

_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"
"""Bytes to skip before the first character. Some endpoints keep a connection alive with blank
lines.
"""

_LINE_START: Final = 4
"""The number of bytes kept before the first character of its line: a byte order mark and a space.
"""

_NO_HEADERS: Final[Mapping[str, str]] = {}

CUT_SHORT: Final = "the stream ended without a finish reason; the response may be incomplete"
"""The notice for a response without a finish reason, which some endpoints never send."""


def begin_body(kept: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Find the first character of a body, which determines its kind.

    Args:
        kept: The data that the previous call returned.
        data: The data from the next read.

    Returns:
        The data without leading blank lines, however many there are, and the first character, which
        is empty if none has arrived.
    """
    data = kept + data
    rest = data.lstrip(_BLANKS)
    blanks = data[: len(data) - len(rest)]
    line = max(blanks.rfind(b"\n"), blanks.rfind(b"\r")) + 1
    return blanks[line : line + _LINE_START] + rest, rest[:1]


class ResponseParser(Protocol):
    """A parser for the body of a successful response."""

    @property
    def done(self) -> bool:
        """True once all content has arrived."""
        ...

    @property
    def size(self) -> int:
        """The number of characters of the response so far."""
        ...

    def feed(self, data: bytes) -> Sequence[ModelDelta]:
        """Parse the data from one read; return the deltas to show."""
        ...

    def close(self) -> Sequence[ModelDelta]:
        """Parse the end of the body; return the remaining deltas to show."""
        ...


R = TypeVar("R", bound=ResponseParser)


class BodySink:
    """Collects one HTTP response: a failure or a small document.

    Args:
        endpoint: The name of the endpoint in error messages.
        grace: Limits the wait for the end of the response. The default does not notify a sink that
            enforces deadlines.
        secrets: Learns the credentials that an HTTP client adds to the request.
    """

    __slots__ = (
        "_body",
        "_broken",
        "_endpoint",
        "_grace",
        "_response_headers",
        "_secrets",
        "_status",
    )

    def __init__(
        self, *, endpoint: str, grace: Grace | None = None, secrets: Secrets | None = None
    ) -> None:
        self._endpoint = endpoint
        self._grace = grace or Grace()
        self._secrets = secrets
        self._status = 0
        # Only the headers of a failure are kept.
        self._response_headers: Mapping[str, str] = _NO_HEADERS
        self._body = bytearray()
        # The reason why the body of a failure could not be read completely.
        self._broken: ProviderError | None = None

    @property
    def full(self) -> bool:
        """Always False, because the response is small."""
        return False

    @property
    def done(self) -> bool:
        """True once enough of the body has been received."""
        return len(self._body) >= _MAX_BODY

    async def wait_room(self) -> None:
        """Return immediately.

        Cancellation: safe.
        """

    async def fetch(self, exchange: ByteExchange, request: HttpRequest) -> None:
        """Send a request and read the response until it ends or the grace period is over.

        Raises:
            ProviderError: The exchange failed before a status reported a failure.

        Cancellation: closes the connection.
        """
        try:
            with self._grace.scope:
                await exchange.exchange(request, self)
        except ProviderError as error:
            if not self._has_failed:
                raise
            self._broken = error
        finally:
            self._grace.stop()

    def note_request(self, url: str, headers: Mapping[str, str]) -> None:
        """Receive the URL and the headers of the request that an HTTP client has sent."""
        if self._secrets is not None:
            self._secrets.learn(url, headers)

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Receive the status and the headers of the response."""
        self._status = status
        if self._has_failed:
            self._response_headers = dict(headers)
            self._grace.on_error_status()

    def feed(self, data: bytes) -> bool | None:
        """Receive the data from one read."""
        self._body += data
        return None

    def document(self) -> bytes:
        """Return the body of a successful response, after the exchange has ended.

        Raises:
            ProviderError: The request failed.
        """
        if not self._status or self._has_failed:
            raise self._failure()
        return bytes(self._body)

    @property
    def _has_failed(self) -> bool:
        """True if the status reports a failure."""
        return self._status != 0 and not 200 <= self._status < 300

    def _failure(self) -> ProviderError:
        if not self._status:
            return ProviderProtocolError(
                "the exchange ended without a response", endpoint=self._endpoint
            )
        message = message_of_body(bytes(self._body[:_MAX_BODY]))
        if not message and self._broken is not None:
            reason = str(self._broken).removeprefix(f"{self._broken.endpoint}: ")
            message = f"the body could not be read: {reason}"
        location = self._response_headers.get("location")
        if 300 <= self._status < 400 and location:
            message = (
                f"redirects to {location}; redirects are not followed, so set base_url to this URL"
            )
        return ProviderStatusError(
            endpoint=self._endpoint,
            status=self._status,
            body_message=message,
            headers=dict(self._response_headers),
        )


class ResponseSink(BodySink, Generic[R]):
    """Feeds a successful response to a parser and forwards the deltas.

    Args:
        sink: The sink that receives the deltas.
        reader: Creates the parser from the content type of the response.
        endpoint: The name of the endpoint in error messages.
        grace: Limits the wait for the end of the response.
        secrets: Learns the credentials that an HTTP client adds to the request.
    """

    __slots__ = (
        "_answer",
        "_reader",
        "_sink",
        "_unmeasured",
    )

    def __init__(
        self,
        sink: ModelSink,
        reader: Callable[[str], R],
        *,
        endpoint: str,
        grace: Grace | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        super().__init__(endpoint=endpoint, grace=grace, secrets=secrets)
        self._sink = sink
        self._reader = reader
        self._answer: R | None = None
        self._unmeasured = 0

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to accept more data."""
        return self._sink.full

    @property
    def done(self) -> bool:
        """True once the response, or the message of a failure, is complete."""
        return super().done if self._answer is None else self._answer.done

    async def wait_room(self) -> None:
        """Wait until `full` is False.

        Cancellation: safe.
        """
        self._grace.pause()
        try:
            await self._sink.wait_room()
        finally:
            self._grace.resume()

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Receive the status and the headers of the response."""
        super().start(status, headers)
        if not self._has_failed:
            self._answer = self._reader(headers.get("content-type", ""))

    def feed(self, data: bytes) -> bool | None:
        """Receive the data from one read."""
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
        """Raise an error if the response is too long; its text is kept until the response ends."""
        self._unmeasured = 0
        if size > _MAX_ANSWER:
            raise ProviderProtocolError(
                f"the response is too long: {size} characters were received, "
                f"but the limit is {_MAX_ANSWER}",
                endpoint=self._endpoint,
            )

    def whole(self) -> R:
        """Close and return the parser, after the exchange has ended.

        Raises:
            ProviderError: There is no response.
        """
        if self._answer is None:
            raise self._failure()
        rest = self._answer.close()
        if rest:
            self._sink.feed(rest)
        return self._answer


class DroppingSink:
    """A `ModelSink` that discards all deltas, for callers that need only the complete response."""

    sees_text: bool = False
    sees_arguments: bool = False

    @property
    def full(self) -> bool:
        """Always False."""
        return False

    def feed(self, deltas: Sequence[ModelDelta]) -> None:
        """Discard the deltas."""

    async def wait_room(self) -> None:
        """Return immediately; the sink is never full.

        Cancellation: safe.
        """
