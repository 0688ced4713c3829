"""File operations of a workspace, as functions that run in worker threads."""

import heapq
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from agent_actors.domain.workspace.files import (
    FileData,
    FileInfo,
    FileKind,
    FileLimits,
    Listing,
)
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import Check, failure, os_failure
from agent_actors.toolbox.workspace.local.linux import reopen
from agent_actors.toolbox.workspace.local.protection import Protection
from agent_actors.toolbox.workspace.local.roots import Roots
from agent_actors.toolbox.workspace.local.walk import Entry, Walk, walk_to
from agent_actors.toolbox.workspace.local.writing import (
    TEMPORARY_PREFIX,
    Condition,
    check_condition,
    replace,
    version_of,
)

_CHUNK: Final = 1 << 20
_NAMES_PER_CHECK: Final = 1_000
# Larger offsets do not fit into the type of the system call.
_LAST_OFFSET: Final = 1 << 62


@attrs.frozen(eq=False)
class Files:
    """The files below some roots.

    Attributes:
        roots: The directories.
        protection: The files that cannot be changed.
        limits: The limits.
        read_only: True if no file can be changed.
    """

    roots: Roots
    protection: Protection
    limits: FileLimits
    read_only: bool

    def read(self, path: str, offset: int, limit: int | None, check: Check) -> FileData:
        """See `Workspace.read`."""
        most = self.limits.read_bytes
        if offset < 0 or (limit is not None and limit < 0):
            raise failure(path, "invalid", "`offset` and `limit` must not be negative")
        with walk_to(self.roots, path) as (walk, entry):
            info = self.info(walk, entry)
            data = read_file(
                path, entry, offset, most if limit is None else min(limit, most), check
            )
        return FileData(info, data, truncated=offset + len(data) < info.size)

    def write(self, path: str, data: bytes, condition: Condition, check: Check) -> FileInfo:
        """See `Workspace.write`."""
        self.check_writable(path)
        if len(data) > self.limits.write_bytes:
            most = self.limits.write_bytes
            raise failure(path, "too_large", f"{len(data):,} bytes; at most {most:,} are allowed")

        def allow(names: tuple[str, ...]) -> None:
            if self.protection.covers(names):
                raise protected_failure(path)

        with Walk(self.roots, path) as walk:
            try:
                entry = walk.follow(make_parents=allow)
                if walk.is_protected(entry, self.protection):
                    raise protected_failure(path)
                check_condition(path, entry.status, condition)
                status = _replaced(path, entry, data, condition, check)
                walk.keep_made()
            finally:
                walk.remove_made()
            return FileInfo(walk.shown(entry), "file", status.st_size, version_of(status))

    def stat(self, path: str) -> FileInfo:
        """See `Workspace.stat`."""
        with walk_to(self.roots, path) as (walk, entry):
            return self.info(walk, entry)

    def list(self, path: str, limit: int, check: Check) -> Listing:
        """See `Workspace.list`."""
        with walk_to(self.roots, path) as (walk, entry):
            if not entry.is_directory:
                raise failure(path, "not_a_directory", "it is not a directory")
            assert entry.fd is not None
            names = heapq.nsmallest(limit + 1, _names_in(path, entry.fd, check))
            found = (self._listed(walk, entry, name, check) for name in names[:limit])
            entries = tuple(one for one in found if one is not None)
        return Listing(entries, truncated=len(names) > limit)

    def remove(self, path: str) -> None:
        """See `Workspace.remove`."""
        self.check_writable(path)
        with walk_to(self.roots, path, follow_last=False) as (walk, entry):
            if not entry.name:
                raise failure(path, "refused", "a root of the workspace cannot be removed")
            if walk.is_protected(entry, self.protection):
                raise protected_failure(path)
            try:
                if entry.is_directory:
                    os.rmdir(entry.name, dir_fd=entry.directory)
                else:
                    os.unlink(entry.name, dir_fd=entry.directory)
            except OSError as error:
                raise os_failure(path, error) from error

    def info(self, walk: Walk, entry: Entry) -> FileInfo:
        """Return the state of an existing entry."""
        assert entry.status is not None
        protected = self.read_only or walk.is_protected(entry, self.protection)
        return _info(walk.shown(entry), entry.status, protected)

    def check_writable(self, path: str) -> None:
        """Raise an error if the workspace is read-only."""
        if self.read_only:
            raise failure(path, "protected", "the workspace is read-only")

    def _listed(self, walk: Walk, directory: Entry, name: str, check: Check) -> FileInfo | None:
        """Return an entry of a directory; None if it has been removed since it was listed."""
        check()
        assert directory.fd is not None
        names = (*directory.names, name)
        shown = self.roots.shown(walk.root, names)
        try:
            status = os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
        except OSError:
            return None
        if stat.S_ISLNK(status.st_mode):
            # A walk from the root follows the link, with all checks.
            try:
                with walk_to(self.roots, "/".join(names), root=walk.root) as (to_target, entry):
                    assert entry.status is not None
                    protected = self.read_only or to_target.is_protected(entry, self.protection)
                    return _info(shown, entry.status, protected)
            except WorkspaceError:
                return FileInfo(shown, "other")
        entry = Entry(directory.fd, name, names, None, status)
        return _info(shown, status, self.read_only or walk.is_protected(entry, self.protection))


