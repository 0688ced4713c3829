"""Errors of file operations, and the record of refused operations."""

import errno
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from agent_actors.domain.workspace.report import Refusal
from agent_actors.errors import WorkspaceError, WorkspaceFailure

Check: TypeAlias = Callable[[], object]
"""Raises if the operation in progress has been cancelled. Called from the operation's thread."""

MAX_REFUSALS: Final = 100
"""The number of refused operations that a report contains."""
_SHOWN_PATH: Final = 500
_REFUSALS: Final = frozenset({"refused", "protected"})

_REASONS: Final[dict[int, WorkspaceFailure]] = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "not_a_file",
    errno.EEXIST: "exists",
    errno.ENOTEMPTY: "not_empty",
    errno.ENAMETOOLONG: "invalid",
    errno.EINVAL: "failed",
}
_TEXTS: Final[dict[int, str]] = {
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EISDIR: "it is a directory",
    errno.EEXIST: "it already exists",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.ENAMETOOLONG: "the name is too long for the file system",
    errno.ENOSPC: "the disk is full; free space and try again",
    errno.EDQUOT: "the disk quota is used up; free space and try again",
    errno.EFBIG: "the file is too large for the file system",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "the operating system denies access to this program",
    errno.EPERM: "the operating system denies access to this program",
    errno.EMFILE: "this program has too many open files",
    errno.ENFILE: "the system has too many open files",
}


def failure(path: str, reason: WorkspaceFailure, why: str) -> WorkspaceError:
    """Return the error for a path."""
    shown = path if len(path) <= _SHOWN_PATH else f"{path[:_SHOWN_PATH]}…"
    return WorkspaceError(f"{shown!r}: {why}", reason=reason, path=path)


def os_failure(path: str, error: OSError) -> WorkspaceError:
    """Return the error for a failed system call."""
    number = error.errno or 0
    why = _TEXTS.get(number) or f"the operating system reports: {error.strerror or error}"
    return failure(path, _REASONS.get(number, "failed"), why)


class Refusals:
    """The operations that a workspace has refused."""

    def __init__(self) -> None:
        self._newest: deque[Refusal] = deque(maxlen=MAX_REFUSALS)
        self._count = 0
        self._lock = threading.Lock()

    def add(self, operation: str, error: WorkspaceError) -> None:
        """Record an error if it is a refusal."""
        if error.reason in _REFUSALS:
            refusal = Refusal(operation, error.path[:_SHOWN_PATH], str(error))
            with self._lock:
                self._newest.append(refusal)
                self._count += 1

    def newest(self) -> tuple[tuple[Refusal, ...], int]:
        """Return the newest refusals, and the number of all."""
        with self._lock:
            return tuple(self._newest), self._count
