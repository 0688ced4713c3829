"""Encodings of text files, and content that is not text."""

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_actors.toolbox.files.decoding import DecodedText, binary_type, decode_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"))


@given(TEXTS, st.sampled_from(["", "utf-8-sig", "utf-16-le", "utf-16-be"]))
@example("a", "utf-16-le")
def test_decoding_and_encoding_are_inverse(text: str, encoding: str) -> None:
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    data = marks.get(encoding, b"") + text.encode(encoding or "utf-8")
    decoded = decode_text(data)
    assert decoded is not None
    assert decoded.text == text
    assert decoded.encode(decoded.text) == data


@given(st.binary(max_size=40))
def test_decoded_bytes_never_change(data: bytes) -> None:
    decoded = decode_text(data)
    if decoded is not None:
        assert decoded.encode(decoded.text) == data
        assert "\0" not in decoded.text


@given(TEXTS.filter(bool), st.integers(0, 200))
def test_cut_text_decodes_to_its_beginning(text: str, cut: int) -> None:
    decoded = decode_text(text.encode()[:cut], complete=False)
    assert decoded is not None
    assert decoded.encoding == "utf-8"
    assert text.startswith(decoded.text)


def test_bytes_that_are_not_utf8_are_latin1() -> None:
    decoded = decode_text("café\n".encode("latin-1"))
    assert decoded == DecodedText("café\n", "latin-1")
    assert "latin-1" in DecodedText("", "latin-1").notice
    assert DecodedText("", "utf-16-be").notice == "UTF-16-BE"
    assert not DecodedText().notice


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"PK\x03\x04\x00", "application/zip"),
        (b"\x7fELF\x02\x00", "application/x-elf"),
        (b"abc\0def", "application/octet-stream"),
        (b"\xe9 \x01", "application/octet-stream"),
        (codecs.BOM_UTF32_LE + "a".encode("utf-32-le"), "text/plain; charset=utf-32"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8", "application/octet-stream"),  # half a surrogate pair
        (codecs.BOM_UTF16_BE + b"\x00\x00", "application/octet-stream"),  # a NUL character
    ],
)
def test_binary_content_has_a_type(data: bytes, media_type: str) -> None:
    assert decode_text(data) is None
    assert binary_type(data) == media_type
