"""File operations in a container."""

import base64
import errno
import hashlib
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from agent_actors.domain.workspace.files import (
    FileData,
    FileInfo,
    FileKind,
    FileLimits,
    Listing,
)
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.container.container import Container
from agent_actors.toolbox.workspace.container.helper import Reply, states_of
from agent_actors.toolbox.workspace.container.walk import (
    REPLACED,
    ContainerRoots,
    Entry,
    Walk,
)
from agent_actors.toolbox.workspace.local.failures import failure, os_failure
from agent_actors.toolbox.workspace.local.files import is_ordinary
from agent_actors.toolbox.workspace.local.protection import Protection
from agent_actors.toolbox.workspace.local.writing import TEMPORARY_PREFIX, Condition

BATCH: Final = 200
"""The number of names in one request; their total length is below the limit of a command line."""

_NO_FILE: Final = 4  # the statuses of the helper
_EXISTS: Final = 5
# The messages of programs in the container, whose language is C.
_ERRORS: Final[Mapping[str, int]] = {
    "No such file": errno.ENOENT,
    "Not a directory": errno.ENOTDIR,
    "Is a directory": errno.EISDIR,
    "not empty": errno.ENOTEMPTY,
    "name too long": errno.ENAMETOOLONG,
    "No space left": errno.ENOSPC,
    "quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
    "Read-only file system": errno.EROFS,
    "Permission denied": errno.EACCES,
    "not permitted": errno.EPERM,
}
# The output of a container is not trusted: these names would lead out of a directory.
_NO_NAMES: Final = frozenset({"", ".", ".."})
# A larger offset does not fit into the numbers of a shell.
_LAST_OFFSET: Final = 1 << 62


@attrs.frozen
class State:
    """The state of an entry in the container.

    Attributes:
        mode: The type and the permissions.
        size: Size in bytes.
        version: The version; see `FileInfo.version`.
        owner: The user and the group, as `chown` reads them.
    """

    mode: int
    size: int
    version: str
    owner: str

    @classmethod
    def of(cls, fields: Sequence[str]) -> "State":
        """Return the state from the fields that `stat` has printed."""
        mode, device, inode, size, modified, changed, _, owner = fields
        known = f"{device}|{inode}|{size}|{modified}|{changed}"
        version = hashlib.blake2b(known.encode(), digest_size=16).hexdigest()
        return cls(int(mode, 16), int(size), version, owner)

    @property
    def kind(self) -> FileKind:
        """The kind of the entry itself; a symlink is `other`."""
        if stat.S_ISDIR(self.mode):
            return "directory"
        return "file" if stat.S_ISREG(self.mode) else "other"


