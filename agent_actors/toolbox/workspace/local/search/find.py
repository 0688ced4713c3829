"""Search for files by their names."""

from itertools import takewhile
from typing import Final

from agent_actors.domain.workspace.files import PathMatches
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import Check, failure
from agent_actors.toolbox.workspace.local.files import Files
from agent_actors.toolbox.workspace.local.patterns import PathPattern, parse_alternatives
from agent_actors.toolbox.workspace.local.roots import Root, split
from agent_actors.toolbox.workspace.local.search.tree import REPOSITORY, Budget, Tree
from agent_actors.toolbox.workspace.local.walk import walk_to

_MAGIC: Final = frozenset("*?[{")


def find(
    files: Files, pattern: str, path: str, check: Check, *, limit: int, use_gitignore: bool
) -> PathMatches:
    """See `Workspace.glob`; the rules for patterns are in `ConfinedFiles.glob`."""
    if limit < 0:
        raise failure(path, "invalid", "`limit` must not be negative")
    if pattern.startswith("/"):
        path, pattern = split_absolute(pattern)
    patterns = parse_alternatives(pattern)
    budget = Budget.of(files.limits)
    found: list[str] = []
    with walk_to(files.roots, path) as (walk, start):
        if not start.is_directory:
            raise failure(path, "not_a_directory", "it is not a directory")
        named = REPOSITORY in start.names or any(
            REPOSITORY in one.components for one in patterns.alternatives
        )

        def enters(names: tuple[str, ...]) -> bool:
            if names[-1] == REPOSITORY and not named:
                return False
            return any(leads_to(names, one) for one in patterns.alternatives)

        tree = Tree(walk, start, budget, check, enters, use_gitignore)
        for file in tree.files():
            if not patterns.matches(file.names):
                continue
            names = (*start.names, *file.names)
            if file.is_link and not _is_file(files, walk.root, names):
                continue
            found.append(files.roots.shown(walk.root, names))
            if len(found) > limit:
                break
    return PathMatches(tuple(found[:limit]), truncated=budget.exhausted or len(found) > limit)


def split_absolute(pattern: str) -> tuple[str, str]:
    """Split an absolute pattern into the directory before the first wildcard and the rest."""
    names = split(pattern)
    plain = list(takewhile(lambda name: not _MAGIC.intersection(name), names[:-1]))
    return "/" + "/".join(plain), "/".join(names[len(plain) :])


def leads_to(names: tuple[str, ...], pattern: PathPattern) -> bool:
    """Return whether files below a directory can match."""
    if pattern.max_depth is not None and len(names) >= pattern.max_depth:
        return False
    return all(one == two for one, two in zip(names, pattern.literal_prefix, strict=False))


def _is_file(files: Files, root: Root, names: tuple[str, ...]) -> bool:
    """Return whether a symlink leads to a regular file of the workspace."""
    try:
        with walk_to(files.roots, "/".join(names), root=root) as (_, entry):
            return entry.is_file
    except WorkspaceError:
        return False
