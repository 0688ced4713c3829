"""Detect what kind of body a 2xx response has, for all protocols.

The first character determines the kind: `{` or `[` begins a JSON document (a complete response
although a stream was requested, or an error), `<` begins an HTML page, a control character begins
binary data, and anything else begins an event stream. The content type is not used, because
endpoints often send the wrong one. This module collects the bytes of documents and pages, and
creates the errors for bodies without a response. It does not store the bytes of an event stream.
"""

from typing import Final, Literal

import attrs

from agent_actors.errors import ConfigError, ProviderConnectError, ProviderProtocolError
from agent_actors.protocol.sse import (
    DEFAULT_MAX_EVENT_BYTES,
    DEFAULT_MAX_LINE_BYTES,
    SSEDecoder,
    SSELimitError,
)
from agent_actors.providers.error_body import message_of_body
from agent_actors.providers.foreign_body import name_of_binary, name_of_document
from agent_actors.providers.response_sink import begin_body

_MAX_DOCUMENT: Final = 64 * 1024 * 1024
"""The maximum size of a JSON document, in bytes; a response with embedded files fits."""

_MAX_PAGE: Final = 64 * 1024
"""The number of bytes of an HTML page that are kept for the error message."""

GOT_PAGE: Final = "got an HTML page"
"""The part of the error that reports an HTML page."""

_Kind = Literal["unknown", "events", "document", "page", "binary"]
_KINDS: Final[dict[bytes, _Kind]] = {
    b"": "unknown",
    b"{": "document",
    b"[": "document",
    b"<": "page",
    b"\x00": "binary",  # the length of a message of an AWS event stream
    b"\x1f": "binary",  # gzip
}


@attrs.frozen
class Words:
    """The terms that error messages use for a protocol.

    Attributes:
        stream: The content of an event stream.
        document: A JSON document that is not a response.
        line: The expected content of data lines.
    """

    stream: str
    document: str
    line: str


@attrs.frozen(kw_only=True)
class StreamLimits:
    """The limits of an event stream, which are options of a provider.

    Attributes:
        provider: The name of the provider's class, for error messages.
        max_line_bytes: The longest accepted line, in bytes.
        max_event_bytes: The maximum size of the data in one event, in bytes.

    Raises:
        ConfigError: A limit is not positive.
    """

    provider: str
    max_line_bytes: int = DEFAULT_MAX_LINE_BYTES
    max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES

    def __attrs_post_init__(self) -> None:
        try:
            self.decoder()
        except ValueError as error:
            raise ConfigError(f"{self.provider}: {error}") from error

    def decoder(self) -> SSEDecoder:
        """Return a new decoder with these limits."""
        return SSEDecoder(
            max_line_bytes=self.max_line_bytes,
            max_event_bytes=self.max_event_bytes,
            shows_faults=True,
        )

    def exceeded(self, error: SSELimitError, *, endpoint: str) -> ProviderProtocolError:
        """Return the error for a stream that exceeds a limit, naming the option to change."""
        failure = ProviderProtocolError(
            f"{error}, which is an option of {self.provider}", endpoint=endpoint
        )
        failure.__cause__ = error
        return failure


class AnswerBody:
    """The body of one response, until it is known to be an event stream.

    Args:
        words: The terms that error messages use for the protocol.
        endpoint: The name of the endpoint in error messages.
        content_type: The content type of the response, for error messages.

    Attributes:
        kind: The kind of body, as far as it is known.
    """

    __slots__ = (
        "_content_type",
        "_endpoint",
        "_kept",
        "_words",
        "kind",
    )

    def __init__(self, words: Words, *, endpoint: str, content_type: str) -> None:
        self.kind: _Kind = "unknown"
        self._words = words
        self._endpoint = endpoint
        self._content_type = content_type
        self._kept = bytearray()

    @property
    def document(self) -> bytes:
        """The collected bytes of the body."""
        return bytes(self._kept)

    def feed(self, data: bytes) -> bytes | None:
        """Process the data from one read, while the body is not known to be an event stream.

        Returns:
            The first bytes of the stream if the body is an event stream; the caller must not call
            `feed` again after that. None for other bodies.

        Raises:
            ProviderProtocolError: The body is too large.
        """
        if self.kind == "unknown":
            data, start = begin_body(bytes(self._kept), data)
            self._kept.clear()
            self.kind = _KINDS.get(start, "events")
            if self.kind == "events":
                return data
        limit = _MAX_PAGE if self.kind in {"page", "binary"} else _MAX_DOCUMENT
        self._kept += data[: limit - len(self._kept)]
        if self.kind != "unknown" and len(self._kept) >= limit:
            raise self.no_answer()
        return None

    def no_answer(self) -> ProviderProtocolError:
        """Return the error for a page, binary data, or a document that is not a response."""
        begun = bytes(self._kept[:_MAX_PAGE])
        if self.kind == "binary":
            return self._other(f"got {name_of_binary(begun)}")
        if self.kind == "page":
            return self._other(GOT_PAGE, begun)
        document = name_of_document(bytes(self._kept)) or self._words.document
        return self._other(f"got {document}", begun)

    def _other(self, what: str, begun: bytes = b"") -> ProviderProtocolError:
        """Return the error for a body of another kind, including its text if there is any."""
        shown = f": {message_of_body(begun)}" if begun else ""
        return ProviderProtocolError(
            f"expected an event stream of {self._words.stream}, but {what} {self._type()}{shown}",
            endpoint=self._endpoint,
        )

    def cut_off(self, end: str) -> ProviderConnectError:
        """Return the error for a response that had begun but whose body ended too early.

        The body may have ended cleanly, for example because a proxy lost its connection to the
        model. As after a broken connection, the response can be requested again.

        Args:
            end: The missing end mark.
        """
        return ProviderConnectError(
            f"the stream ended without {end}, so the response is incomplete",
            endpoint=self._endpoint,
        )

    def nothing_whole(
        self, *, skipped: int, first: str, foreign: str = ""
    ) -> ProviderProtocolError:
        """Return the error for an event stream without a response.

        Args:
            foreign: The name of another API whose events the stream contains; empty if unknown.
            skipped: The number of data lines that could not be read.
            first: The first of these lines.
        """
        if foreign:
            return self._other(f"got an event stream of {foreign}")
        if skipped:
            what = (
                f"the stream contained no response, but {skipped} data line(s) that are not "
                f"{self._words.line}; the first is {first!r}"
            )
        else:
            what = f"the stream contained neither a response nor a finish reason {self._type()}"
        return ProviderProtocolError(what, endpoint=self._endpoint)

    def _type(self) -> str:
        return f"(content type {self._content_type or 'not given'!r})"
