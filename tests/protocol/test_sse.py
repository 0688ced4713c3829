"""The event stream decoder, tested by named cases and a literal reading of the standard."""

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Never

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_actors.protocol.sse import (
    DEFAULT_MAX_EVENT_BYTES,
    DEFAULT_MAX_LINE_BYTES,
    ServerSentEvent,
    SSEDecoder,
    SSELimitError,
)

BOM = b"\xef\xbb\xbf"
EMOJI = "😀".encode()


class Seen(NamedTuple):
    """The state that an observer of a decoder sees at some point of the stream."""

    events: list[ServerSentEvent]
    last_event_id: str
    retry: int | None


def message(
    data: str, *, event: str = "message", last_id: str = "", retry: int | None = None
) -> ServerSentEvent:
    return ServerSentEvent(event=event, data=data, id=last_id, retry=retry)


# --- a literal reading of the standard ------------------------------------------------------------


def decode_by_the_standard(stream: bytes) -> str:
    """Decode UTF-8 byte by byte, with the two boundaries of the Encoding standard."""
    text: list[str] = []
    point = needed = 0
    lower, upper = 0x80, 0xBF
    for byte in stream:
        if needed and not lower <= byte <= upper:
            needed, lower, upper = 0, 0x80, 0xBF
            text.append("\ufffd")  # the same byte is then read again as a first byte
        elif needed:
            lower, upper = 0x80, 0xBF
            point = point << 6 | byte & 0x3F
            needed -= 1
            if not needed:
                text.append(chr(point))
            continue
        if byte <= 0x7F:
            text.append(chr(byte))
        elif 0xC2 <= byte <= 0xDF:
            needed, point = 1, byte & 0x1F
        elif 0xE0 <= byte <= 0xEF:
            lower = 0xA0 if byte == 0xE0 else 0x80
            upper = 0x9F if byte == 0xED else 0xBF
            needed, point = 2, byte & 0xF
        elif 0xF0 <= byte <= 0xF4:
            lower = 0x90 if byte == 0xF0 else 0x80
            upper = 0x8F if byte == 0xF4 else 0xBF
            needed, point = 3, byte & 0x7
        else:
            text.append("\ufffd")
    return "".join([*text, "\ufffd" if needed else ""])


def lines_by_the_standard(text: str) -> list[str]:
    """Return the finished lines of `text`; the text after the last line end is not a line yet."""
    return re.split("\r\n|\n|\r", text)[:-1]


def interpret_by_the_standard(stream: bytes) -> Seen:
    """Decode the whole stream, then follow "Interpreting an event stream" line by line."""
    text = decode_by_the_standard(stream).removeprefix("\ufeff")
    events: list[ServerSentEvent] = []
    data_buffer = event_type_buffer = last_event_id_buffer = last_event_id = ""
    reconnection_time: int | None = None
    retry_in_block: int | None = None
    for line in lines_by_the_standard(text):
        if line == "":
            last_event_id = last_event_id_buffer
            if data_buffer != "":
                event_type = "message" if event_type_buffer == "" else event_type_buffer
                data = data_buffer.removesuffix("\n")
                events.append(ServerSentEvent(event_type, data, last_event_id, retry_in_block))
            data_buffer = event_type_buffer = ""
            retry_in_block = None
            continue
        if line.startswith(":"):
            continue
        field, colon, value = line.partition(":")
        if colon and value.startswith(" "):
            value = value[1:]
        if field == "event":
            event_type_buffer = value
        elif field == "data":
            data_buffer += value + "\n"
        elif field == "id" and "\0" not in value:
            last_event_id_buffer = value
        elif field == "retry" and value != "" and all(c in "0123456789" for c in value):
            reconnection_time = retry_in_block = int(value)
    return Seen(events, last_event_id, reconnection_time)


# --- ways to split a stream -----------------------------------------------------------------------


def chunks_at(stream: bytes, cuts: list[int]) -> list[bytes]:
    return [stream[a:b] for a, b in itertools.pairwise([0, *sorted(cuts), len(stream)])]


def whole(stream: bytes) -> list[bytes]:
    return [stream]


