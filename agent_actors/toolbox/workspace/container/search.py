"""Search in the files of a container, for names and for content."""

import base64
import binascii
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors.domain.workspace.files import GrepMatches, GrepQuery, PathMatches
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.container.files import BATCH, ContainerFiles
from agent_actors.toolbox.workspace.container.walk import Entry
from agent_actors.toolbox.workspace.local.confined import ConfinedFiles
from agent_actors.toolbox.workspace.local.failures import failure
from agent_actors.toolbox.workspace.local.patterns import parse_alternatives
from agent_actors.toolbox.workspace.local.search import gitignore
from agent_actors.toolbox.workspace.local.search.find import leads_to, split_absolute
from agent_actors.toolbox.workspace.local.search.hits import check_query, file_patterns
from agent_actors.toolbox.workspace.local.search.tree import REPOSITORY, Budget

_DIRECTORIES: Final = 50  # the number of directories that one request lists
_IGNORE_BYTES: Final = 1_000_000
# A search copies files of at most this total size, in archives of about this size.
_COPIED_BYTES: Final = 200_000_000
_ARCHIVE_BYTES: Final = 8_000_000
_MEMORY: Final = Path("/dev/shm")

_Ignores = tuple[gitignore.IgnoreFile, ...]


@attrs.frozen
class _File:
    """A file or symlink below the directory that is searched."""

    names: tuple[str, ...]
    is_link: bool


@attrs.frozen(eq=False)
class _Tree:
    """The files below a directory of a container.

    Attributes:
        files: The workspace.
        start: The directory.
        enters: Returns whether to visit a directory, by its path below `start`.
        use_gitignore: True to leave out files that `.gitignore` files exclude.
        budget: The effort that the traversal may take.
    """

    files: ContainerFiles
    start: Entry
    enters: Callable[[tuple[str, ...]], bool]
    use_gitignore: bool
    budget: Budget

    async def found(self) -> Sequence[_File]:
        """Return the files and symlinks, sorted by path."""
        found: list[_File] = []
        pending: list[tuple[tuple[str, ...], _Ignores]] = [((), await self._above())]
        while pending and not self.budget.exhausted:
            some, pending = pending[:_DIRECTORIES], pending[_DIRECTORIES:]
            paths = ["/".join((self.start.path, *names)) for names, _ in some]
            listed = await self.files.entries(paths)
            for (names, above), entries in zip(some, listed, strict=True):
                has_rules = names and ("f", gitignore.FILE_NAME) in entries
                own = await self._rules((*self.start.names, *names)) if has_rules else ()
                pending += self._sorted_out(names, entries, (*above, *own), found)
        return sorted(found, key=lambda file: "/".join(file.names))

    def _sorted_out(
        self,
        above: tuple[str, ...],
        entries: Sequence[tuple[str, str]],
        ignores: _Ignores,
        found: list[_File],
    ) -> Iterator[tuple[tuple[str, ...], _Ignores]]:
        """Add the files of a directory to `found`, and yield the directories to visit."""
        for kind, name in entries:
            if not self.budget.spend():
                return
            names = (*above, name)
            if ignores and gitignore.excludes(
                ignores, (*self.start.names, *names), is_directory=kind == "d"
            ):
                continue
            if kind in {"f", "l"}:
                found.append(_File(names, is_link=kind == "l"))
            elif kind == "d" and self.enters(names):
                yield names, ignores

    async def _above(self) -> _Ignores:
        """Return the rules of the `.gitignore` files from the root to the directory."""
        rules: list[gitignore.IgnoreFile] = []
        for depth in range(len(self.start.names) + 1):
            rules += await self._rules(self.start.names[:depth])
        return tuple(rules)

    async def _rules(self, directory: tuple[str, ...]) -> _Ignores:
        if not self.use_gitignore:
            return ()
        entry = Entry(self.start.root, (*directory, gitignore.FILE_NAME), "other")
        try:
            _, data = await self.files.content(entry.path, entry, 0, _IGNORE_BYTES)
        except WorkspaceError:
            return ()
        rules = gitignore.parse_rules(data.decode("utf-8", "replace"))
        return (gitignore.IgnoreFile(len(directory), rules),) if rules else ()


async def find(
    files: ContainerFiles, pattern: str, path: str, *, limit: int, use_gitignore: bool
) -> PathMatches:
    """See `Workspace.glob`; the rules for patterns are in `ConfinedFiles.glob`."""
    if limit < 0:
        raise failure(path, "invalid", "`limit` must not be negative")
    if pattern.startswith("/"):
        path, pattern = split_absolute(pattern)
    patterns = parse_alternatives(pattern)
    start = await files.existing(path)
    if not start.is_directory:
        raise failure(path, "not_a_directory", "it is not a directory")
    named = REPOSITORY in start.names or any(
        REPOSITORY in one.components for one in patterns.alternatives
    )

    def enters(names: tuple[str, ...]) -> bool:
        if names[-1] == REPOSITORY and not named:
            return False
        return any(leads_to(names, one) for one in patterns.alternatives)

    budget = Budget.of(files.limits)
    found: list[str] = []
    for file in await _Tree(files, start, enters, use_gitignore, budget).found():
        if len(found) > limit:
            break
        names = (*start.names, *file.names)
        if patterns.matches(file.names) and await _is_file(files, start.root, names, file):
            found.append(files.roots.shown(start.root, names))
    return PathMatches(tuple(found[:limit]), truncated=budget.exhausted or len(found) > limit)


