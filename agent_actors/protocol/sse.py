"""Server-sent events: bytes in, complete events out.

This module owns the text of an event stream, from the first byte of a response body to the parsed
events. It implements the algorithm in the WHATWG HTML standard (sections "Parsing an event stream"
and "Interpreting an event stream"). It does not know HTTP, reconnecting, or the meaning of the
data.

`SSEDecoder.feed` converts all line ends to LF and splits each read after its last complete line.
The rest is kept in `unfinished`, which is only appended to until its line ends. Therefore the work
stays linear even if the reads are small. `_take_plain` handles complete lines that contain only
`data: …` events. All other lines go through `_take_lines`, which follows the steps of the standard.
Both paths must give the same results; the tests compare them with a literal implementation of the
standard.

The standard ignores lines with unknown field names, and replaces bytes that are not UTF-8. Both are
signs that bytes of the stream were lost or changed. A decoder with `shows_faults` therefore returns
them, in order, among the events. A comment that ends like a JSON object is treated as such a line,
because a data line that lost its beginning looks like that.

Fields are separated as bytes and decoded when they are complete. This gives the exact result: CR,
LF, colon and space are never part of a longer UTF-8 sequence, and Python's `replace` inserts the
same number of U+FFFD as the standard's decoder.
"""

import re
from typing import Final, Literal, Never, TypeAlias

import msgspec

DEFAULT_MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""Bytes. An image or a file sent inline as base64 in one chunk fits; an endless line does not."""

DEFAULT_MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""Bytes. Twice the line limit, so that this limit applies only to data that really spans several
lines.
"""

_FIELD: Final = re.compile(rb"[A-Za-z][\w-]*:[^{}\[\]\"]*")
"""A field that is not in the standard and contains no JSON: an extension by an endpoint."""

_BOM: Final = b"\xef\xbb\xbf"

_MAX_RETRY_DIGITS: Final = 640
"""Digits. `int()` always accepts this many; a longer number is not a real time."""

_PREVIEW_BYTES: Final = 40
"""The number of bytes of an overlong line that the error shows: enough to recognise HTML or binary
data.
"""


class SSELimitError(ValueError):
    """A line or an event of the stream is larger than the limit of the decoder."""


# `bytes`: the event's data contained bytes that are not UTF-8 and were replaced. `line`: the data
# is the text of a line that is not valid in an event stream. `empty`: the event has a name but no
# data.
Fault: TypeAlias = Literal["", "bytes", "line", "empty"]

_KNOWN_LINES: Final = frozenset({b"error", b"[DONE]"})
"""Field names that endpoints send although they are not in the standard; they are not reported as
faults.
"""


# A Struct and not an attrs class, because one instance is created per token of every stream.
# Creating a frozen attrs instance costs seven times as much, and creating a NamedTuple four times.
# The Struct contains no containers, so the garbage collector need not track it. Returning the data
# as bytes was measured and rejected: it saves a fifth of the cost of an ASCII event but adds half
# to any other event, because data that is promised to be UTF-8 must be checked.
class ServerSentEvent(msgspec.Struct, frozen=True, gc=False):
    """One dispatched event.

    Args:
        event: The event type; `"message"` if the stream did not name one.
        data: The data lines of the event, joined with LF.
        id: The last event id at the time of dispatch; `""` before the first.
        retry: The reconnection time in milliseconds, if this event itself set it; otherwise None.
        fault: The reason why the event cannot be trusted; always empty without `shows_faults`.
    """

    event: str
    data: str
    id: str
    retry: int | None
    fault: Fault = ""


