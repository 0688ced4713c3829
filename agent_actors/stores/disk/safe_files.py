"""Files in directories that are held open, for their owner only, never through a link.

A session's files are reached by descriptors, from the store's directory down: what is swapped for
a symbolic link meanwhile is refused (`ELOOP`, `ENOTDIR`), and nothing outside is read or written.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@contextmanager
def folder(name: str, parent: int) -> Generator[int]:
    """The descriptor of a directory.

    Raises:
        OSError: It is not there, or no directory of its own.
    """
    found = os.open(name, _FOLDER, dir_fd=parent)
    try:
        yield found
    finally:
        os.close(found)


def make_folder(name: str, parent: int) -> bool:
    """Make a directory; False if it is there already.

    Raises:
        OSError: It cannot be made.
    """
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return False
    return True


@contextmanager
def file(name: str, parent: int, flags: int) -> Generator[int]:
    """The descriptor of a file; made, if the flags say so, for its owner only.

    Raises:
        OSError: It is not there, or no file of its own.
    """
    found = os.open(name, flags | _FILE, 0o600, dir_fd=parent)
    try:
        yield found
    finally:
        os.close(found)


def read_file(name: str, parent: int) -> bytes | None:
    """What is in a file; None if there is none.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with file(name, parent, os.O_RDONLY) as found:
            return read_from(found, 0)
    except FileNotFoundError:
        return None


def read_from(found: int, offset: int) -> bytes:
    """What is in a file from there on."""
    pieces: list[bytes] = []
    size = os.fstat(found).st_size
    while piece := os.pread(found, max(1, size - offset), offset):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


def write_all(found: int, data: bytes) -> None:
    """Write all of it.

    Raises:
        OSError: It cannot be written; part of it may be.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(found, view) :]


def replace_file(name: str, parent: int, data: bytes, *, sync: bool) -> None:
    """Put this in the place of a file's content, whole or not at all.

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    new = f"{name}.new"
    try:
        with file(new, parent, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as found:
            write_all(found, data)
            if sync:
                os.fsync(found)
        os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        with suppress(OSError):
            os.unlink(new, dir_fd=parent)
        raise
