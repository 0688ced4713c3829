"""Decode compressed responses. Some endpoints compress although the request did not ask for it."""

import zlib
from collections.abc import Callable

from agent_actors.transport.errors import BadContent


def unpacker(coding: str) -> Callable[[bytes], bytes] | None:
    """Return an incremental decoder for a content coding; None if the content is not encoded.

    Args:
        coding: The value of `content-encoding`.

    Raises:
        BadContent: The content coding is not supported. The returned decoder also raises it, for
            corrupt data.
    """
    coding = coding.strip().lower()
    if coding in {"", "identity"}:
        return None
    if coding not in {"gzip", "x-gzip", "deflate"}:
        raise BadContent(f"the content encoding {coding!r} was not requested")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)  # accepts both the zlib and the gzip header

    def unpack(data: bytes) -> bytes:
        try:
            return decoder.decompress(data)
        except zlib.error as error:
            raise BadContent(f"{error}") from error

    return unpack
