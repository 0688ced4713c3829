"""Undoes a compression that was not asked for, since some endpoints compress all the same."""

import zlib
from collections.abc import Callable

from agent_actors.transport.errors import BadContent


def unpacker(coding: str) -> Callable[[bytes], bytes] | None:
    """What undoes a content coding, piece by piece; None if there is none.

    Args:
        coding: The value of `content-encoding`.

    Raises:
        BadContent: It is not one that can be undone. So does what is returned, for broken data.
    """
    coding = coding.strip().lower()
    if coding in {"", "identity"}:
        return None
    if coding not in {"gzip", "x-gzip", "deflate"}:
        raise BadContent(f"it is compressed by {coding!r}, which was not asked for")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)  # with either kind of head

    def unpack(data: bytes) -> bytes:
        try:
            return decoder.decompress(data)
        except zlib.error as error:
            raise BadContent(f"{error}") from error

    return unpack
