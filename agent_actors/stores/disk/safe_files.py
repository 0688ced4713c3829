"""Access to files relative to open directories, restricted to the owner, without following links.

A session's files are opened relative to directory descriptors, starting at the store's directory.
If a file or directory is replaced with a symbolic link, opening it fails (`ELOOP`, `ENOTDIR`), so
no file outside the store is ever read or written.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@contextmanager
def folder(name: str, parent: int) -> Generator[int]:
    """Open a directory and yield its descriptor.

    Raises:
        OSError: The directory does not exist, is not a directory, or is a link.
    """
    found = os.open(name, _FOLDER, dir_fd=parent)
    try:
        yield found
    finally:
        os.close(found)


def make_folder(name: str, parent: int) -> bool:
    """Create a directory; return False if it already exists.

    Raises:
        OSError: The directory cannot be created.
    """
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return False
    return True


@contextmanager
def file(name: str, parent: int, flags: int) -> Generator[int]:
    """Open a file and yield its descriptor; only the owner can access a created file.

    Raises:
        OSError: The file does not exist or is a link.
    """
    found = os.open(name, flags | _FILE, 0o600, dir_fd=parent)
    try:
        yield found
    finally:
        os.close(found)


def read_file(name: str, parent: int) -> bytes | None:
    """Return the content of a file; None if it does not exist.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        with file(name, parent, os.O_RDONLY) as found:
            return read_from(found, 0)
    except FileNotFoundError:
        return None


def read_from(found: int, offset: int) -> bytes:
    """Return the content of a file from an offset to its end."""
    pieces: list[bytes] = []
    size = os.fstat(found).st_size
    while piece := os.pread(found, max(1, size - offset), offset):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


def write_all(found: int, data: bytes) -> None:
    """Write all of the data.

    Raises:
        OSError: The write failed; part of the data may have been written.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(found, view) :]


def replace_file(name: str, parent: int, data: bytes, *, sync: bool) -> None:
    """Replace the content of a file atomically.

    Raises:
        OSError: The write failed. The file is unchanged.
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
