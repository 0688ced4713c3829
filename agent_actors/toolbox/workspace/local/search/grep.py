"""Search for lines in the content of files."""

import os
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import attrs

from agent_actors.domain.workspace.files import GrepMatch, GrepMatches, GrepQuery
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import Check, failure
from agent_actors.toolbox.workspace.local.files import Files, read_file
from agent_actors.toolbox.workspace.local.roots import split
from agent_actors.toolbox.workspace.local.search import gitignore, ripgrep
from agent_actors.toolbox.workspace.local.search.fallback import (
    Matcher,
    MatcherTimeout,
    open_matcher,
)
from agent_actors.toolbox.workspace.local.search.hits import (
    Hit,
    Target,
    check_query,
    file_patterns,
    is_binary,
    matches_of,
)
from agent_actors.toolbox.workspace.local.search.tree import (
    REPOSITORY,
    Budget,
    Tree,
    TreeFile,
    ignores_above,
)
from agent_actors.toolbox.workspace.local.walk import Entry, Walk, walk_to

T = TypeVar("T")


class InThread(Protocol):
    """Runs a blocking function in a worker thread."""

    def __call__(self, work: Callable[[Check], T], /) -> Awaitable[T]:
        """Run the function and return its result."""
        ...


@attrs.define(eq=False)
class _Result:
    """The result of a search, while it is collected in the order of the paths."""

    query: GrepQuery
    matches: list[GrepMatch] = attrs.field(factory=list[GrepMatch])
    skipped: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.matches) > self.query.limit

    def add(self, shown: str, data: bytes, hits: list[Hit]) -> None:
        for match in matches_of(shown, data, hits, self.query):
            self.matches.append(match)
            if self.is_full:
                return

    def finished(self, *, truncated: bool) -> GrepMatches:
        matches = tuple(self.matches[: self.query.limit])
        return GrepMatches(matches, truncated or self.is_full, self.skipped)


async def grep(files: Files, query: GrepQuery, in_thread: InThread) -> GrepMatches:
    """See `Workspace.grep`."""
    check_query(query)
    program = ripgrep.program()
    if program is None:
        return await in_thread(lambda check: _without_ripgrep(files, query, check))
    target = await in_thread(lambda check: _open(files, query, check))
    try:
        if target.content is not None and is_binary(target.content):
            return GrepMatches((), skipped=1)
        hits = await ripgrep.search(program, target, query, files.limits)
        return await in_thread(lambda check: _confirmed(files, target, hits, query, check))
    finally:
        if target.directory is not None:
            os.close(target.directory)


def _open(files: Files, query: GrepQuery, check: Check) -> Target:
    with walk_to(files.roots, query.path) as (walk, entry):
        shown = walk.shown(entry)
        if not entry.is_directory:
            content = _content(files, query.path, entry, check)
            return Target(walk.root, entry.names, shown, content)
        assert entry.fd is not None
        above = query.use_gitignore and bool(entry.names) and bool(ignores_above(walk))
        directory = os.dup(entry.fd)
        return Target(walk.root, entry.names, shown, directory=directory, ignores_above=above)


def _content(files: Files, path: str, entry: Entry, check: Check) -> bytes:
    most = files.limits.search_file_bytes
    data = read_file(path, entry, 0, most + 1, check)
    if len(data) > most:
        raise failure(path, "too_large", f"only files of at most {most:,} bytes are searched")
    return data


# With ripgrep.


