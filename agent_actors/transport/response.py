"""One HTTP/1.x answer, from its bytes: its head, its body, where it ends, and whether it is one.

Owns the framing of RFC 9112 and the limits on it; it does no I/O. The bytes are parsed by llhttp
(through httptools), which refuses what is ambiguous: two lengths, a length beside chunks, folded
headers, bare line ends, control characters. What llhttp lets through and a client must not is
refused here: a transfer coding other than `chunked`, a status below 100, another version of HTTP, a
change of protocol that nobody asked for, and whatever is too long.

A reader reads one final answer and is dropped then. Interim answers (1xx) before it are skipped.
What comes after it is no part of it: `surplus` is set, and the connection must not be used again.
"""

from typing import TYPE_CHECKING, Final

import attrs
import httptools

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HEAD: Final = 64 * 1024
"""Bytes of a head, and of whatever else brings no content: chunk extensions, trailers, interim
answers. Servers themselves take 8 to 64 KiB of head."""

MAX_BODY: Final = 1 << 30
"""Bytes of a body. An answer of a model is a few megabytes at most; this only stops a flood."""

_NO_BODY: Final = frozenset({204, 304})
_BLANK_LINE: Final = b"\r\n\r\n"
_VERSIONS: Final = frozenset({"1.0", "1.1"})


@attrs.frozen
class ResponseHead:
    """The head of the final answer.

    Attributes:
        status: From 100 upward.
        reason: The phrase beside it, as it came.
        headers: Names and values, in order, as they came.
        http_version: "1.0" or "1.1".
    """

    status: int
    reason: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    http_version: str

    def joined(self) -> dict[str, str]:
        """The headers by name in lower case; several of one name are joined by a comma."""
        joined: dict[str, str] = {}
        for raw_name, raw_value in self.headers:
            name, value = raw_name.decode("ascii").lower(), raw_value.decode("latin-1")
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
        return joined


class _LimitError(Exception):
    """Raised through the parser when something is too long or out of place."""


class ResponseReader:
    """Reads one answer.

    Args:
        head_only: True for a request whose answer has no body whatever its head says (HEAD).
        max_head: Bytes of the head, and of framing in a row that brings no content.
        max_body: Bytes of the body.
    """

    __slots__ = (
        "_barren",
        "_body_left",
        "_fields",
        "_head_only",
        "_head_size",
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
        self._max_head = max_head
        self._body_left = max_body
        self._fields: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._head_size = 0
        self._barren = 0
        self._until_eof = False
        self._pieces: list[bytes] = []
        # The parser calls these by name; this one straight into the list, once a chunk.
        self.on_body: Callable[[bytes], None] = self._pieces.append
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> bytes:
        """Take a read's worth of bytes; return what they bring of the body.

        Afterwards `head`, `complete`, `surplus` and `failure` say how things stand. What is
        returned beside a failure came before it.
        """
        if self._parser is None:
            self.surplus = True
            return b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse("a change of protocol that nobody asked for")
        except httptools.HttpParserError as error:
            if self.complete:
                self.surplus = True
            elif isinstance(error.__context__, _LimitError):
                self._refuse(str(error.__context__))
            else:
                self._refuse(str(error))
        if self._head_only and self.complete and not _BLANK_LINE.endswith(bytes(data[-4:])):
            self.surplus = True  # to the parser, it may be half a line of framing
        pieces = self._pieces
        if not pieces or (self._head_only and self.complete):
            self._count_barren(len(data))
            return b""
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._barren = 0
        self._body_left -= len(body)
        if self._body_left < 0:
            self._refuse("a body over the limit")
        if self.complete:
            self._release()
        return body

    @property
    def begun(self) -> bool:
        """True if a byte of an answer has come."""
        return self.head is not None or self._barren > 0

    def end(self, *, clean: bool) -> None:
        """Take the end of the connection.

        Args:
            clean: False if the end may have been forged: TLS without its closing alert.
        """
        if self.complete or self.failure is not None:
            return
        if self._until_eof and clean:
            self.complete = True
            self._release()
        elif self.head is None:
            self._refuse("the connection was closed before an answer")
        else:
            self._refuse("the connection was closed in the middle of the answer")

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        """An answer begins; after the final one nothing may."""
        if self.complete:
            raise _LimitError("a second answer")

    def on_status(self, phrase: bytes) -> None:
        """A part of the phrase beside the status."""
        self._head_size += len(phrase)
        self._reason += phrase
        self._check_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        self._head_size += len(name) + len(value) + 4
        self._check_head()
        if self.head is None:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """The head of an interim or the final answer is whole."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        version = self._parser.get_http_version()
        if version not in _VERSIONS:  # another one has another framing, whatever it looks like
            raise _LimitError(f"the version HTTP/{version}")
        if status < 200:
            if status < 100:
                raise _LimitError(f"the status {status:03}")
            return
        chunked = False
        sized = False
        for name, value in self._fields:
            lower = name.lower()
            if lower == b"transfer-encoding":
                # Only spaces: after a tab the parser would not take the body for chunks.
                if chunked or value.strip(b" ").lower() != b"chunked":
                    raise _LimitError(f"the transfer coding {value[:40].decode('latin-1')!r}")
                chunked = True
            elif lower == b"content-length":
                sized = True
        self.keep_alive = self._parser.should_keep_alive()
        self._until_eof = not (chunked or sized or status in _NO_BODY or self._head_only)
        self.head = ResponseHead(status, self._reason, tuple(self._fields), version)
        self._head_size = 0
        if self._head_only:
            # llhttp does not know of HEAD: an answer without a length seems to last until the end.
            self.keep_alive = _persists(version, self._fields)
            self.complete = True

    def on_message_complete(self) -> None:
        """An interim answer ended, or the final one."""
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
            raise _LimitError(f"a head or trailers of more than {self._max_head} bytes")

    def _count_barren(self, size: int) -> None:
        if self.complete:
            if self._pieces:
                self.surplus = True
            self._release()
            return
        self._barren += size
        if self._barren > self._max_head and self.failure is None:
            self._refuse(f"more than {self._max_head} bytes of framing without content")

    def _refuse(self, reason: str) -> None:
        self.failure = reason
        self.keep_alive = False
        self._release()

    def _release(self) -> None:
        # The parser holds this reader's methods: without this, both would wait for the collector.
        self._parser = None


def _persists(version: str, fields: list[tuple[bytes, bytes]]) -> bool:
    """Whether a head alone leaves its connection to others (RFC 9112, 9.3)."""
    options = {
        option.strip().lower()
        for name, value in fields
        if name.lower() == b"connection"
        for option in value.split(b",")
    }
    return b"close" not in options and (version == "1.1" or b"keep-alive" in options)
