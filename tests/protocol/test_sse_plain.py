"""Reads that hold nothing but plain events, taken in one step."""

import pytest

from agent_actors.protocol.sse import SSEDecoder, SSELimitError


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("cut", range(30))
def test_plain_reads_and_other_reads_may_follow_each_other_in_any_order(
    bom: bytes, cut: int
) -> None:
    body = bom + b"data: one\n\ndata: two\n\n: x\n\ndata: three\n\ndata: fo\xc3\xbcr\n\n"
    decoder, seen = SSEDecoder(), list[str]()
    for piece in (body[:cut], body[cut : cut + 7], body[cut + 7 :]):
        plain = decoder.feed_plain(piece)
        if plain is None:
            seen += [event.data for event in decoder.feed(piece)]
        else:
            seen += plain
    assert seen == ["one", "two", "three", "foür"]


def test_a_decoder_that_is_closed_or_failed_finds_no_read_plain() -> None:
    closed, failed = SSEDecoder(), SSEDecoder(max_line_bytes=3)
    closed.close()
    with pytest.raises(SSELimitError):
        failed.feed(b"data: too long\n\n")
    assert closed.feed_plain(b"data: a\n\n") is None
    assert failed.feed_plain(b"data\n\n") is None
    assert SSEDecoder(max_line_bytes=8).feed_plain(b"data: a\n\ndata: much too long") is None