def single_bytes(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


def decoded(chunks: list[bytes]) -> list[ServerSentEvent]:
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.close()


def decoded_within(
    chunks: list[bytes], *, line: int = 1000, event: int = 1000
) -> tuple[Seen, str | None]:
    """Decode with these limits; return the observed state, and the error that ended it, if any."""
    decoder = SSEDecoder(max_line_bytes=line, max_event_bytes=event)
    events: list[ServerSentEvent] = []
    error: str | None = None
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
        decoder.close()
    except SSELimitError as failure:
        error = str(failure)
    return Seen(events, decoder.last_event_id, decoder.retry), error


PIECES = [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b":", b" ", b"\0", b"x", b"7", BOM),
    *(b"data", b"data:", b"data: ", b"event: ", b"id:", b"id: 1\n", b"retry:", b"retry: 12\n"),
    *(b"data: {}\n\n", b"data: a\n\n", b": ping\n\n", b"Data: no\n"),
    *(EMOJI, EMOJI[:2], EMOJI[2:], b"\xff", b"\xed\xa0\x80", "٣".encode(), "é".encode()),
]
PLAIN = [b"data: a\n\n", b"data: \n\n", b"data:  b\n\n", b"data: " + EMOJI + b"\n\n"]
streams = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join),
    st.lists(st.sampled_from([*PLAIN * 3, b"id: 1\n", b"\n", b"data\n"]), max_size=9).map(b"".join),
    st.binary(max_size=60),
)


@st.composite
def split_streams(draw: st.DrawFn) -> list[bytes]:
    stream = draw(streams)
    return chunks_at(stream, draw(st.lists(st.integers(0, len(stream)), max_size=8)))


# --- named cases ----------------------------------------------------------------------------------

