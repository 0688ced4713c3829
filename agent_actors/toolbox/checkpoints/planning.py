"""Decides which files a restoration changes. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import attrs

from agent_actors.toolbox.checkpoints.manifest import Kept, Manifest, parents, same
from agent_actors.toolbox.workspace.local.search import gitignore

_IGNORE: Final = gitignore.FILE_NAME

IgnoreCheck: TypeAlias = Callable[[str, bool], bool]
"""Returns whether a path is excluded; the second argument is True for a directory."""


@attrs.frozen
class Step:
    """One entry that a restoration changes.

    Attributes:
        path: The path.
        wanted: The state in the checkpoint; None if the entry did not exist.
        present: The present state; None if the entry does not exist.
    """

    path: str
    wanted: Kept | None
    present: Kept | None

    @property
    def removes(self) -> bool:
        """True if the present entry must be removed, also to make place for the wanted one."""
        if self.present is None or self.wanted is None:
            return self.present is not None
        # A symlink cannot be changed.
        return self.wanted.kind != self.present.kind or self.wanted.kind == "link"


@attrs.frozen
class Steps:
    """The decisions about the files that the agent changed.

    Attributes:
        steps: The entries to change.
        conflicts: The files that others changed after the agent.
        lost: The files whose state in the checkpoint is not known.
    """

    steps: tuple[Step, ...]
    conflicts: tuple[str, ...]
    lost: tuple[str, ...]


def plan_steps(
    target: Manifest,
    present: Manifest,
    *,
    by_agent: set[str],
    by_others: set[str],
    is_ignored: IgnoreCheck,
) -> Steps:
    """Decide about the files that the agent changed.

    Args:
        target: The checkpoint to restore.
        present: The present files.
        by_agent: The paths that the agent changed since the checkpoint.
        by_others: The paths that others changed since the checkpoint.
        is_ignored: The `.gitignore` files of the checkpoint.
    """
    steps: list[Step] = []
    conflicts: list[str] = []
    lost: list[str] = []
    for path in sorted(by_agent):
        wanted, now = target.entries.get(path), present.entries.get(path)
        if same(wanted, now):
            continue
        is_directory = now is not None and now.kind == "directory"
        if wanted is None and (target.truncated or is_ignored(path, is_directory)):
            # The file may have existed, although the checkpoint does not contain it.
            if not is_directory:
                lost.append(path)
        elif wanted is not None and wanted.kind == "file" and not wanted.digest:
            lost.append(path)
        elif path in by_others and now is not None and not is_directory:
            conflicts.append(path)
        else:
            steps.append(Step(path, wanted, now))
    return Steps(tuple(steps), tuple(conflicts), tuple(lost))


def ignore_check(texts: Mapping[str, str]) -> IgnoreCheck:
    """Return a function that checks whether `.gitignore` files exclude a path.

    Args:
        texts: The contents of the `.gitignore` files, by path.
    """
    files: dict[str, gitignore.IgnoreFile] = {}
    for path, text in texts.items():
        directory = path.removesuffix(_IGNORE).rstrip("/")
        depth = directory.count("/") + 1 if directory else 0
        files[directory] = gitignore.IgnoreFile(depth, gitignore.parse_rules(text))

    def is_ignored(path: str, is_directory: bool) -> bool:
        names = tuple(path.split("/"))
        above = list(parents(path))
        for length in range(1, len(names) + 1):
            rules = [files[one] for one in above[:length] if one in files]
            leads_on = length < len(names)
            if gitignore.excludes(rules, names[:length], is_directory=leads_on or is_directory):
                return True
        return False

    return is_ignored


def is_ignore_file(path: str) -> bool:
    """Return whether a path names a `.gitignore` file."""
    return path.rpartition("/")[2] == _IGNORE