async def _is_file(files: ContainerFiles, root: str, names: tuple[str, ...], file: _File) -> bool:
    """Return whether an entry is a regular file, or a symlink to one in the workspace."""
    if not file.is_link:
        return True
    try:
        target = await files.existing("/".join(names), root=root)
        return (await files.stat(target.path)).kind == "file"
    except WorkspaceError:
        return False


async def grep(files: ContainerFiles, query: GrepQuery) -> GrepMatches:
    """See `Workspace.grep`: copies the files to search, and searches the copies."""
    check_query(query)
    start = await files.existing(query.path)
    budget = Budget.of(files.limits)
    chosen, skipped = await _chosen(files, query, start, budget)
    directory = start if start.is_directory else attrs.evolve(start, names=start.names[:-1])
    copies = await trio.to_thread.run_sync(_Copies, sum(chosen.values()))
    try:
        for some in _archives(chosen):
            if not budget.spend():
                break
            reply = await files.container.ask("archive", directory.path, *(f"./{n}" for n in some))
            await trio.to_thread.run_sync(copies.add, reply.output, frozenset(some))
        found = await copies.search(files, query, "." if start.is_directory else start.names[-1])
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(copies.close)
    matches = tuple(
        attrs.evolve(match, file=files.roots.shown(start.root, (*directory.names, match.file)))
        for match in found.matches
    )
    return GrepMatches(matches, found.truncated or budget.exhausted, found.skipped + skipped)


async def _chosen(
    files: ContainerFiles, query: GrepQuery, start: Entry, budget: Budget
) -> tuple[dict[str, int], int]:
    """Return the paths and sizes of the files to search, and the number of files left out."""
    most = files.limits.search_file_bytes
    if not start.is_directory:
        state, _ = await files.content(query.path, start, 0, 0)
        if state.size > most:
            raise failure(
                query.path, "too_large", f"only files of at most {most:,} bytes are searched"
            )
        return {start.names[-1]: state.size}, 0
    wanted = file_patterns(query)
    inside = REPOSITORY in start.names

    def enters(names: tuple[str, ...]) -> bool:
        return inside or names[-1] != REPOSITORY

    tree = _Tree(files, start, enters, query.use_gitignore, budget)
    names = [
        "/".join(file.names)
        for file in await tree.found()
        if not file.is_link and (wanted is None or wanted.matches(file.names))
    ]
    states = await files.states(start.path, names)
    small = {name: states[name].size for name in names if name in states}
    skipped = [name for name, size in small.items() if size > most]
    for name in skipped:
        del small[name]
    total = 0
    for name, size in list(small.items()):
        total += size
        if total > _COPIED_BYTES:
            budget.exhausted = True
            del small[name]
    return small, len(skipped)


def _archives(sizes: dict[str, int]) -> Iterator[list[str]]:
    """Yield the files in groups that one archive contains."""
    some: list[str] = []
    total = 0
    for name, size in sizes.items():
        some.append(name)
        total += size
        if len(some) == BATCH or total >= _ARCHIVE_BYTES:
            yield some
            some, total = [], 0
    if some:
        yield some


def _folder(size: int) -> Path | None:
    """Return a folder in memory, where files are created faster, if there is enough space."""
    try:
        free = shutil.disk_usage(_MEMORY).free
    except OSError:
        return None
    return _MEMORY if free > 2 * size and os.access(_MEMORY, os.W_OK | os.X_OK) else None


class _Copies:
    """Copies of files on this machine, in a temporary directory.

    Args:
        size: Their total size in bytes.
    """

    def __init__(self, size: int) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="agent-actors-", dir=_folder(size))
        self._folders = {""}

    def add(self, encoded: bytes, wanted: frozenset[str]) -> None:
        """Copy the wanted files of an archive, whose content is not trusted."""
        try:
            data = base64.b64decode(encoded)
            with tarfile.open(fileobj=BytesIO(data), mode="r:") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    if member.isreg() and name in wanted:
                        end = member.offset_data + member.size
                        self._write(name, data[member.offset_data : end])
        except (tarfile.TarError, binascii.Error, OSError) as error:
            raise failure(
                ".", "failed", f"the container did not send an archive of its files: {error}"
            ) from error

    def _write(self, name: str, content: bytes) -> None:
        folder, _, _ = name.rpartition("/")
        if folder not in self._folders:
            Path(self._directory.name, folder).mkdir(parents=True, exist_ok=True)
            self._folders.add(folder)
        with open(f"{self._directory.name}/{name}", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(content)

    async def search(self, files: ContainerFiles, query: GrepQuery, path: str) -> GrepMatches:
        """Search the copies."""
        copies = ConfinedFiles(self._directory.name, protected=(), limits=files.limits)
        try:
            # The file pattern and the `.gitignore` files have been applied already.
            return await copies.grep(
                attrs.evolve(query, path=path, file_glob="", use_gitignore=False)
            )
        finally:
            await copies.aclose()

    def close(self) -> None:
        """Remove the copies."""
        self._directory.cleanup()