CASES: dict[str, tuple[bytes, list[ServerSentEvent]]] = {
    # The standard's own examples.
    "plain messages": (
        b"data: the first\n\ndata: the second, it\ndata: has two lines\n\ndata: the third\n\n",
        [message("the first"), message("the second, it\nhas two lines"), message("the third")],
    ),
    "event types": (
        b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n",
        [message("73857293", event="add"), message("2153", event="remove")],
    ),
    "several data lines are joined": (
        b"data: YHOO\ndata: +2\ndata: 10\n\n",
        [message("YHOO\n+2\n10")],
    ),
    "comment, id, empty id, two spaces": (
        b": test\n\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n\n",
        [message("first", last_id="1"), message("second"), message(" third")],
    ),
    "data without a value": (b"data\n\ndata\ndata\n\ndata:", [message(""), message("\n")]),
    "the space after the colon": (b"data:test\n\ndata: test\n\n", [message("test")] * 2),
    # Line ends.
    "CR": (b"data: a\rdata: b\r\rdata: c\r\r", [message("a\nb"), message("c")]),
    "CRLF": (b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", [message("a\nb"), message("c")]),
    "CR CR LF LF is three line ends": (
        b"data: a\r\r\n\ndata: b\r\n\n",
        [message("a"), message("b")],
    ),
    "LF CR is two line ends": (b"data: a\n\rdata: b\n\r", [message("a"), message("b")]),
    "other Unicode line ends are text": (
        "data: a\u2028b\u0085c\x0bd\x0ce\n\n".encode(),
        [message("a\u2028b\u0085c\x0bd\x0ce")],
    ),
    # The byte order mark.
    "one leading BOM": (BOM + b"data: a\n\n", [message("a")]),
    "only one BOM": (BOM + BOM + b"data: a\n\ndata: b\n\n", [message("b")]),
    "BOM later": (b"data: a\n\n" + BOM + b"data: b\n\ndata: c\n\n", [message("a"), message("c")]),
    "half a BOM": (BOM[:2] + b"\ndata: a\n\n", [message("a")]),
    # Fields.
    "colons in the value": (b"data: a: b::c\n\n", [message("a: b::c")]),
    "only one space is taken": (b"data:   a \ndata:\tb\n\n", [message("  a \n\tb")]),
    "a space before the colon": (b"data : a\n data: b\ndata: c\n\n", [message("c")]),
    "unknown fields": (b"error: {}\nfoo\nDATA: a\nData: b\ndata: c\n\n", [message("c")]),
    "comments": (b":\n: ping\n:data: a\n\ndata: b\n: in between\ndata: c\n\n", [message("b\nc")]),
    "the last event field wins": (b"event: a\nevent: b\ndata\n\n", [message("", event="b")]),
    "an empty type is message": (b"event: a\nevent:\ndata\n\n", [message("")]),
    "a type ends with its block": (
        b"event: a\n\ndata: 1\n\nevent: b\ndata: 2\n\ndata: 3\n\n",
        [message("1"), message("2", event="b"), message("3")],
    ),
    "blank lines only": (b"\n\n\r\n\r\r\n", []),
    # Ids.
    "an id stays": (
        b"id: 7\ndata: a\n\ndata: b\n\n",
        [message("a", last_id="7"), message("b", last_id="7")],
    ),
    "an id without data counts": (b"id: 7\n\ndata: a\n\n", [message("a", last_id="7")]),
    "an id with NUL is ignored": (b"id: 7\nid: 8\x009\ndata: a\n\n", [message("a", last_id="7")]),
    "NUL elsewhere is text": (b"event: \0\ndata: \0\n\n", [message("\0", event="\0")]),
    # Retry.
    "retry": (
        b"retry: 0250\ndata: a\n\ndata: b\n\nretry: 1\nretry: 2\ndata: c\n\n",
        [message("a", retry=250), message("b"), message("c", retry=2)],
    ),
    "a retry belongs to its block": (b"retry: 9\n\ndata: a\n\n", [message("a")]),
    "retry takes ASCII digits only": (
        "retry\nretry:\nretry: +1\nretry: -1\nretry:  1\nretry: 1 \nretry: 1e3\nretry: ٣\n"
        "retry: ²\nretry: 1_0\ndata: a\n\n".encode(),
        [message("a")],
    ),
    # Invalid UTF-8.
    "stray bytes": (b"data: a\xffb\x80\n\n", [message("a\ufffdb\ufffd")]),
    "a character cut by a line end": (
        b"data: " + EMOJI[:3] + b"\ndata: " + EMOJI[3:] + b"\n\n",
        [message("\ufffd\n\ufffd")],
    ),
    "an encoded surrogate": (b"data: \xed\xa0\x80\n\n", [message("\ufffd" * 3)]),
    "replaced in type and id": (
        b"event: \xff\nid: \xf0\x9f\ndata\n\n",
        [message("", event="\ufffd", last_id="\ufffd")],
    ),
    # The end of the stream.
    "nothing": (b"", []),
    "no blank line at the end": (b"data: a\n\ndata: b\n", [message("a")]),
    "no line end at the end": (b"data: a\n\ndata: b", [message("a")]),
}


@pytest.mark.feature("OAGS-037")
@pytest.mark.parametrize(("stream", "expected"), CASES.values(), ids=CASES.keys())
def test_stream_gives_events_of_the_standard(
    stream: bytes, expected: list[ServerSentEvent]
) -> None:
    assert interpret_by_the_standard(stream).events == expected
    assert decoded([stream]) == expected
    assert decoded(single_bytes(stream)) == expected
    for cut in range(len(stream) + 1):
        assert decoded([stream[:cut], b"", stream[cut:]]) == expected


@pytest.mark.feature("OAGS-037")
@given(split_streams())
@example([b"data: a\n\ndata: b\n", b"\ndata: c\n\n"])
@example([b"data: a\r", b"\n\r", b"\n"])
@example([b"data: ", EMOJI[:1], EMOJI[1:3], EMOJI[3:] + b"\n\n"])
@example([BOM[:1], BOM[1:2], BOM[2:] + b"data: a\n\n"])
def test_each_read_follows_the_standard(
    chunks: list[bytes],
) -> None:
    decoder = SSEDecoder()
    events: list[ServerSentEvent] = []
    stream = b""
    for chunk in chunks:
        stream += chunk
        events += decoder.feed(chunk)
        assert Seen(events, decoder.last_event_id, decoder.retry) == (
            interpret_by_the_standard(stream)
        )
    assert decoder.close() == []


def test_invalid_bytes_are_replaced_by_standard() -> None:
    # Every first byte, then each byte on either side of every boundary that the standard tests.
    edges = [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4]
    for rest in itertools.product(edges, repeat=3):
        for first in (0x41, *range(0xBF, 0x100)):
            stream = bytes((first, *rest))
            assert stream.decode("utf-8", "replace") == decode_by_the_standard(stream), stream


@pytest.mark.parametrize(
    ("stream", "faulty", "standard"),
    [
        (
            b"id: 7\nevent: done\n\n",
            [ServerSentEvent("done", "", "7", None, "empty")],
            [],
        ),
        (
            b"data: a\xff\n\n",
            [ServerSentEvent("message", "a\ufffd", "", None, "bytes")],
            [message("a\ufffd")],
        ),
        (
            b"id: 7\nretry: 5\ndata: \xff\n\n",
            [ServerSentEvent("message", "\ufffd", "7", 5, "bytes")],
            [message("\ufffd", last_id="7", retry=5)],
        ),
        (
            b'id: 7\n\nta: {"a": 1}\n: {"b": 2} \n',
            [
                ServerSentEvent("message", 'ta: {"a": 1}', "7", None, "line"),
                ServerSentEvent("message", ': {"b": 2} ', "7", None, "line"),
            ],
            [],
        ),
        (
            b'event: x{"a": 1}\ndata: b\n\n',
            [
                ServerSentEvent("message", 'event: x{"a": 1}', "", None, "line"),
                message("b", event='x{"a": 1}'),
            ],
            [message("b", event='x{"a": 1}')],
        ),
        (b": ping\nx-trace: 12\n[DONE]\nerror : {}\n\n", [], []),
        (b"data: x\n\ndata: y\n\n", *[[message("x"), message("y")]] * 2),
    ],
    ids=["no data", "plain bytes", "bytes", "lines", "joined lines", "harmless", "no fault"],
)
@pytest.mark.parametrize("split", [whole, single_bytes])
def test_faults_are_shown_only_on_request(
    stream: bytes,
    faulty: list[ServerSentEvent],
    standard: list[ServerSentEvent],
    split: Callable[[bytes], list[bytes]],
) -> None:
    shows, hides = SSEDecoder(shows_faults=True), SSEDecoder()
    assert [event for chunk in split(stream) for event in shows.feed(chunk)] == faulty
    assert [event for chunk in split(stream) for event in hides.feed(chunk)] == standard


def test_events_of_read_share_last_id() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"id: 7\n\n")
    assert decoder.feed(b"data: 1\n\ndata: 2\n\ndata: 3\n\n") == [
        message(data, last_id="7") for data in ("1", "2", "3")
    ]


