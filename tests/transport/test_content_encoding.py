"""Compressed bodies, however they are split into reads."""

import gzip
import sys
import zlib
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.transport.content_encoding import Unpacker, unpacker
from agent_actors.transport.errors import BadContent, ContentCut

TEXTS = [b"first " * 50, b"", b"second"]
MEMBERS = b"".join(map(gzip.compress, TEXTS))


def opened(coding: str) -> Unpacker:
    unpack = unpacker(coding)
    assert unpack is not None
    return unpack


def unpacked(coding: str, data: bytes, size: int) -> bytes:
    unpack = opened(coding)
    text = b"".join(unpack.feed(data[at : at + size]) for at in range(0, len(data), size))
    unpack.end()
    return text


@given(size=st.integers(1, len(MEMBERS)), surplus=st.sampled_from([b"", b"\0\0", b"\x1fx", b"x"]))
def test_every_member_is_decoded(size: int, surplus: bytes) -> None:
    assert unpacked("GZIP", MEMBERS + surplus, size) == b"".join(TEXTS)
    assert unpacked("identity, x-gzip", MEMBERS, size) == b"".join(TEXTS)
    assert unpacked("deflate", zlib.compress(b"text") + surplus, size) == b"text"


@given(end=st.integers(1, len(MEMBERS) - 1), size=st.integers(1, 50))
def test_cut_body_is_detected(end: int, size: int) -> None:
    whole = [sum(len(gzip.compress(text)) for text in TEXTS[:count]) for count in (1, 2)]
    if end in whole:
        unpacked("gzip", MEMBERS[:end], size)
        return
    with pytest.raises(ContentCut, match="the gzip data is truncated"):
        unpacked("gzip", MEMBERS[:end], size)


def test_bodies_without_data_are_complete() -> None:
    assert unpacker("") is unpacker(" identity ,identity") is None
    for coding in ("gzip", "br", "zstd", "compress", "gzip, br"):
        opened(coding).end()


@pytest.mark.parametrize(
    ("coding", "reason"),
    [
        ("gzip", "gzip: "),
        ("br", "compressed with 'br', which was not requested; install the package 'brotli'"),
        ("zstd", "compressed with 'zstd', which was not requested; install the package 'backports"),
        ("compress", "compressed with 'compress', which was not requested$"),
        ("gzip, br", "compressed with 'br, gzip', which"),
    ],
)
def test_undecodable_data_names_its_coding(
    monkeypatch: pytest.MonkeyPatch, coding: str, reason: str
) -> None:
    for name in ("compression.zstd", "backports.zstd", "zstandard", "brotli", "brotlicffi"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BadContent, match=reason):
        opened(coding).feed(b"not compressed")


class FakeDecoder:
    """A fake library decoder: `<` begins a member, `>` ends it."""

    def __init__(self) -> None:
        self.eof = False
        self.unused_data = b""

    def decompress(self, data: bytes) -> bytes:
        text, end, self.unused_data = data.partition(b">")
        self.eof = bool(end)
        return text.strip(b"(\xb5/\xfd")

    def process(self, data: bytes) -> bytes:
        return self.decompress(data)

    def is_finished(self) -> bool:
        return self.eof

    def decompressobj(self) -> "FakeDecoder":
        return self


@pytest.mark.parametrize(
    ("coding", "library", "decoder"),
    [
        ("br", "brotli", "Decompressor"),
        ("br", "brotlicffi", "Decompressor"),
        ("zstd", "compression.zstd", "ZstdDecompressor"),
        ("zstd", "backports.zstd", "ZstdDecompressor"),
        ("zstd", "zstandard", "ZstdDecompressor"),
    ],
)
def test_installed_libraries_decode_their_coding(
    monkeypatch: pytest.MonkeyPatch, coding: str, library: str, decoder: str
) -> None:
    for name in ("compression.zstd", "backports.zstd", "zstandard", "brotli", "brotlicffi"):
        made = SimpleNamespace(**{decoder: FakeDecoder}) if name == library else None
        monkeypatch.setitem(sys.modules, name, made)
    monkeypatch.setitem(sys.modules, "compression", SimpleNamespace())
    frame = b"(\xb5/\xfdtext>"
    assert unpacked(coding, frame, 100) == b"text"
    assert unpacked(coding, frame * 2, 100) == (b"texttext" if coding == "zstd" else b"text")
    with pytest.raises(ContentCut):
        unpacked(coding, frame[:-1], 100)
