"""Server-sent events: bytes in, whole events out.

Owns the text of an event stream, from the first byte of a response body to the events in it, by
the algorithm of the WHATWG HTML standard (sections "Parsing an event stream" and "Interpreting an
event stream"). It knows nothing of HTTP, of reconnecting, or of what the data means.

How it works: `SSEDecoder.feed` ends every line with LF and cuts the read after its last whole
line; the rest waits in `unfinished`, only appended to until its line ends, so that the work
stays linear however small the reads are. Whole lines go to `_take_plain` if they are nothing but
`data: …` events, else through `_take_lines`, the standard's own steps. The two must agree; the
tests hold both against a literal reading of the standard.

The standard ignores a line with an unknown field name, and replaces bytes that are not UTF-8. Both
are signs that bytes of the stream were lost or changed, so a decoder with `shows_faults` returns
them, in their place among the events. A comment that ends like a JSON object counts as such a line:
a data line that lost its beginning looks like that.

Fields are told apart as bytes and decoded once they are whole. That is exact: CR, LF, colon and
space are never part of a longer UTF-8 sequence, and Python's `replace` puts in the same number of
U+FFFD as the standard's decoder.
"""

import re
from typing import Final, Literal, Never, TypeAlias

import msgspec

DEFAULT_MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""Bytes. An image or a file sent inline as base64 in one chunk fits; an endless line does not."""

DEFAULT_MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""Bytes. Twice the line bound, so that it speaks only for data that really spans lines."""

_FIELD: Final = re.compile(rb"[A-Za-z][\w-]*:[^{}\[\]\"]*")
"""A field that the standard does not have and that holds no JSON: some endpoint's own."""

_BOM: Final = b"\xef\xbb\xbf"

_MAX_RETRY_DIGITS: Final = 640
"""Digits. Python lets no setting refuse `int()` of so many; more of them name no real time."""

_PREVIEW_BYTES: Final = 40
"""Bytes of an over-long line shown in its error: enough to know HTML or binary from events."""


class SSELimitError(ValueError):
    """A line or an event of the stream is larger than the decoder was told to accept."""


# `bytes`: bytes of the event's data are not UTF-8, and were replaced. `line`: no event, but a line
# that is none of a stream; its text is the data. `empty`: an event with a name and without data.
Fault: TypeAlias = Literal["", "bytes", "line", "empty"]

_KNOWN_LINES: Final = frozenset({b"error", b"[DONE]"})
"""Names of fields that the standard does not have and that endpoints send: they are no faults."""


# A Struct and not an attrs class: one is made per token of every stream, and a frozen attrs
# instance costs seven times as much to make (a NamedTuple four times). It holds no containers, so
# that the garbage collector need not know it. Handing out the data as bytes was measured and left:
# it saves a fifth of the cost of an ASCII event and adds half to any other, since what is promised
# to be UTF-8 must be checked.
class ServerSentEvent(msgspec.Struct, frozen=True, gc=False):
    """One dispatched event.

    Args:
        event: Its type; `"message"` where the stream named none.
        data: The data lines of the event, joined by LF.
        id: The last event id in force when it was dispatched; `""` before the first.
        retry: The reconnection time in milliseconds that this very event set, else None.
        fault: Why it cannot be trusted; always empty without `shows_faults`.
    """

    event: str
    data: str
    id: str
    retry: int | None
    fault: Fault = ""