def test_cr_ends_event_and_lf_adds_none() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\r\n\r") == [message("a")]
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"data: b\r") == []
    assert decoder.feed(b"\ndata: c\r\n\r\n") == [message("b\nc")]


def test_last_event_id_survives_the_end() -> None:
    decoder = SSEDecoder()
    assert decoder.last_event_id == ""
    decoder.feed(b"id: 1\n")
    assert decoder.last_event_id == ""
    decoder.feed(b"\nid: 2\ndata: never whole")
    decoder.close()
    assert decoder.last_event_id == "1"


def test_the_reconnection_time_changes_at_its_line() -> None:
    decoder = SSEDecoder()
    times = [decoder.retry]
    for line in (b"retry: 3000\n", b"retry: soon\n", b"\n", b"retry: 5\n"):
        decoder.feed(line)
        times.append(decoder.retry)
    assert times == [None, 3000, 3000, 3000, 5]


def test_absurd_retry_time_is_ignored() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"retry: " + b"9" * 640 + b"\n")
    assert decoder.retry == 10**640 - 1
    decoder.feed(b"retry: " + b"1" * 100_000 + b"\n")
    assert decoder.retry == 10**640 - 1


def test_an_event_cannot_be_changed() -> None:
    event = message("a")
    with pytest.raises(AttributeError):
        event.data = "b"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


# --- the end --------------------------------------------------------------------------------------


def test_close_discards_unfinished_event() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"data: a\ndata: b")
    assert decoder.close() == []
    assert decoder.close() == []
    with pytest.raises(RuntimeError, match="use a new one"):
        decoder.feed(b"data: a\n\n")


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "make"),
    [
        ("max_line_bytes", partial(SSEDecoder, max_line_bytes=0)),
        ("max_event_bytes", partial(SSEDecoder, max_event_bytes=0)),
    ],
)
def test_a_bound_below_one_byte_is_refused(option: str, make: Callable[[], SSEDecoder]) -> None:
    with pytest.raises(ValueError, match=f"{option} must be at least 1 byte, got 0"):
        make()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("line", [b"data: 789", b": 3456789", b"x" * 9])
def test_line_limit_is_exact(line: bytes, end: bytes) -> None:
    for chunks in ([line + end + end], single_bytes(line + end + end)):
        assert decoded_within(chunks, line=9)[1] is None
        assert decoded_within(chunks, line=8)[1] == (
            "a line of the event stream is longer than 8 bytes; it starts with"
            f" {line!r}; if such lines are expected, raise max_line_bytes"
        )


def test_error_shows_start_of_long_line() -> None:
    for chunks in ([b"<html>" + b"x" * 200], single_bytes(b"<html>" + b"x" * 200)):
        _, error = decoded_within(chunks, line=100)
        assert error is not None
        assert repr(b"<html>" + b"x" * 34) in error


@pytest.mark.parametrize("stream", [b"data: 12345\n\n", b"data: 12\ndata:45\n\n", b"data\n" * 6])
def test_event_limit_is_exact(stream: bytes) -> None:
    for chunks in ([stream], single_bytes(stream)):
        assert decoded_within(chunks, event=5)[1] is None
        assert decoded_within(chunks, event=4)[1] == (
            "an event of the stream has at least 5 bytes of data, but at most 4 are accepted;"
            " if such events are expected, raise max_event_bytes"
        )


