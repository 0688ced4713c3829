"""The tree of a workspace for checkpoints, and changes of single entries that restore it."""

import os
import stat
from collections.abc import Sequence
from typing import Final

from agent_actors.domain.workspace.files import FileData
from agent_actors.domain.workspace.trees import FileTree, TreeEntry
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import Check, failure, os_failure
from agent_actors.toolbox.workspace.local.files import Files, protected_failure
from agent_actors.toolbox.workspace.local.search.tree import REPOSITORY, Budget, Tree, TreeFile
from agent_actors.toolbox.workspace.local.walk import Entry, Walk, walk_to
from agent_actors.toolbox.workspace.local.writing import (
    PERMISSIONS,
    Condition,
    lock_of,
    replace,
    version_of,
)

_ROOT: Final = "."


def scan(files: Files, limit: int, check: Check) -> FileTree:
    """See `TreeWorkspace.tree`."""
    found: list[TreeEntry] = []
    budget = Budget.of(files.limits)
    with walk_to(files.roots, _ROOT) as (walk, start):

        def enters(names: tuple[str, ...]) -> bool:
            if names[-1] == REPOSITORY or files.protection.covers(names):
                return False
            found.append(TreeEntry(path="/".join(names), kind="directory"))
            return True

        for file in Tree(walk, start, budget, check, enters, use_gitignore=True).files():
            if len(found) >= limit:
                budget.exhausted = True
                break
            entry = None if files.protection.covers(file.names) else _entry(file)
            if entry is not None:
                found.append(entry)
    truncated = budget.exhausted or len(found) > limit
    return FileTree(tuple(sorted(found[:limit], key=lambda one: one.path)), truncated)


def _entry(file: TreeFile) -> TreeEntry | None:
    """Return the state of an entry; None if it has been removed or replaced since it was listed."""
    path, name = "/".join(file.names), file.names[-1]
    try:
        status = os.stat(name, dir_fd=file.directory, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=file.directory)
            target.encode()
            return TreeEntry(path=path, kind="link", target=target, version=version_of(status))
    except (OSError, UnicodeEncodeError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return TreeEntry(
        path=path,
        kind="file",
        version=version_of(status),
        size=status.st_size,
        mode=stat.S_IMODE(status.st_mode) & PERMISSIONS,
        changed_at=status.st_ctime,
    )


def load(files: Files, paths: Sequence[str], limit: int, check: Check) -> list[FileData | None]:
    """See `TreeWorkspace.load`."""
    found: list[FileData | None] = []
    for path in paths:
        try:
            found.append(files.read(path, 0, limit, check))
        except WorkspaceError:
            found.append(None)
    return found


def put(files: Files, entry: TreeEntry, data: bytes, expected: str, check: Check) -> None:
    """See `TreeWorkspace.put`."""
    path = entry.path
    files.check_writable(path)

    def allow(names: tuple[str, ...]) -> None:
        if files.protection.covers(names):
            raise protected_failure(path)

    with Walk(files.roots, path) as walk:
        try:
            place = walk.follow(follow_last=False, make_parents=allow)
            _check_place(files, walk, place, path)
            if entry.kind != "directory" or not place.is_directory:
                _check_version(path, place.status, expected)
                _make(place, entry, data, Condition(bool(expected), expected or None), check)
            walk.keep_made()
        except OSError as error:
            raise os_failure(path, error) from error
        finally:
            walk.remove_made()


def _make(place: Entry, entry: TreeEntry, data: bytes, condition: Condition, check: Check) -> None:
    if entry.kind == "file":
        replace(entry.path, place, data, condition, check, mode=entry.mode)
        return
    if place.status is not None:
        raise failure(entry.path, "exists", "another file is in the place of the entry")
    if entry.kind == "directory":
        os.mkdir(place.name, dir_fd=place.directory)
    else:
        os.symlink(entry.target, place.name, dir_fd=place.directory)


def discard(files: Files, path: str, expected: str) -> None:
    """See `TreeWorkspace.discard`."""
    files.check_writable(path)
    with walk_to(files.roots, path, follow_last=False) as (walk, place):
        _check_place(files, walk, place, path)
        try:
            if place.is_directory:
                os.rmdir(place.name, dir_fd=place.directory)
                return
            with lock_of(place.directory):
                now = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
                if expected:
                    _check_version(path, now, expected)
                os.unlink(place.name, dir_fd=place.directory)
        except OSError as error:
            raise os_failure(path, error) from error


def _check_place(files: Files, walk: Walk, place: Entry, path: str) -> None:
    if not place.name:
        raise failure(path, "refused", "a root of the workspace cannot be replaced")
    if walk.shown(place) != path:
        raise failure(path, "changed", "a directory of the path has been replaced by a symlink")
    if walk.is_protected(place, files.protection):
        raise protected_failure(path)


def _check_version(path: str, status: os.stat_result | None, expected: str) -> None:
    """Check the version of an entry, which may be a symlink.

    Raises:
        WorkspaceError: The entry does not have the version.
    """
    version = "" if status is None else version_of(status)
    if version == expected:
        return
    if not expected:
        raise failure(path, "exists", "a file is in the place of the entry")
    raise failure(path, "changed", "the file has changed since the checkpoint")
