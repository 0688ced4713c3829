"""The fast path through the event stream decoder gives the same data as the plain path.

Reads that `feed_plain` rejects are passed to `feed`, as its caller does.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_actors.protocol.sse import SSEDecoder, SSELimitError
from tests.protocol.test_sse import PLAIN, split_streams

NO_BOUND = 1000


def plainly(chunks: list[bytes], bound: int = NO_BOUND) -> tuple[list[str], str | None]:
    """Read with `feed_plain` where possible; return the events' data, and the error that ended
    them.
    """
    decoder = SSEDecoder(max_line_bytes=bound, max_event_bytes=bound)
    found: list[str] = []
    try:
        for chunk in chunks:
            plain = decoder.feed_plain(chunk)
            if plain is None:
                found += [event.data for event in decoder.feed(chunk)]
            else:
                found += [data.decode("utf-8", "replace") for data in plain]
        decoder.close()
    except SSELimitError as error:
        return found, str(error)
    return found, None


def carefully(chunks: list[bytes], bound: int = NO_BOUND) -> tuple[list[str], str | None]:
    """Read without `feed_plain`; return the same."""
    decoder = SSEDecoder(max_line_bytes=bound, max_event_bytes=bound)
    found: list[str] = []
    try:
        for chunk in chunks:
            found += [event.data for event in decoder.feed(chunk)]
        decoder.close()
    except SSELimitError as error:
        return found, str(error)
    return found, None


PLAIN_STREAMS = st.lists(st.sampled_from(PLAIN), max_size=8).map(b"".join)


@given(split_streams(), st.integers(1, 30))
@example([b"\xef\xbb", b"\xbfdata: a\n\n"], NO_BOUND)
@example([b"data: a\n\n\r", b"\n\ndata: b\n\n"], NO_BOUND)
@example([b"id: 1\n", b"data: a\n\n"], NO_BOUND)
@example([b"data: a\n\ndata: 12345678901", b"\n\n"], 16)
@example([b"data: \rb\n\n"], NO_BOUND)
@example([b"data: a\n\n", b"\xef\xbb\xbfdata: b\n\n"], NO_BOUND)
@example([b"data: a\n\ndata: 123", b"45678\n\n"], 8)
@example([b"data: a\n\n12345678901"], 10)
@example([b"data: a\n\n12345", b"678901\n\n"], 10)
def test_fast_path_equals_normal_path(chunks: list[bytes], bound: int) -> None:
    assert plainly(chunks) == carefully(chunks)
    assert plainly(chunks, bound) == carefully(chunks, bound)


@given(PLAIN_STREAMS, st.lists(st.integers(1, 80), max_size=8))
def test_plain_fast_path_ignores_splits(stream: bytes, cuts: list[int]) -> None:
    places = sorted({min(cut, len(stream)) for cut in cuts})
    chunks = [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]
    assert plainly(chunks) == carefully([stream])


@pytest.mark.parametrize(
    ("before", "data", "plain"),
    [
        (b"", b"data: a\n\n", [b"a"]),
        (b"", b"data: a\n\ndata: \xff\n\n", [b"a", b"\xff"]),
        (b"", b"data: a\n\ndata: b\n\nda", [b"a", b"b"]),
        (b"data: a\n\nda", b"ta: b\n\nd", [b"b"]),
        (b": ping\n\n", b"data: a\n\n", [b"a"]),
        (b"event: x\ndata: a\n\n", b"data: b\n\n", [b"b"]),
        (b"\xef\xbb\xbf", b"data: a\n\n", [b"a"]),
    ],
)
def test_reads_of_plain_events_are_taken_quickly(
    before: bytes, data: bytes, plain: list[bytes]
) -> None:
    decoder = SSEDecoder()
    if before:
        decoder.feed(before)
    assert decoder.feed_plain(data) == plain


@pytest.mark.parametrize(
    ("before", "data"),
    [
        (b"event: x\n", b"data: a\n\n"),
        (b"data: a\n", b"data: b\n\n"),
        (b"data: a\r", b"\ndata: b\n\n"),
        (b"\xef", b"data: a\n\n"),
        (b"", b"\xef\xbb\xbfdata: a\n\n"),
        (b"", b"data: a\r\n\r\n"),
        (b"", b"data: a\rdata: b\n\n"),
        (b"", b"data: a\ndata: b\n\n"),
        (b"", b"data: a\n\n: ping\n\n"),
        (b"", b"data:a\n\n"),
        (b"", b"data: a"),
        (b"", b"data: a\n\ndata: b\n"),
        (b"data: a\n\nid", b": 1\n\ndata: b\n\nx"),
        (b"", b""),
    ],
)
def test_of_any_other_read_nothing_is_taken(before: bytes, data: bytes) -> None:
    decoder, other = SSEDecoder(), SSEDecoder()
    if before:
        decoder.feed(before)
        other.feed(before)
    unfinished = bytes(decoder.unfinished)
    assert decoder.feed_plain(data) is None
    assert bytes(decoder.unfinished) == unfinished
    assert decoder.feed(data) == other.feed(data)


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("cut", range(30))
def test_fast_and_normal_reads_can_alternate(bom: bytes, cut: int) -> None:
    body = bom + b"data: one\n\ndata: two\n\n: x\n\ndata: three\n\ndata: fo\xc3\xbcr\n\n"
    pieces = [body[:cut], body[cut : cut + 7], body[cut + 7 :]]
    assert plainly(pieces) == (["one", "two", "three", "foür"], None)


def test_ended_stream_gives_nothing() -> None:
    ended, failed = SSEDecoder(), SSEDecoder(max_line_bytes=8)
    ended.close()
    with pytest.raises(SSELimitError):
        failed.feed(b"123456789")
    for decoder in (ended, failed):
        assert decoder.feed_plain(b"data: a\n\n") is None