class SSEDecoder:
    r"""Decodes one event stream, however its bytes were split.

    Use one decoder per response body: call `feed` with each read as it comes, then `close`.
    The events are those of the whole body; an event is returned by the very call that brings
    the end of its blank line.

        >>> decoder = SSEDecoder()
        >>> [event.data for event in decoder.feed(b"data: a\n\ndata: b")]
        ['a']
        >>> [event.data for event in decoder.feed(b"c\n\n")]
        ['bc']

    Args:
        max_line_bytes: The longest line accepted, in bytes, its line end not counted.
        max_event_bytes: The most data accepted in one event, in bytes as received, the LFs
            between its lines counted.
        shows_faults: Whether events say that their bytes were replaced, and lines and events that
            the standard ignores are returned, too.

    Attributes:
        unfinished: The beginning of a line whose end has not come; to be read only.

    Raises:
        ValueError: A bound is below one byte.

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
        # The bytes so far while they may still become a BOM; None from then on.
        self._start: bytes | None = b""
        # The last read ended in CR: a LF at the start of the next one belongs to that line end.
        self._skip_lf = False
        self.unfinished: bytearray = bytearray()
        self._block_open = False
        # True where a whole read of plain events may be taken by `feed_plain`. At the start, too:
        # what begins with a BOM is not plain.
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

        It is the last id that a blank line has confirmed, whether or not its block had data.
        """
        return self._last_event_id

    @property
    def retry(self) -> int | None:
        """The reconnection time last set by the stream, in milliseconds; None before the first."""
        return self._retry

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes of the stream.

        Args:
            data: What was read; any number of bytes, cut anywhere.

        Returns:
            The events that these bytes completed, in order.

        Raises:
            SSELimitError: A line or an event passed its bound. Events completed before it in the
                same read are returned first and the error is raised by the next call, so that
                what is seen before it does not depend on how the bytes were split. From then on
                every call raises it.
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
        """Take a read if it holds nothing but events of one data line each, the last maybe cut.

        This is what nearly every read from a model is. It saves an object per event, and a parser
        that wants bytes gets them.

        Returns:
            The data of its whole events, as it came; None if it is any other read: nothing is
            taken then, and it is to be fed.
        """
        if not self._between_events or b"\r" in data:
            return None
        end = len(data) if data.endswith(b"\n\n") else data.rfind(b"\n\n") + 2
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
        """Take the end of the stream; may be called again.

        Returns:
            No events: the standard discards one whose blank line never came.

        Raises:
            SSELimitError: The stream had passed a bound.
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
        """The bytes of `head` that are text; none of them while it may still become a BOM."""
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._start = head
            return b""
        self._start = None
        return head.removeprefix(_BOM)

    def _keep(self, rest: bytes) -> None:
        """Put the start of an unfinished line by, within the bound."""
        if len(self.unfinished) + len(rest) > self._max_line_bytes:
            raise self._line_too_long(
                bytes(self.unfinished[:_PREVIEW_BYTES]) + rest[:_PREVIEW_BYTES]
            )
        self.unfinished += rest

    def _take_plain(self, lines: bytes, events: list[ServerSentEvent]) -> bool:
        """Take `lines` if they are one-line data events only; say whether they were."""
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
        """The data of `lines` if they are one-line data events only, in whole-read steps."""
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
        """Take whole lines one by one."""
        # One split, not a search per line: a third faster, and its list is no larger than some
        # multiple of one read, which the caller chose the size of.
        for line in lines[:-1].split(b"\n"):
            if not line:
                self._dispatch(events)
            elif len(line) > self._max_line_bytes:
                raise self._line_too_long(line)
            elif not self._take_field(line) and self._shows_faults and _is_odd(line):
                odd = line.decode("utf-8", "replace")
                events.append(ServerSentEvent("message", odd, self._last_event_id, None, "line"))

    def _take_field(self, line: bytes) -> bool:
        """Take a line; False if it means nothing, or ends as only data does."""
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
        else:  # A comment, whose name is empty, or a field that means nothing.
            return False
        self._block_open = True
        # A lost line end joins the next data line to a name or an id.
        return name == b"data" or not value.endswith(b"}")

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        self._last_event_id = self._id
        if self._data:
            told = _text(bytes(self._data[:-1]), self._id, self._retry_of_block)
            if not self._shows_faults:
                told = (*told[:3], "")
            events.append(ServerSentEvent(self._event or "message", *told))
            self._data.clear()
        elif self._event and self._shows_faults:
            events.append(ServerSentEvent(self._event, "", self._id, None, "empty"))
        self._event = ""
        self._retry_of_block = None
        self._block_open = False

    def _line_too_long(self, start_of_line: bytes) -> SSELimitError:
        # No more than has come by the byte that breaks the bound: the message, too, does not
        # depend on how much of the line was in that read.
        shown = start_of_line[: min(_PREVIEW_BYTES, self._max_line_bytes + 1)]
        return SSELimitError(
            f"a line of the event stream is longer than {self._max_line_bytes} bytes; it starts"
            f" with {shown!r}; if such lines are expected, raise"
            " max_line_bytes"
        )

    def _event_too_large(self, size: int) -> SSELimitError:
        return SSELimitError(
            f"an event of the stream has at least {size} bytes of data, more than the"
            f" {self._max_event_bytes} accepted; if such events are expected, raise"
            " max_event_bytes"
        )


def _text(data: bytes, last_id: str, retry: int | None) -> tuple[str, str, int | None, Fault]:
    """The fields of an event after its type; bytes that are not UTF-8 are replaced."""
    try:
        return data.decode("utf-8"), last_id, retry, ""
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), last_id, retry, "bytes"


def _is_odd(line: bytes) -> bool:
    """True if an ignored line may be what is left of a data line."""
    name, _, value = line.partition(b":")
    if not name:
        return value.rstrip().endswith(b"}")
    return name.strip() not in _KNOWN_LINES and _FIELD.fullmatch(line) is None
