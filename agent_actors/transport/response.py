"""Parse one HTTP/1.x response: its headers, its body and its end.

This module implements the framing of RFC 9112 and enforces limits on it; it does no I/O. llhttp
(through httptools) parses the bytes and refuses ambiguous messages: two lengths, a length together
with chunked framing, folded headers, bare line feeds and control characters. This module
additionally refuses messages that llhttp accepts but a client must not accept: a transfer coding
other than `chunked`, a status below 100, another HTTP version, a protocol switch that was not
requested, and any message that exceeds a limit.

A reader reads one final response and is then discarded. It skips interim responses (1xx). If bytes
follow the final response, the reader sets `surplus`, and the connection must not be reused.
"""

from typing import TYPE_CHECKING, Final

import attrs
import httptools

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HEAD: Final = 64 * 1024
"""The maximum size of the headers, and of other framing without content (chunk extensions,
trailers, interim responses), in bytes. Servers typically accept headers of 8 to 64 KiB.
"""

MAX_BODY: Final = 1 << 30
"""The maximum size of a body, in bytes. A model's response has a few megabytes at most; this limit
only stops a flood.
"""

_NO_BODY: Final = frozenset({204, 304})
_BLANK_LINE: Final = b"\r\n\r\n"
_VERSIONS: Final = frozenset({"1.0", "1.1"})


@attrs.frozen
class ResponseHead:
    """The status line and headers of the final response.

    Attributes:
        status: The status code, at least 100.
        reason: The reason phrase, as received.
        headers: The names and values in order, as received.
        http_version: "1.0" or "1.1".
    """

    status: int
    reason: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    http_version: str

    def joined(self) -> dict[str, str]:
        """The headers by lower-case name; values of the same name are joined with commas."""
        joined: dict[str, str] = {}
        for raw_name, raw_value in self.headers:
            name, value = raw_name.decode("ascii").lower(), raw_value.decode("latin-1")
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
        return joined


class _LimitError(Exception):
    """Raised through the parser if a part of the response is too long or not allowed."""


