"""Atomic writes: a temporary file in the held directory that replaces the target by a rename."""

import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

import attrs

from agent_actors.toolbox.workspace.local.failures import Check, failure, os_failure
from agent_actors.toolbox.workspace.local.linux import rename_without_replacing
from agent_actors.toolbox.workspace.local.walk import Entry

TEMPORARY_PREFIX: Final = ".agent-actors-"
"""Names of temporary files begin with this text. Searches and listings leave them out."""

PERMISSIONS: Final = 0o777
"""The bits of a file's mode that writes keep."""

_CHUNK: Final = 1 << 20
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The mode of a new file; the kernel removes the bits of the umask.
_NEW_MODE: Final = 0o666
# Until the mode of the replaced file is copied, only the owner may read the content.
_PRIVATE_MODE: Final = 0o600
_NO_HARD_LINKS: Final = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)

# Two writers of this program must not both find the expected version before one of them renames.
# The locks are shared by all workspaces and chosen by the directory.
_LOCKS: Final = tuple(threading.Lock() for _ in range(64))


@attrs.frozen
class Condition:
    """The state that a file must have for a write.

    Attributes:
        overwrite: False if the file must not exist.
        expected: The version that the file must have; None for any.
    """

    overwrite: bool = True
    expected: str | None = None


def version_of(status: os.stat_result) -> str:
    """Return the version of a file; see `FileInfo.version`."""
    parts = (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
    return "-".join(format(part, "x") for part in parts)


def replace(
    path: str,
    entry: Entry,
    data: bytes,
    condition: Condition,
    check: Check,
    *,
    mode: int | None = None,
) -> os.stat_result:
    """Write a file atomically.

    Args:
        path: The path, as the caller passed it.
        entry: The place to write to.
        data: The complete new content.
        condition: The state that the file must have.
        check: Called between the steps; if it raises, the old content stays.
        mode: The permission bits; None to keep those of the existing file.

    Returns:
        The new state.
    """
    check_condition(path, entry.status, condition)
    with _temporary(entry) as (fd, temporary):
        try:
            _fill(fd, data, check)
            _copy_owner_and_mode(fd, entry.status)
            if mode is not None:
                os.fchmod(fd, mode & PERMISSIONS)
            # The clock of many file systems is so coarse that two writes could have the same time,
            # and an inode can be used again. The time of writing makes every version unique.
            now = time.time_ns()
            os.utime(fd, ns=(now, now))
            os.fsync(fd)
            check()
            with lock_of(entry.directory):
                _commit(path, entry, temporary, condition)
            return os.fstat(fd)
        except OSError as error:
            raise os_failure(path, error) from error


def check_condition(path: str, status: os.stat_result | None, condition: Condition) -> None:
    """Check the state of a file before a write.

    Raises:
        WorkspaceError: The file is not as the caller expects, or is no regular file.
    """
    if status is None:
        if condition.expected is not None:
            raise failure(path, "changed", "the file has been removed since it was read")
        return
    if stat.S_ISDIR(status.st_mode):
        raise failure(path, "not_a_file", "it is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise failure(path, "not_a_file", "it is a FIFO, socket or device, not a regular file")
    if not condition.overwrite:
        raise failure(path, "exists", "the file already exists")
    if condition.expected is not None and version_of(status) != condition.expected:
        raise failure(path, "changed", "the file has changed since it was read; read it again")


@contextmanager
def _temporary(entry: Entry) -> Generator[tuple[int, str]]:
    """Create a temporary file in the directory, and remove it unless it has been renamed."""
    name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}.tmp"
    mode = _NEW_MODE if entry.status is None else _PRIVATE_MODE
    fd = os.open(name, _CREATE, mode, dir_fd=entry.directory)
    try:
        yield fd, name
    finally:
        os.close(fd)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=entry.directory)


def _fill(fd: int, data: bytes, check: Check) -> None:
    view = memoryview(data)
    check()
    while view:
        view = view[os.write(fd, view[:_CHUNK]) :]
        check()


def _copy_owner_and_mode(fd: int, old: os.stat_result | None) -> None:
    if old is None:
        return
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):  # only root can give a file to another user
            os.fchown(fd, old.st_uid, old.st_gid)
    # As with an ordinary write, the file loses its set-user-ID bits.
    os.fchmod(fd, stat.S_IMODE(old.st_mode) & PERMISSIONS)


def lock_of(directory: int) -> threading.Lock:
    """Return the lock for renames in a directory, given by its descriptor."""
    status = os.fstat(directory)
    return _LOCKS[hash((status.st_dev, status.st_ino)) % len(_LOCKS)]


def _commit(path: str, entry: Entry, temporary: str, condition: Condition) -> None:
    """Give the temporary file its final name."""
    directory, name = entry.directory, entry.name
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        status = None
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise failure(path, "changed", "another process has replaced the file by a symlink")
    check_condition(path, status, condition)
    if condition.overwrite:
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        return
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        rename_without_replacing(directory, temporary, name)
    else:
        os.unlink(temporary, dir_fd=directory)
