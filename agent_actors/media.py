"""Reads local images and files as blocks.

The block classes decide whether the content is valid and may be sent. A path may come from a model
or another untrusted source. Therefore only regular files are read, and never more bytes than may be
sent. A directory, a pipe, a device, or a file that is longer than its declared size is rejected
without blocking. Symlinks are followed, so callers must decide which paths an untrusted source may
name.
"""

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import trio

from agent_actors.domain.blocks import FileBlock, ImageBlock
from agent_actors.domain.media import MAX_MEDIA_BYTES
from agent_actors.errors import MediaError
from agent_actors.kernel.interrupts import protect_loaded_modules

_BlockT = TypeVar("_BlockT", ImageBlock, FileBlock)

# Without these flags, opening a pipe that has no writer would block forever. Not all platforms have
# them.
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # fmt: skip
_CHUNK: Final = 2**20
"""Number of bytes per read. Each read allocates this many bytes, regardless of the file's size."""

_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


async def read_image(
    path: str | os.PathLike[str],
    media_type: str = "",
    *,
    detail: str = "",
    max_bytes: int = MAX_MEDIA_BYTES,
) -> ImageBlock:
    """Read an image file in a thread and return it as a block.

    Args:
        path: Path of the file.
        media_type: The media type. If empty, it is determined from the first bytes.
        detail: Level of detail, for endpoints that support it: `low`, `high` or `auto`.
        max_bytes: Maximum number of bytes; a larger file is not read.

    Raises:
        MediaError: The file cannot be read, is not a regular file, or is not a valid image (see
            `ImageBlock.from_bytes`). The message names the path.

    Cancellation: safe; the thread is abandoned.
    """
    make = partial(ImageBlock.from_bytes, media_type=media_type, detail=detail, max_bytes=max_bytes)
    return await _read_in_thread(path, max_bytes, make)


async def read_file(
    path: str | os.PathLike[str],
    media_type: str = "",
    *,
    name: str | None = None,
    max_bytes: int = MAX_MEDIA_BYTES,
) -> FileBlock:
    """Read a file in a thread and return it as a block, or as an image block for an image.

    Args:
        path: Path of the file.
        media_type: The media type. If empty, it is determined from the first bytes, the name or the
            content.
        name: The file's name for the model. If None, the last part of the path.
        max_bytes: Maximum number of bytes; a larger file is not read.

    Raises:
        MediaError: The file cannot be read, is not a regular file, or may not be sent (see
            `FileBlock.from_bytes`). The message names the path.

    Cancellation: safe; the thread is abandoned.
    """
    called = os.fspath(path) if name is None else name  # the block uses the last part of the path
    make = partial(FileBlock.from_bytes, media_type=media_type, name=called, max_bytes=max_bytes)
    return await _read_in_thread(path, max_bytes, make)


async def _read_in_thread(
    path: str | os.PathLike[str], max_bytes: int, make: Callable[[bytes], _BlockT]
) -> _BlockT:
    # Abandon the thread: it only reads, and an unreachable file system must not delay cancellation.
    work = partial(_read, os.fspath(path), max_bytes, make)
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


def _read(path: str, max_bytes: int, make: Callable[[bytes], _BlockT]) -> _BlockT:
    try:
        return make(_content(path, max_bytes))
    except MediaError as error:
        raise MediaError(f"{path!r}: {error}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise MediaError(f"{path!r} cannot be read: {why or type(error).__name__}") from error


def _content(path: str, max_bytes: int) -> bytes:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without hardware
            raise MediaError("expected a regular file, but this is not one") from None
        raise
    try:
        status = os.fstat(descriptor)
        _check_kind(status.st_mode)
        if status.st_size > max_bytes:
            raise _too_large(f"{status.st_size}", max_bytes)
        content = bytearray()
        while len(content) <= max_bytes and (more := os.read(descriptor, _CHUNK)):
            content += more
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:  # the file grew, or its kind has no declared size
        raise _too_large(f"more than {max_bytes}", max_bytes)
    return bytes(content)


def _check_kind(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "not one")
        raise MediaError(f"expected a regular file, but this is {kind}")


def _too_large(size: str, max_bytes: int) -> MediaError:
    return MediaError(f"the file has {size} bytes; at most {max_bytes} may be sent (max_bytes)")


protect_loaded_modules()
