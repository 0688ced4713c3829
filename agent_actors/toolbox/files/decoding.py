"""The encodings of text files, and the recognition of files that are not text. No I/O.

UTF-8 is tried first, then UTF-16 if the file has a byte order mark, then latin-1. Every byte string
is valid latin-1, so bytes with control characters that text does not contain are not text. A byte
order mark is not part of the text, but is kept when an edited text is encoded again.
"""

import codecs
import re
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.media import UNKNOWN_TYPE, sniff

Encoding: TypeAlias = Literal["utf-8", "utf-16-le", "utf-16-be", "latin-1"]

_UTF16: Final[tuple[tuple[bytes, Encoding], ...]] = (
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UTF32_MARKS: Final = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
# Text contains tabs, line breaks, form feeds, backspaces (overstrikes) and escapes (colours).
_NOT_IN_TEXT: Final = re.compile(rb"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f]")
# How formats begin that `media.sniff` does not know, because no endpoint accepts them.
_BINARY_MAGIC: Final = (
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"(\xb5/\xfd", "application/zstd"),
    (b"\x7fELF", "application/x-elf"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
    (b"\x00asm", "application/wasm"),
    (b"MZ\x90\x00", "application/x-dosexec"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
)


@attrs.frozen
class DecodedText:
    """The text of a file and its form in bytes.

    Attributes:
        text: The text without a byte order mark; line breaks are unchanged.
        encoding: The encoding.
        mark: The byte order mark; empty if there is none.
    """

    text: str = ""
    encoding: Encoding = "utf-8"
    mark: bytes = b""

    @property
    def notice(self) -> str:
        """A name for an encoding other than UTF-8; empty for UTF-8."""
        match self.encoding:
            case "utf-8":
                return ""
            case "latin-1":
                return "latin-1 (the bytes are not valid UTF-8)"
            case _:
                return self.encoding.upper()

    def encode(self, text: str) -> bytes:
        """Return another text in the same encoding, with the same byte order mark.

        Raises:
            UnicodeEncodeError: The encoding has no bytes for a character.
        """
        return self.mark + text.encode(self.encoding)


def decode_text(data: bytes, *, complete: bool = True) -> DecodedText | None:
    """Decode the content of a text file; return None if the content is not text.

    Args:
        data: The content.
        complete: False if `data` is only the beginning of the content. An incomplete character at
            the end is then left out.
    """
    if data.startswith(_UTF32_MARKS):
        return None
    for mark, encoding in _UTF16:
        if data.startswith(mark):
            text = _decoded(data[len(mark) :], encoding, complete)
            # A text without NUL characters; UTF-16 has no other bytes to recognize binary data by.
            return None if text is None or "\0" in text else DecodedText(text, encoding, mark)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    text = _decoded(data[len(mark) :], "utf-8", complete)
    if text is not None:
        return None if "\0" in text else DecodedText(text, "utf-8", mark)
    if _NOT_IN_TEXT.search(data):
        return None
    return DecodedText(data.decode("latin-1"), "latin-1")


def binary_type(data: bytes) -> str:
    """Return the media type of content that is not text, as far as its first bytes show it."""
    if data.startswith(_UTF32_MARKS):
        return "text/plain; charset=utf-32"
    magic = (name for magic, name in _BINARY_MAGIC if data.startswith(magic))
    return sniff(data) or next(magic, UNKNOWN_TYPE)


def _decoded(data: bytes, encoding: Encoding, complete: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data, final=complete)
    except UnicodeDecodeError:
        return None
