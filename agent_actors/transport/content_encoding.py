"""Decode compressed responses. Some endpoints compress responses although no request asks for it.

gzip and deflate need no library. zstd and br are decoded if Python itself or an installed package
can do so: `compression.zstd` (Python 3.14), `backports.zstd`, `zstandard`, `brotli` or
`brotlicffi`. None of these packages is a dependency, because requests ask for uncompressed
responses.
"""

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Final, Protocol, cast

import attrs

from agent_actors.transport.errors import BadContent, ContentCut

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"


class _Member(Protocol):
    """A decoder for one member of a body: a gzip member, or a zstd frame."""

    @property
    def eof(self) -> bool:
        """True once the end of the member has been read."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The data after the end of the member."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """Decode the data from one read."""
        ...


class _BrotliDecoder(Protocol):
    """The decoder provided by the package `brotli` or `brotlicffi`."""

    def process(self, data: bytes, /) -> bytes: ...
    def is_finished(self) -> bool: ...


@attrs.define(eq=False)
class _BrotliMember:
    """A brotli decoder with the same methods as the other decoders. Brotli has no second member."""

    _decoder: _BrotliDecoder
    unused_data: bytes = b""

    @property
    def eof(self) -> bool:
        return self._decoder.is_finished()

    def decompress(self, data: bytes, /) -> bytes:
        return self._decoder.process(data)


class Unpacker:
    """Decodes one body, read by read.

    A body may consist of several members. If the data after a member does not begin another member,
    it is ignored, as in browsers.

    Args:
        coding: The content coding, for error messages.
        begin: Creates the decoder for a member.
        magic: The first bytes of each further member; empty if a body has at most one member.
    """

    __slots__ = ("_begin", "_coding", "_magic", "_member", "_rest", "_surplus")

    def __init__(self, coding: str, begin: Callable[[], _Member], magic: bytes) -> None:
        self._coding = coding
        self._begin = begin
        self._magic = magic
        self._member: _Member | None = None
        # Data after a member, kept while it may be the beginning of another member.
        self._rest: bytes = b""
        self._surplus = False

    def feed(self, data: bytes) -> bytes:
        """Decode the data from one read.

        Raises:
            BadContent: The data is corrupt, or there is no decoder for the content coding.
        """
        pieces: list[bytes] = []
        while data and not self._surplus:
            if self._member is None:
                self._member = self._begin()
            elif self._member.eof:
                data, self._rest = self._rest + data, b""
                if not data.startswith(self._magic[: len(data)]) or not self._magic:
                    self._surplus = True
                    break
                if len(data) < len(self._magic):
                    self._rest = data
                    break
                self._member = self._begin()
            pieces.append(self._decompress(self._member, data))
            data = self._member.unused_data if self._member.eof else b""
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def end(self) -> None:
        """Check that the body was complete. An empty body is complete.

        Raises:
            ContentCut: The data ended within a member.
        """
        if self._rest or (self._member is not None and not self._member.eof):
            raise ContentCut(f"the {self._coding} data is truncated")

    def _decompress(self, member: _Member, data: bytes) -> bytes:
        try:
            return member.decompress(data)
        except Exception as error:  # each library has its own error class
            raise BadContent(f"{self._coding}: {error}") from error


def unpacker(coding: str) -> Unpacker | None:
    """Return an incremental decoder for a content coding; None if the content is not encoded.

    If the coding cannot be decoded, the decoder raises `BadContent` for the first data. The status
    and the headers of such a response can still be used.

    Args:
        coding: The value of `content-encoding`.
    """
    codings = {name.strip() for name in coding.lower().split(",")} - {"", "identity"}
    if not codings:
        return None
    name = ", ".join(sorted(codings))
    if name in {"gzip", "x-gzip", "deflate"}:
        return Unpacker(name, _begin_zlib, _GZIP_MAGIC)
    if name == "zstd":
        return Unpacker(name, _begin_zstd, _ZSTD_MAGIC)
    if name == "br":
        return Unpacker(name, _begin_brotli, b"")

    def refuse() -> _Member:
        raise BadContent(f"the body is compressed with {name!r}, which was not requested")

    return Unpacker(name, refuse, b"")


def _begin_zlib() -> _Member:
    return zlib.decompressobj(zlib.MAX_WBITS | 32)  # accepts both the zlib and the gzip header


def _begin_zstd() -> _Member:
    found = _first_installed("compression.zstd", "backports.zstd", "zstandard")
    if found is None:
        raise _not_installed("zstd", "backports.zstd")
    name, module = found
    make = cast("Callable[[], object]", vars(module)["ZstdDecompressor"])
    if name == "zstandard":
        return cast("_ZstandardDecompressor", make()).decompressobj()
    return cast("_Member", make())


def _begin_brotli() -> _Member:
    found = _first_installed("brotli", "brotlicffi")
    if found is None:
        raise _not_installed("br", "brotli")
    make = cast("Callable[[], _BrotliDecoder]", vars(found[1])["Decompressor"])
    return _BrotliMember(make())


class _ZstandardDecompressor(Protocol):
    """The decoder of the package `zstandard`."""

    def decompressobj(self) -> _Member: ...


def _first_installed(*names: str) -> tuple[str, object] | None:
    for name in names:
        try:
            return name, import_module(name)
        except ImportError:
            continue
    return None


def _not_installed(coding: str, package: str) -> BadContent:
    return BadContent(
        f"the body is compressed with {coding!r}, which was not requested; install the package "
        f"{package!r} to read such bodies"
    )