@attrs.frozen(eq=False)
class ContainerFiles:
    """The files below some directories of a container.

    Attributes:
        container: The container.
        roots: The directories.
        protection: The files that cannot be changed.
        limits: The limits.
        read_only: True if no file can be changed.
    """

    container: Container
    roots: ContainerRoots
    protection: Protection
    limits: FileLimits
    read_only: bool

    async def read(self, path: str, offset: int, limit: int | None) -> FileData:
        """See `Workspace.read`."""
        if offset < 0 or (limit is not None and limit < 0):
            raise failure(path, "invalid", "`offset` and `limit` must not be negative")
        most = self.limits.read_bytes
        entry = await self.existing(path)
        state, data = await self.content(
            path, entry, min(offset, _LAST_OFFSET), most if limit is None else min(limit, most)
        )
        info = self._info(self.shown(entry), entry.names, state)
        return FileData(info, data, truncated=offset + len(data) < info.size)

    async def content(
        self, path: str, entry: Entry, offset: int, limit: int
    ) -> tuple[State, bytes]:
        """Return the state of a regular file and a part of its content.

        Raises:
            WorkspaceError: The entry is not a regular file, or cannot be read.
        """
        if entry.is_directory:
            raise failure(path, "not_a_file", "it is a directory, not a regular file")
        reply = await self.container.ask(
            "content", entry.directory, entry.names[-1], str(offset), str(limit)
        )
        if reply.status == _NO_FILE:
            raise failure(path, "not_a_file", "it is a FIFO, socket or device, not a regular file")
        head, _, encoded = reply.output.partition(b"\n")
        if reply.status or not head:
            raise _failed(path, reply)
        return State.of(head.decode().split("|")), base64.b64decode(encoded)

    async def stat(self, path: str) -> FileInfo:
        """See `Workspace.stat`."""
        entry = await self.existing(path)
        return self._info(self.shown(entry), entry.names, await self._state(path, entry))

    async def write(self, path: str, data: bytes, condition: Condition) -> FileInfo:
        """See `Workspace.write`."""
        self._check_writable(path)
        if len(data) > self.limits.write_bytes:
            most = self.limits.write_bytes
            raise failure(path, "too_large", f"{len(data):,} bytes; at most {most:,} are allowed")
        async with self.container.writing:
            entry = await self.walk(path).follow(make_parents=True)
            for length in range(len(entry.names) - entry.made, len(entry.names) + 1):
                if self.protection.covers(entry.names[:length]):
                    raise _protected(path)
            old = None if entry.kind == "missing" else await self._state(path, entry)
            _check(path, old, condition)
            state = await self._write(path, entry, data, condition, old)
        return FileInfo(self.shown(entry), "file", state.size, state.version)

    async def list(self, path: str, limit: int) -> Listing:
        """See `Workspace.list`."""
        entry = await self.existing(path)
        if not entry.is_directory:
            raise failure(path, "not_a_directory", "it is not a directory")
        (names,) = await self.entries([entry.path])
        chosen = sorted(name for _, name in names)
        states = await self.states(entry.path, chosen[:limit])
        found = [
            await self._listed(entry, name, states[name])
            for name in chosen[:limit]
            if name in states
        ]
        return Listing(tuple(found), truncated=len(chosen) > limit)

    async def remove(self, path: str) -> None:
        """See `Workspace.remove`."""
        self._check_writable(path)
        async with self.container.writing:
            entry = await self.existing(path, follow_last=False)
            if not entry.names:
                raise failure(path, "refused", "a root of the workspace cannot be removed")
            if self.protection.covers(entry.names):
                raise _protected(path)
            reply = await self.container.ask(
                "discard", entry.directory, entry.names[-1], merge=True
            )
            if reply.status:
                raise _failed(path, reply)

    def walk(self, path: str, root: str | None = None) -> Walk:
        """Return a walk; see `Walk`."""
        return Walk(self.container, self.roots, path, root)

    async def existing(
        self, path: str, *, root: str | None = None, follow_last: bool = True
    ) -> Entry:
        """Walk to an existing entry.

        Raises:
            WorkspaceError: See `Walk.follow`; additionally, if the entry does not exist.
        """
        entry = await self.walk(path, root).follow(follow_last=follow_last)
        if entry.kind == "missing":
            raise failure(path, "not_found", "it does not exist")
        return entry

    async def entries(self, directories: Sequence[str]) -> Sequence[Sequence[tuple[str, str]]]:
        """Return the entries of directories: the first letter of the kind, and the name."""
        reply = await self.container.ask("entries", *directories)
        found: list[list[tuple[str, str]]] = [[]]
        for record in reply.output.split(b"\0"):
            text = record.decode("utf-8", "surrogateescape")
            if text == "/":
                found.append([])
            elif text[1:] not in _NO_NAMES and "/" not in text and is_ordinary(text[1:]):
                found[-1].append((text[0], text[1:]))
        found.pop()
        if len(found) != len(directories):
            raise failure(directories[0], "failed", "the directory cannot be listed")
        return found

    async def states(self, directory: str, names: Sequence[str]) -> dict[str, State]:
        """Return the states of entries of a directory, which need not exist."""
        found: dict[str, State] = {}
        for at in range(0, len(names), BATCH):
            some = [f"./{name}" for name in names[at : at + BATCH]]
            reply = await self.container.ask("states", directory, *some)
            fields = states_of(reply, self.container.helper.token)
            found |= {name.removeprefix("./"): State.of(one) for name, one in fields.items()}
        return found

    def shown(self, entry: Entry) -> str:
        """Return the path of an entry in the form of `FileInfo.path`."""
        return self.roots.shown(entry.root, entry.names)

    async def _state(self, path: str, entry: Entry) -> State:
        name = entry.names[-1] if entry.names else "."
        directory = entry.directory if entry.names else entry.path
        states = await self.states(directory, [name])
        if name not in states:
            raise failure(path, "not_found", "it does not exist")
        return states[name]

    async def _listed(self, directory: Entry, name: str, state: State) -> FileInfo:
        names = (*directory.names, name)
        shown = self.roots.shown(directory.root, names)
        if not stat.S_ISLNK(state.mode):
            return self._info(shown, names, state)
        try:
            target = await self.existing("/".join(names), root=directory.root)
            return self._info(shown, target.names, await self._state(name, target))
        except WorkspaceError:
            return FileInfo(shown, "other")

    def _info(self, shown: str, names: Sequence[str], state: State) -> FileInfo:
        size = state.size if state.kind == "file" else 0
        protected = self.read_only or self.protection.covers(names)
        return FileInfo(shown, state.kind, size, state.version, protected)

    def _check_writable(self, path: str) -> None:
        if self.read_only:
            raise failure(path, "protected", "the workspace is read-only")

    async def _write(
        self, path: str, entry: Entry, data: bytes, condition: Condition, old: State | None
    ) -> State:
        made: list[str] = []
        try:
            for length in range(len(entry.names) - entry.made, len(entry.names)):
                parent = "/".join((entry.root, *entry.names[: length - 1]))
                reply = await self.container.ask(
                    "create", parent, entry.names[length - 1], merge=True
                )
                if reply.status:
                    raise _failed(path, reply)
                made.append(parent)
            reply = await self.container.ask(
                "write",
                entry.directory,
                f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}.tmp",
                str(len(data)),
                entry.names[-1],
                "replace" if condition.overwrite else "create",
                _now(),
                *(() if old is None else (format(stat.S_IMODE(old.mode) & 0o777, "o"), old.owner)),
                data=data,
                merge=True,
            )
            state = _written(path, reply)
            made.clear()
            return state
        finally:
            with trio.CancelScope(shield=True):
                for depth, parent in reversed(tuple(enumerate(made))):
                    name = entry.names[len(entry.names) - entry.made + depth - 1]
                    await self.container.ask("discard", parent, name)


