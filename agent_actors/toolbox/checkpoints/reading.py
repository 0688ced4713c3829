"""Reads the files of a workspace: their tree, and complete contents."""

from collections.abc import Sequence
from typing import Final

import attrs

from agent_actors.abc.workspace import TreeWorkspace, Workspace
from agent_actors.domain.workspace.files import FileData, FileInfo
from agent_actors.domain.workspace.trees import FileTree, TreeEntry
from agent_actors.errors import WorkspaceError

# A file that others write to while it is read is read again this often.
_ATTEMPTS: Final = 3
_GONE: Final = frozenset({"not_found", "not_a_file", "not_a_directory"})


async def tree_of(workspace: Workspace, limit: int) -> FileTree:
    """Return the entries of a workspace that checkpoints cover.

    Raises:
        WorkspaceError: The workspace cannot be listed.

    Cancellation: safe.
    """
    if isinstance(workspace, TreeWorkspace):
        return await workspace.tree(limit=limit)
    # Listings contain the versions of many files; searches know `.gitignore` files.
    matches = await workspace.glob("**", limit=limit, use_gitignore=True)
    wanted = set(matches.paths)
    entries: list[TreeEntry] = []
    for directory in sorted({path.rpartition("/")[0] for path in wanted}):
        listing = await workspace.list(directory or ".", limit=limit)
        entries += [
            TreeEntry(path=info.path, kind="file", version=info.version, size=info.size)
            for info in listing.entries
            if info.path in wanted and info.kind == "file" and not info.protected
        ]
    return FileTree(tuple(sorted(entries, key=lambda one: one.path)), matches.truncated)


@attrs.frozen
class Content:
    """The complete content of a file.

    Attributes:
        version: The version of the file.
        data: The content; None if the file is too large or cannot be read.
    """

    version: str
    data: bytes | None


async def read_group(workspace: Workspace, paths: Sequence[str], most: int) -> list[Content | None]:
    """Return the contents of files; None for a file that does not exist.

    Args:
        workspace: The workspace.
        paths: The files.
        most: Maximum size of a file in bytes.

    Cancellation: safe.
    """
    loaded: Sequence[FileData | None] = [None] * len(paths)
    if isinstance(workspace, TreeWorkspace):
        loaded = await workspace.load(paths, limit=most)
    found: list[Content | None] = []
    for path, file in zip(paths, loaded, strict=True):
        complete = file is not None and file.info.path == path and not file.truncated
        if file is not None and complete and len(file.data) == file.info.size:
            found.append(Content(file.info.version, file.data))
        else:
            found.append(await read_complete(workspace, path, most))
    return found


async def read_complete(workspace: Workspace, path: str, most: int) -> Content | None:
    """Return the content of a file; None if there is no such file.

    Args:
        workspace: The workspace.
        path: The file.
        most: Maximum size in bytes.

    Cancellation: safe.
    """
    version = ""
    for _ in range(_ATTEMPTS):
        try:
            first = await workspace.read(path, limit=most)
            if first.info.path != path:
                return None  # a directory of the path has been replaced by a symlink
            version, data = first.info.version, first.data
            if first.info.size > most:
                return Content(version, None)
            while len(data) < first.info.size:
                more = await workspace.read(path, offset=len(data), limit=most)
                if not more.data or more.info.version != version:
                    break
                data += more.data
        except WorkspaceError as error:
            return None if error.reason in _GONE else Content(version, None)
        if len(data) == first.info.size:
            return Content(version, data)
    return Content(version, None)


async def state_of(workspace: Workspace, path: str) -> FileInfo | None:
    """Return the state of a file that the tree does not contain; None if there is none."""
    try:
        return await workspace.stat(path)
    except WorkspaceError:
        return None