def read_file(path: str, entry: Entry, offset: int, limit: int, check: Check) -> bytes:
    """Read a part of a regular file.

    Raises:
        WorkspaceError: The entry is not a regular file, or cannot be read.
    """
    if not entry.is_file:
        kind = "a directory" if entry.is_directory else "a FIFO, socket, device or dangling link"
        raise failure(path, "not_a_file", f"it is {kind}, not a regular file")
    assert entry.fd is not None
    chunks: list[bytes] = []
    offset = min(offset, _LAST_OFFSET)
    try:
        fd = reopen(entry.fd, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while limit > 0:
                check()
                chunk = os.pread(fd, min(limit, _CHUNK), offset)
                if not chunk:
                    break
                chunks.append(chunk)
                offset += len(chunk)
                limit -= len(chunk)
        finally:
            os.close(fd)
    except OSError as error:
        raise os_failure(path, error) from error
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def is_ordinary(name: str) -> bool:
    """Return whether listings and searches contain a name.

    Temporary files of writes are left out, and names that are not UTF-8, which no path can express.
    """
    if name.startswith(TEMPORARY_PREFIX):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names_in(path: str, fd: int, check: Check) -> Iterator[str]:
    try:
        opened = reopen(fd, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(opened) as entries:
                yield from _checked((one.name for one in entries), check)
        finally:
            os.close(opened)
    except OSError as error:
        raise os_failure(path, error) from error


def _checked(names: Iterable[str], check: Check) -> Iterator[str]:
    for number, name in enumerate(names):
        if number % _NAMES_PER_CHECK == 0:
            check()
        if is_ordinary(name):
            yield name


def _replaced(
    path: str, entry: Entry, data: bytes, condition: Condition, check: Check
) -> os.stat_result:
    try:
        return replace(path, entry, data, condition, check)
    except OSError as error:  # the temporary file could not be created
        raise os_failure(path, error) from error


def protected_failure(path: str) -> WorkspaceError:
    """Return the error for a change of a protected path."""
    return failure(
        path, "protected", "the path is protected; agents may read it but must not change it"
    )


def _info(path: str, status: os.stat_result, protected: bool) -> FileInfo:
    kind: FileKind = "other"
    size = 0
    if stat.S_ISDIR(status.st_mode):
        kind = "directory"
    elif stat.S_ISREG(status.st_mode):
        kind, size = "file", status.st_size
    return FileInfo(path, kind, size, version_of(status), protected)