class SSEDecoder:
    r"""A decoder for one event stream; how its bytes are split into reads does not matter.

    Use one decoder per response body: call `feed` with each read, then `close`. The events are
    those of the complete body. An event is returned by the call that receives the end of its blank
    line.

        >>> decoder = SSEDecoder()
        >>> [event.data for event in decoder.feed(b"data: a\n\ndata: b")]
        ['a']
        >>> [event.data for event in decoder.feed(b"c\n\n")]
        ['bc']

    Args:
        max_line_bytes: The longest accepted line, in bytes without its line end.
        max_event_bytes: The maximum size of the data of one event, in received bytes, including the
            LFs between its lines.
        shows_faults: True to mark events whose bytes were replaced, and to also return the lines
            and events that the standard ignores.

    Attributes:
        unfinished: The beginning of a line whose end has not arrived; read-only.

    Raises:
        ValueError: A limit is below one byte.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """

    __slots__ = (
        "_between_events",
        "_block_open",
        "_closed",
        "_data",
        "_event",
        "_failure",
        "_id",
        "_last_event_id",
        "_max_event_bytes",
        "_max_line_bytes",
        "_plain_limit",
        "_retry",
        "_retry_of_block",
        "_shows_faults",
        "_skip_lf",
        "_start",
        "unfinished",
    )

    def __init__(
        self,
        *,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        shows_faults: bool = False,
    ) -> None:
        for option, limit in (
            ("max_line_bytes", max_line_bytes),
            ("max_event_bytes", max_event_bytes),
        ):
            if limit < 1:
                raise ValueError(f"{option} must be at least 1 byte, got {limit}")
        self._max_line_bytes = max_line_bytes
        self._max_event_bytes = max_event_bytes
        self._plain_limit = min(max_line_bytes, max_event_bytes)
        self._shows_faults = shows_faults
        # The bytes so far while they may still be the start of a BOM; None afterwards.
        self._start: bytes | None = b""
        # True if the last read ended in CR: an LF at the start of the next read belongs to that
        # line end.
        self._skip_lf = False
        self.unfinished: bytearray = bytearray()
        self._block_open = False
        # True if `feed_plain` may process a complete read of plain events. This includes the start
        # of the stream, because data that begins with a BOM is not plain.
        self._between_events = True
        self._data = bytearray()
        self._event = ""
        self._retry_of_block: int | None = None
        self._id = ""
        self._last_event_id = ""
        self._retry: int | None = None
        self._failure: str | None = None
        self._closed = False

    @property
    def last_event_id(self) -> str:
        """The id to send as `Last-Event-ID` when reconnecting; `""` before the first.

        It is the last id that was confirmed by a blank line, whether or not its block contained
        data.
        """
        return self._last_event_id

    @property
    def retry(self) -> int | None:
        """The last reconnection time in the stream, in milliseconds; None before the first."""
        return self._retry

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Process the next bytes of the stream.

        Args:
            data: The received bytes; their number and boundaries do not matter.

        Returns:
            The events that these bytes completed, in order.

        Raises:
            SSELimitError: A line or an event exceeded its limit. If the same read completed earlier
                events, they are returned and the next call raises the error. Therefore the events
                before the error do not depend on how the bytes were split. Every later call raises
                the error again.
            RuntimeError: The decoder is closed.
        """
        if self._failure is not None or self._closed:
            self._refuse()
        if self._start is not None:
            data = self._without_bom(self._start + data)
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = data.rfind(b"\n") + 1
        events: list[ServerSentEvent] = []
        try:
            if end:
                lines = data[:end]
                if self.unfinished:
                    lines = b"".join((self.unfinished, lines))
                    self.unfinished.clear()
                if not self._take_plain(lines, events):
                    self._take_lines(lines, events)
            if end < len(data):
                self._keep(data[end:])
            self._between_events = not (
                self._block_open or self._skip_lf or self._start is not None
            )
        except SSELimitError as error:
            self._failure = str(error)
            self._between_events = False
            self._drop_buffers()
            if not events:
                raise
        return events

    def feed_plain(self, data: bytes) -> list[bytes] | None:
        """Process a read if all of its events have exactly one data line.

        The last event may be incomplete. Almost every read from a model has this form. For such
        reads, this method creates no object per event, and returns bytes for parsers that accept
        bytes.

        Returns:
            The data of the complete events, as received. None for any other read; nothing has been
            processed then, and the read must be passed to `feed`.
        """
        if not self._between_events or b"\r" in data:
            return None
        whole = data.endswith(b"\n\n")
        if (
            whole
            and not self.unfinished
            and data.startswith(b"data: ")
            and data.count(b"\n") == 2
            and len(data) <= self._plain_limit
        ):  # a single event: almost every read of a paced stream
            self._start = None
            return [data[6:-2]]
        end = len(data) if whole else data.rfind(b"\n\n") + 2
        lines, rest = data[:end], data[end:]
        if end < 2 or b"\n" in rest or len(rest) > self._max_line_bytes:
            return None
        if self.unfinished:
            lines = bytes(self.unfinished) + lines
        plain = self._plain_data(lines)
        if plain is not None:
            self._start = None
            if rest or self.unfinished:
                self.unfinished = bytearray(rest)
        return plain

    def close(self) -> list[ServerSentEvent]:
        """Process the end of the stream; may be called repeatedly.

        Returns:
            Always an empty list, because the standard discards an event whose blank line never
            arrived.

        Raises:
            SSELimitError: The stream had exceeded a limit.
        """
        if self._failure is not None:
            self._refuse()
        self._closed = True
        self._between_events = False
        self._drop_buffers()
        return []

    def _refuse(self) -> Never:
        if self._failure is not None:
            raise SSELimitError(self._failure)
        raise RuntimeError("this SSEDecoder is closed; use a new one for the next stream")

    def _drop_buffers(self) -> None:
        self.unfinished.clear()
        self._data.clear()

    def _without_bom(self, head: bytes) -> bytes:
        """Return the bytes of `head` after a BOM; nothing while `head` may still become a BOM."""
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._start = head
            return b""
        self._start = None
        return head.removeprefix(_BOM)

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of an unfinished line, within the limit."""
        if len(self.unfinished) + len(rest) > self._max_line_bytes:
            raise self._line_too_long(
                bytes(self.unfinished[:_PREVIEW_BYTES]) + rest[:_PREVIEW_BYTES]
            )
        self.unfinished += rest

    def _take_plain(self, lines: bytes, events: list[ServerSentEvent]) -> bool:
        """Process `lines` if they contain only one-line data events. Return whether they did."""
        plain = None if self._block_open else self._plain_data(lines)
        if plain is None:
            return False
        last_id = self._last_event_id
        if self._shows_faults:
            events += [ServerSentEvent("message", *_text(data, last_id, None)) for data in plain]
            return True
        events += [
            ServerSentEvent("message", data.decode("utf-8", "replace"), last_id, None)
            for data in plain
        ]
        return True

    def _plain_data(self, lines: bytes) -> list[bytes] | None:
        """Return the data of `lines`, without a loop, if they contain only one-line data events."""
        if (
            not lines.startswith(b"data: ")
            or not lines.endswith(b"\n\n")
            or len(lines) > self._plain_limit
        ):
            return None
        if lines.count(b"\n") == 2:
            return [lines[6:-2]]
        parts = lines[6:-2].split(b"\n\ndata: ")
        if lines.count(b"\n") != 2 * len(parts):
            return None
        return parts

    def _take_lines(self, lines: bytes, events: list[ServerSentEvent]) -> None:
        """Process complete lines one by one."""
        # Splitting once is a third faster than searching for each line. The size of the list is
        # proportional to one read, and the caller chose the size of the read.
        for line in lines[:-1].split(b"\n"):
            if not line:
                self._dispatch(events)
            elif len(line) > self._max_line_bytes:
                raise self._line_too_long(line)
            elif not self._take_field(line) and self._shows_faults and _is_odd(line):
                odd = line.decode("utf-8", "replace")
                events.append(ServerSentEvent("message", odd, self._last_event_id, None, "line"))

    def _take_field(self, line: bytes) -> bool:
        """Process a line. Return False if it is unknown, or ends like JSON without being data."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            if len(self._data) + len(value) > self._max_event_bytes:
                raise self._event_too_large(len(self._data) + len(value))
            self._data += value
            self._data += b"\n"
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry":
            if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
                self._retry = self._retry_of_block = int(value)
        else:  # a comment, whose name is empty, or an unknown field
            return False
        self._block_open = True
        # If a line end was lost, the next data line became part of a name or an id.
        return name == b"data" or not value.endswith(b"}")

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        self._last_event_id = self._id
        if self._data:
            event = _text(bytes(self._data[:-1]), self._id, self._retry_of_block)
            if not self._shows_faults:
                event = (*event[:3], "")
            events.append(ServerSentEvent(self._event or "message", *event))
            self._data.clear()
        elif self._event and self._shows_faults:
            events.append(ServerSentEvent(self._event, "", self._id, None, "empty"))
        self._event = ""
        self._retry_of_block = None
        self._block_open = False

    def _line_too_long(self, start_of_line: bytes) -> SSELimitError:
        # No byte after the first one over the limit is shown, so that the message does not depend
        # on the size of the reads either.
        shown = start_of_line[: min(_PREVIEW_BYTES, self._max_line_bytes + 1)]
        return SSELimitError(
            f"a line of the event stream is longer than {self._max_line_bytes} bytes; it starts"
            f" with {shown!r}; if such lines are expected, raise"
            " max_line_bytes"
        )

    def _event_too_large(self, size: int) -> SSELimitError:
        return SSELimitError(
            f"an event of the stream has at least {size} bytes of data, but at most"
            f" {self._max_event_bytes} are accepted; if such events are expected, raise"
            " max_event_bytes"
        )


def _text(data: bytes, last_id: str, retry: int | None) -> tuple[str, str, int | None, Fault]:
    """Return the fields of an event except its type. Bytes that are not UTF-8 are replaced."""
    try:
        return data.decode("utf-8"), last_id, retry, ""
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), last_id, retry, "bytes"


def _is_odd(line: bytes) -> bool:
    """Return whether an ignored line may be the remainder of a data line."""
    name, _, value = line.partition(b":")
    if not name:
        return value.rstrip().endswith(b"}")
    return name.strip() not in _KNOWN_LINES and _FIELD.fullmatch(line) is None
