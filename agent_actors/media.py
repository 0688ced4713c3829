"""Images and files of this machine, as blocks.

Owns the reading, and nothing of what is read: what an image is, and whether it may be sent, the
blocks themselves know. A path may come from a model or another stranger, so only regular files are
read, and never more of one than may be sent: a directory, a pipe or a device is refused without
waiting for it, and so is a file that is longer than it says. Symlinks are followed: which paths a
stranger may name is for the caller to decide.
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

# Opening a pipe that nobody writes to would wait for ever; not all platforms have the flags.
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # fmt: skip
_CHUNK: Final = 2**20
"""Bytes of one read: a size that is asked for is allocated, whatever the file has."""

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
    """Read an image from a file, in a thread.

    Args:
        path: Where it is.
        media_type: What it is; empty: told by its first bytes.
        detail: How closely a model is to look, where an endpoint has that.
        max_bytes: The most bytes; a larger file is not read.

    Raises:
        MediaError: It cannot be read, is no regular file, or is no image that may be sent (see
            `ImageBlock.from_bytes`); names the path.

    Cancellation: safe; the thread is left to end by itself.
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
    """Read a file, in a thread. An image that is read so is sent as an image.

    Args:
        path: Where it is.
        media_type: What it is; empty: told by its first bytes, its name or how it reads.
        name: What the model is told that it is called; None: its own name.
        max_bytes: The most bytes; a larger file is not read.

    Raises:
        MediaError: It cannot be read, is no regular file, or may not be sent (see
            `FileBlock.from_bytes`); names the path.

    Cancellation: safe; the thread is left to end by itself.
    """
    called = os.fspath(path) if name is None else name  # of which the block takes the last part
    make = partial(FileBlock.from_bytes, media_type=media_type, name=called, max_bytes=max_bytes)
    return await _read_in_thread(path, max_bytes, make)


async def _read_in_thread(
    path: str | os.PathLike[str], max_bytes: int, make: Callable[[bytes], _BlockT]
) -> _BlockT:
    # It only reads, and a file system that is gone for good must not hold up a cancel.
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
        if error.errno == errno.ENXIO:  # a socket, or a device without its hardware
            raise MediaError("expected a regular file, and this is none") from None
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
    if len(content) > max_bytes:  # it grew, or is of a kind that tells no size
        raise _too_large(f"more than {max_bytes}", max_bytes)
    return bytes(content)


def _check_kind(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((told for is_kind, told in _KINDS if is_kind(mode)), "none")
        raise MediaError(f"expected a regular file, and this is {kind}")


def _too_large(size: str, max_bytes: int) -> MediaError:
    return MediaError(f"it has {size} bytes; at most {max_bytes} may be sent (max_bytes)")


protect_loaded_modules()