def test_limits_apply_per_line_and_event() -> None:
    (events, _, _), error = decoded_within([b"data: 1234\n\n" * 100], line=10, event=4)
    assert error is None
    assert len(events) == 100


def test_the_default_bounds_hold() -> None:
    decoder = SSEDecoder()
    line = b"data: " + b"x" * (DEFAULT_MAX_LINE_BYTES - 6)
    assert decoder.feed(line + b"\n" + line) == []
    with pytest.raises(SSELimitError, match="max_line_bytes"):
        decoder.feed(b"x")
    decoder = SSEDecoder()
    rest = b"data: " + b"x" * (DEFAULT_MAX_EVENT_BYTES - 2 * (len(line) - 6 + 1))
    (event,) = decoder.feed(b"\n".join((line, line, rest, b"", b"")))
    assert len(event.data) == DEFAULT_MAX_EVENT_BYTES


def test_endless_line_fails_and_is_released() -> None:
    decoder = SSEDecoder(max_line_bytes=1000)
    for _ in range(10):
        decoder.feed(b"x" * 100)
    assert len(decoder.unfinished) == 1000
    with pytest.raises(SSELimitError):
        decoder.feed(b"x")
    assert len(decoder.unfinished) == 0


def test_failed_decoder_repeats_its_error() -> None:
    decoder = SSEDecoder(max_line_bytes=4)
    with pytest.raises(SSELimitError) as first:
        decoder.feed(b"12345")
    with pytest.raises(SSELimitError) as second:
        decoder.feed(b"\n\ndata\n\n")
    with pytest.raises(SSELimitError) as last:
        decoder.close()
    assert str(first.value) == str(second.value) == str(last.value)


def test_events_before_fault_are_returned_first() -> None:
    decoder = SSEDecoder(max_line_bytes=10)
    assert decoder.feed(b"data: a\n\ndata: b\n\ndata: much too long\n\ndata: c\n\n") == [
        message("a"),
        message("b"),
    ]
    with pytest.raises(SSELimitError, match="much"):
        decoder.close()


@given(split_streams(), st.integers(1, 12), st.integers(1, 12))
@example([b"data: 1\n\ndata: 12345\n\n"], 12, 4)
@example([b"id: 1\n\n", b"retry: 5\ndata: 1234567"], 9, 9)
def test_events_are_independent_of_splits(chunks: list[bytes], line: int, event: int) -> None:
    stream = b"".join(chunks)
    seen, error = decoded_within(chunks, line=line, event=event)
    assert (seen, error) == decoded_within([stream], line=line, event=event)
    assert (seen, error) == decoded_within(single_bytes(stream), line=line, event=event)
    whole = interpret_by_the_standard(stream)
    assert seen.events == whole.events[: len(seen.events)]
    if error is None:
        assert seen == whole


@given(streams, st.integers(1, 12))
def test_stream_fails_exactly_at_line_limit(stream: bytes, line: int) -> None:
    longest = max(map(len, re.split(b"\r\n|\n|\r", stream.removeprefix(BOM))))
    # The first two bytes of a BOM cannot be distinguished from text until the third arrives.
    if not BOM.startswith(stream):
        assert (decoded_within([stream], line=line)[1] is not None) == (longest > line)


# --- cost -----------------------------------------------------------------------------------------


def look_again(*_: object) -> Never:
    raise AssertionError("the unfinished line was looked at again")


# This tests growth without a clock: the unfinished line can only be appended to and measured.
AppendOnly = type(
    "AppendOnly",
    (bytearray,),
    dict.fromkeys(
        {*dir(bytearray), "__bytes__"} - {*dir(object)} - {"__iadd__", "__len__"}, look_again
    ),
)


def test_tiny_reads_stay_linear() -> None:
    decoder = SSEDecoder()
    tail = decoder.unfinished = AppendOnly()
    for _ in range(1000):
        decoder.feed(b"x")
    assert decoder.unfinished is tail
    assert len(tail) == 1000
    with pytest.raises(AssertionError, match="looked at again"):
        assert b"x" in tail


@pytest.mark.parametrize("before", [b"", b": ping\n\n", b"event: a\ndata: 1\n\n"])
def test_plain_reads_use_the_fast_path(before: bytes) -> None:
    decoder = SSEDecoder()
    decoder.feed(before)
    assert decoder._take_plain(b"data: 2\n\ndata: 3\n\n", [])
