"""The directory with the copies: packs of contents, and manifests, named by their digests.

All functions block and run in worker threads. A file gets its name by a rename when it is complete,
so that a crash leaves no partial copy. Content is compared with its digest when it is read, because
files are not synchronized to the disk: the loss of a copy after a power failure is detected.

The directory is bounded. If it is full, the manifests that were used least recently are removed,
with the packs that no other manifest needs. Files that were used within the last hour are kept,
because another process may be using them.
"""

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import attrs

from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.checkpoints.manifest import Kept, Manifest, packs

MANIFESTS: Final = "manifests"
"""The name of the folder with the manifests."""

_PACKS: Final = "packs"
_NEWEST: Final = "newest"
_TEMPORARY: Final = ".tmp-"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Seconds in which a file is not removed after its last use.
_IN_USE: Final = 3600.0
# After the removal of old copies, at most this part of the directory is in use.
_FILL: Final = 0.8


@attrs.frozen
class Place:
    """The place of a content in the directory; see `Kept`."""

    digest: str
    pack: str
    offset: int


class CopyDirectory:
    """A directory with copies; see the module.

    Args:
        path: The directory; created with its parents when it is first written to.
        max_bytes: Maximum size of all files.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path: Path = path
        self._max_bytes = max_bytes
        self._used: int | None = None

    def keep(self, contents: Sequence[bytes]) -> list[Place | None]:
        """Store contents together.

        Returns:
            The place of each content; None for the contents that do not fit into the directory.

        Raises:
            OSError: The contents cannot be written.
        """
        places: list[Place | None] = []
        self._make_room(sum(map(len, contents)))
        fitting = list(_fitting(contents, self._max_bytes - self._size()))
        data = b"".join(fitting)
        pack = sha256(data).hexdigest()
        offset = 0
        for content in fitting:
            places.append(Place(sha256(content).hexdigest(), pack, offset))
            offset += len(content)
        if fitting:
            self._write(self._pack(pack), data)
        return [*places, *[None] * (len(contents) - len(fitting))]

    def content(self, kept: Kept) -> bytes | None:
        """Return a content; None if it is missing or damaged.

        Raises:
            OSError: The content cannot be read.
        """
        try:
            with self._pack(kept.pack).open("rb") as file:
                data = os.pread(file.fileno(), kept.size, kept.offset)
        except FileNotFoundError:
            return None
        return data if sha256(data).hexdigest() == kept.digest else None

    def keep_manifest(self, manifest: Manifest) -> str:
        """Store a manifest as the newest one of its root, and return its id.

        Raises:
            WorkspaceError: The directory is full.
            OSError: The manifest cannot be written.
        """
        checkpoint_id, stored = manifest.encode()
        path = self._manifest(checkpoint_id)
        try:
            os.utime(path)
        except FileNotFoundError:
            if not self._make_room(len(stored)):
                raise WorkspaceError(
                    f"the directory of the checkpoints is full; raise its limit of "
                    f"{self._max_bytes:,} bytes, or remove {self.path}",
                    reason="limit",
                ) from None
            self._write(path, stored)
        self._write(self._pointer(manifest.root), checkpoint_id.encode())
        return checkpoint_id

    def manifest(self, checkpoint_id: str) -> Manifest | None:
        """Return a manifest; None if it is missing or damaged.

        Raises:
            OSError: The manifest cannot be read.
        """
        if not checkpoint_id.isalnum():
            return None
        try:
            stored = self._manifest(checkpoint_id).read_bytes()
        except FileNotFoundError:
            return None
        return Manifest.decode(checkpoint_id, stored)

    def newest(self, root: str) -> str:
        """Return the id of the newest manifest of a root; empty if there is none.

        Raises:
            OSError: The pointer cannot be read.
        """
        try:
            return self._pointer(root).read_text("ascii", "replace")
        except FileNotFoundError:
            return ""

    def in_use(self, checkpoint_id: str) -> tuple[str, Manifest] | None:
        """Return a manifest for a new checkpoint that refers to the same packs.

        The manifest counts as used, so that its packs are kept until the new checkpoint is stored.

        Raises:
            OSError: The manifest cannot be read.
        """
        manifest = self.manifest(checkpoint_id)
        if manifest is None:
            return None
        os.utime(self._manifest(checkpoint_id))
        return checkpoint_id, manifest

    def _pack(self, pack: str) -> Path:
        return self.path / _PACKS / (pack if pack.isalnum() else "none")

    def _manifest(self, checkpoint_id: str) -> Path:
        return self.path / MANIFESTS / checkpoint_id

    def _pointer(self, root: str) -> Path:
        return self.path / _NEWEST / sha256(root.encode()).hexdigest()

    def _size(self) -> int:
        if self._used is None:
            self._used = sum(size for _, size, _ in self._files())
        return self._used

    def _make_room(self, needed: int) -> bool:
        """Remove old checkpoints if necessary, and return whether there is enough room."""
        if self._size() + needed > self._max_bytes:
            self._used = self._prune(needed)
        return self._size() + needed <= self._max_bytes

    def _write(self, path: Path, data: bytes) -> None:
        temporary = path.parent / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            fd = os.open(temporary, _CREATE, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(temporary, _CREATE, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            temporary.replace(path)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        self._used = self._size() + len(data)

    def _prune(self, needed: int) -> int:
        """Remove old manifests and the packs that only they need; return the size in use."""
        files = list(self._files())
        unused_since = time.time() - _IN_USE
        sizes = {path: size for path, size, _ in files}
        removable = {path for path, _, used_at in files if used_at <= unused_since}
        manifests = [path for path in sizes if path.parent.name == MANIFESTS]
        needs = {path: self._needs(path) for path in manifests}
        users = Counter(pack for found in needs.values() for pack in found)

        def remove(paths: Iterable[Path]) -> None:
            for path in removable.intersection(paths):
                with suppress(FileNotFoundError):
                    path.unlink()
                sizes.pop(path, None)

        remove(path for path in sizes.copy() if path.name.startswith(_TEMPORARY))
        remove(path for path in sizes.copy() if path.parent.name == _PACKS and not users[path])
        for path, _, _ in sorted(files, key=lambda one: one[2]):
            if sum(sizes.values()) + needed <= self._max_bytes * _FILL:
                break
            if path in needs and path in removable:
                remove([path])
                users.subtract(needs[path])
                remove(pack for pack in needs[path] if not users[pack])
        return sum(sizes.values())

    def _needs(self, path: Path) -> set[Path]:
        manifest = self.manifest(path.name)
        return set() if manifest is None else {self._pack(one) for one in packs(manifest.entries)}

    def _files(self) -> Iterator[tuple[Path, int, float]]:
        """Yield the files with their sizes and the times of their last use."""
        for name in (MANIFESTS, _NEWEST, _PACKS):
            yield from _files_in(self.path / name)


def _files_in(folder: Path) -> Iterable[tuple[Path, int, float]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield Path(entry.path), status.st_size, status.st_mtime


def _fitting(contents: Iterable[bytes], room: int) -> Iterator[bytes]:
    """Yield the contents, until the next one does not fit."""
    for content in contents:
        room -= len(content)
        if room < 0:
            return
        yield content