def _written(path: str, reply: Reply) -> State:
    if reply.status == _EXISTS:
        raise failure(path, "exists", "the file already exists")
    if reply.status == _NO_FILE:
        raise failure(path, "changed", "another process has replaced the file")
    if reply.status:
        raise _failed(path, reply)
    return State.of(reply.output.decode("utf-8", "replace").strip().split("|"))


def _check(path: str, state: State | None, condition: Condition) -> None:
    """Check the state of a file before a write; see `writing.check_condition`."""
    if state is None:
        if condition.expected is not None:
            raise failure(path, "changed", "the file has been removed since it was read")
        return
    if state.kind != "file":
        raise failure(path, "not_a_file", "it is a directory, FIFO, socket or device")
    if not condition.overwrite:
        raise failure(path, "exists", "the file already exists")
    if condition.expected is not None and state.version != condition.expected:
        raise failure(path, "changed", "the file has changed since it was read; read it again")


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds:09}"


def _protected(path: str) -> WorkspaceError:
    return failure(
        path, "protected", "the path is protected; agents may read it but must not change it"
    )


def _failed(path: str, reply: Reply) -> WorkspaceError:
    """Return the error for a failed request, from the messages of its programs."""
    if reply.status == REPLACED:
        return failure(path, "changed", "a directory on the path has been replaced")
    message = reply.output.decode("utf-8", "replace").strip()
    for text, number in _ERRORS.items():
        if text in message:
            return os_failure(path, OSError(number, message))
    return failure(path, "failed", f"the container reports: {message[-200:] or reply.status}")