class ResponseReader:
    """Reads one response.

    Args:
        head_only: True if the response has no body whatever its headers declare, as for HEAD.
        max_head: The maximum size of the headers, and of consecutive framing without content, in
            bytes.
        max_body: The maximum size of the body, in bytes.
    """

    __slots__ = (
        "_barren",
        "_body_left",
        "_fields",
        "_head_only",
        "_head_size",
        "_max_body",
        "_max_head",
        "_parser",
        "_pieces",
        "_reason",
        "_until_eof",
        "complete",
        "failure",
        "head",
        "keep_alive",
        "on_body",
        "surplus",
    )

    def __init__(
        self, *, head_only: bool = False, max_head: int = MAX_HEAD, max_body: int = MAX_BODY
    ) -> None:
        self.head: ResponseHead | None = None
        self.complete: bool = False
        self.keep_alive: bool = False
        self.surplus: bool = False
        self.failure: str | None = None
        self._head_only = head_only
        self._max_body = max_body
        self._max_head = max_head
        self._body_left = max_body
        self._fields: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._head_size = 0
        self._barren = 0
        self._until_eof = False
        self._pieces: list[bytes] = []
        # The parser calls these methods by name. This method is bound to the list directly, because
        # it is called once per chunk.
        self.on_body: Callable[[bytes], None] = self._pieces.append
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> bytes:
        """Parse the bytes from one read and return the part of the body that they contain.

        Afterwards `head`, `complete`, `surplus` and `failure` describe the state. If `failure` is
        set, the returned bytes arrived before the failure.
        """
        if self._parser is None:
            self.surplus = True
            return b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse("the server switched to a protocol that was not requested")
        except httptools.HttpParserError as error:
            if self.complete:
                self.surplus = True
            elif isinstance(error.__context__, _LimitError):
                self._refuse(str(error.__context__))
            else:
                self._refuse(str(error))
        if self._head_only and self.complete and not _BLANK_LINE.endswith(bytes(data[-4:])):
            self.surplus = True  # the parser may treat these bytes as half a line of framing
        pieces = self._pieces
        if not pieces or (self._head_only and self.complete):
            self._count_barren(len(data))
            return b""
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._barren = 0
        self._body_left -= len(body)
        if self._body_left < 0:
            self._refuse(f"the body is larger than {self._max_body} bytes")
        if self.complete:
            self._release()
        return body

    @property
    def begun(self) -> bool:
        """True if any byte of a response has arrived."""
        return self.head is not None or self._barren > 0

    def end(self, *, clean: bool) -> None:
        """Handle the end of the connection.

        Args:
            clean: False if the end may have been forged, because TLS ended without its closing
                alert.
        """
        if self.complete or self.failure is not None:
            return
        if self._until_eof and clean:
            self.complete = True
            self._release()
        elif self.head is None:
            self._refuse("the connection was closed before a response arrived")
        else:
            self._refuse("the connection was closed in the middle of the response")

    # --- called by the parser ---

    def on_message_begin(self) -> None:
        """Begin a response; refuse one that follows the final response."""
        if self.complete:
            raise _LimitError("a second response followed the first one")

    def on_status(self, phrase: bytes) -> None:
        """Collect a part of the reason phrase."""
        self._head_size += len(phrase)
        self._reason += phrase
        self._check_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header, or discard a trailer."""
        self._head_size += len(name) + len(value) + 4
        self._check_head()
        if self.head is None:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Handle the end of the headers of an interim response or of the final response."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        version = self._parser.get_http_version()
        if version not in _VERSIONS:  # another version may be framed differently
            raise _LimitError(f"the version HTTP/{version} is not supported")
        if status < 200:
            if status < 100:
                raise _LimitError(f"the status {status:03} is not valid")
            return
        chunked = False
        sized = False
        for name, value in self._fields:
            lower = name.lower()
            if lower == b"transfer-encoding":
                # Strip spaces only: after a tab, the parser would not treat the body as chunked.
                if chunked or value.strip(b" ").lower() != b"chunked":
                    raise _LimitError(
                        f"the transfer coding {value[:40].decode('latin-1')!r} is not supported"
                    )
                chunked = True
            elif lower == b"content-length":
                sized = True
        self.keep_alive = self._parser.should_keep_alive()
        self._until_eof = not (chunked or sized or status in _NO_BODY or self._head_only)
        self.head = ResponseHead(status, self._reason, tuple(self._fields), version)
        self._head_size = 0
        if self._head_only:
            # llhttp does not know that the request was HEAD: it assumes that a response without a
            # length lasts until the connection ends.
            self.keep_alive = _persists(version, self._fields)
            self.complete = True

    def on_message_complete(self) -> None:
        """Handle the end of an interim response or of the final response."""
        if self.head is None:
            self._fields.clear()
            self._reason = b""
        elif self.complete:
            self.surplus = not self._head_only
        else:
            self.complete = True

    # --- limits ---

    def _check_head(self) -> None:
        if self._head_size > self._max_head:
            raise _LimitError(f"the headers or trailers are larger than {self._max_head} bytes")

    def _count_barren(self, size: int) -> None:
        if self.complete:
            if self._pieces:
                self.surplus = True
            self._release()
            return
        self._barren += size
        if self._barren > self._max_head and self.failure is None:
            self._refuse(f"more than {self._max_head} bytes of framing arrived without content")

    def _refuse(self, reason: str) -> None:
        self.failure = reason
        self.keep_alive = False
        self._release()

    def _release(self) -> None:
        # The parser holds bound methods of this reader. Without this line, only the garbage
        # collector would free the two objects.
        self._parser = None


def _persists(version: str, fields: list[tuple[bytes, bytes]]) -> bool:
    """Return whether the headers permit further requests on the connection (RFC 9112, 9.3)."""
    options = {
        option.strip().lower()
        for name, value in fields
        if name.lower() == b"connection"
        for option in value.split(b",")
    }
    return b"close" not in options and (version == "1.1" or b"keep-alive" in options)