def _confirmed(
    files: Files, target: Target, hits: ripgrep.Hits, query: GrepQuery, check: Check
) -> GrepMatches:
    """Read the lines of the hits through the walk."""
    result, wanted = _Result(query), file_patterns(query)
    if target.content is not None:
        for found in hits.files.values():
            result.add(target.shown, target.content, found)
        return result.finished(truncated=hits.truncated)
    for path in sorted(hits.files):
        check()
        if result.is_full:
            break
        below = tuple(split(path))
        if wanted is not None and not wanted.matches(below):
            continue
        names = (*target.names, *below)
        try:
            with walk_to(files.roots, "/".join(names), root=target.root, follow_last=False) as (
                walk,
                entry,
            ):
                # A symlink that was swapped in may lead to another file, even to an ignored one.
                if entry.names != names or not entry.is_file:
                    continue
                if target.ignores_above and _is_ignored(walk, entry, len(target.names)):
                    continue
                data = read_file(path, entry, 0, files.limits.search_file_bytes, check)
        except WorkspaceError:
            result.skipped += 1
            continue
        if is_binary(data):
            result.skipped += 1
        else:
            result.add(files.roots.shown(target.root, names), data, hits.files[path])
    return result.finished(truncated=hits.truncated)


def _is_ignored(walk: Walk, entry: Entry, above: int) -> bool:
    """Return whether `.gitignore` files exclude a file or a directory that contains it.

    Args:
        walk: The walk to the file.
        entry: The file.
        above: The depth of the directory that is searched, which is itself not excluded.
    """
    rules = ignores_above(walk)
    for length in range(above + 1, len(entry.names) + 1):
        # The `.gitignore` files of deeper directories say nothing about this one.
        relevant = [one for one in rules if one.depth < length]
        is_directory = length < len(entry.names)
        if gitignore.excludes(relevant, entry.names[:length], is_directory=is_directory):
            return True
    return False


# Without ripgrep.


def _without_ripgrep(files: Files, query: GrepQuery, check: Check) -> GrepMatches:
    budget = Budget.of(files.limits)
    result = _Result(query)
    with walk_to(files.roots, query.path) as (walk, start):
        content = None if start.is_directory else _content(files, query.path, start, check)
        try:
            with open_matcher(query, budget.deadline, check) as matcher:
                if content is None:
                    _search_tree(files, _Search(walk, start, budget, check), matcher, result)
                elif is_binary(content):
                    result.skipped += 1
                else:
                    lines = matcher.lines(content)
                    result.add(walk.shown(start), content, [Hit(line) for line in lines])
        except MatcherTimeout:
            budget.exhausted = True
    return result.finished(truncated=budget.exhausted)


@attrs.frozen(eq=False)
class _Search:
    """The place and the effort of a search without ripgrep."""

    walk: Walk
    start: Entry
    budget: Budget
    check: Check


def _search_tree(
    files: Files,
    search: _Search,
    matcher: Matcher,
    result: _Result,
) -> None:
    inside = REPOSITORY in search.start.names
    wanted = file_patterns(result.query)

    def enters(names: tuple[str, ...]) -> bool:
        return inside or names[-1] != REPOSITORY

    tree = Tree(
        search.walk,
        search.start,
        search.budget,
        search.check,
        enters,
        result.query.use_gitignore,
    )
    for file in tree.files():
        if file.is_link or (wanted is not None and not wanted.matches(file.names)):
            continue
        data = _read_in(files, file, search.check)
        if data is None or is_binary(data):
            result.skipped += 1
            continue
        lines = matcher.lines(data)
        if time.monotonic() > search.budget.deadline:
            search.budget.exhausted = True
        if lines:
            names = (*search.start.names, *file.names)
            shown = files.roots.shown(search.walk.root, names)
            result.add(shown, data, [Hit(line) for line in lines])
        if result.is_full:
            return


def _read_in(files: Files, file: TreeFile, check: Check) -> bytes | None:
    """Read a file of a tree; None if it is too large or cannot be read."""
    name = file.names[-1]
    most = files.limits.search_file_bytes
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=file.directory)
    except OSError:
        return None
    try:
        entry = Entry(file.directory, name, file.names, fd, os.fstat(fd))
        data = read_file(name, entry, 0, most + 1, check)
    except (WorkspaceError, OSError):
        return None
    finally:
        os.close(fd)
    return data if len(data) <= most else None
