"""The manifest of a checkpoint: the state of each file, and comparisons of states. Pure."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Final

import attrs
import msgspec

from agent_actors.domain.workspace.trees import Checkpoint, TreeKind

_LEVEL: Final = 1
_SHOWN: Final = 3


@attrs.frozen(kw_only=True)
class Kept:
    """The state of an entry in a checkpoint.

    Attributes:
        kind: The kind of the entry.
        digest: SHA-256 of the content in hexadecimal; empty for a file whose content was not
            copied, and for other kinds.
        pack: The pack that contains the content.
        offset: The position of the content in the pack, in bytes.
        size: Size in bytes.
        mode: The permission bits; None if they are not known.
        version: The version that the workspace reported.
        settled: True if an equal version proves that the content is the same. A file that changed
            just before the checkpoint may change again without a new version, because the clocks of
            file systems are coarse.
        target: The target of a symlink.
    """

    kind: TreeKind
    digest: str = ""
    pack: str = ""
    offset: int = 0
    size: int = 0
    mode: int | None = None
    version: str = ""
    settled: bool = True
    target: str = ""


@attrs.frozen
class Manifest:
    """The files of a workspace at one time.

    Attributes:
        root: The root of the workspace.
        entries: The states, by path.
        truncated: True if the workspace has files that are not listed.
    """

    root: str
    entries: dict[str, Kept]
    truncated: bool = False

    def encode(self) -> tuple[str, bytes]:
        """Return the id and the stored form."""
        plain = msgspec.json.encode(self)
        return sha256(plain).hexdigest(), zlib.compress(plain, _LEVEL)

    @classmethod
    def decode(cls, checkpoint_id: str, stored: bytes) -> "Manifest | None":
        """Return the manifest; None if the stored form is damaged."""
        try:
            plain = zlib.decompress(stored)
        except zlib.error:
            return None
        if sha256(plain).hexdigest() != checkpoint_id:
            return None
        return msgspec.json.decode(plain, type=cls)

    def info(self, checkpoint_id: str) -> Checkpoint:
        """Return the description of the checkpoint."""
        files = sum(one.kind == "file" for one in self.entries.values())
        return Checkpoint(id=checkpoint_id, files=files, not_covered=tuple(self._not_covered()))

    def _not_covered(self) -> Iterator[str]:
        missing = [
            path for path, one in self.entries.items() if one.kind == "file" and not one.digest
        ]
        if missing:
            yield f"{len(missing)} files are too large or unreadable: {shown(missing)}"
        if self.truncated:
            yield f"the workspace has more than {len(self.entries):,} files"


def same(one: Kept | None, other: Kept | None) -> bool:
    """Return whether two states certainly are the same."""
    if one is None or other is None:
        return one is other
    if one.kind != other.kind or one.target != other.target:
        return False
    if one.kind != "file":
        return True
    if None not in (one.mode, other.mode) and one.mode != other.mode:
        return False
    if one.digest and other.digest:
        return one.digest == other.digest
    return bool(one.version) and one.version == other.version


def changed_paths(before: Manifest, after: Manifest) -> Iterator[str]:
    """Yield the paths whose states differ, in no particular order."""
    for path in before.entries.keys() | after.entries.keys():
        if not same(before.entries.get(path), after.entries.get(path)):
            yield path


def shown(paths: Iterable[str]) -> str:
    """Return the first paths of a list as text."""
    found = sorted(paths)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def parents(path: str) -> Iterator[str]:
    """Yield the directories above a path, the highest first; the root is empty."""
    names = path.split("/")[:-1]
    for length in range(len(names) + 1):
        yield "/".join(names[:length])


def packs(entries: Mapping[str, Kept]) -> set[str]:
    """Return the packs that contain the contents."""
    return {one.pack for one in entries.values() if one.digest}
