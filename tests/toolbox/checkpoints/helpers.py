"""Shared parts of the tests of checkpoints."""

import stat
from pathlib import Path

from agent_actors.abc.workspace import Checkpointer, Workspace
from agent_actors.domain.workspace.trees import RestorePlan, RestoreReport


def content(root: Path) -> dict[str, object]:
    """Return the state of every entry below a directory: link target, mode and content, or None."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name, status = str(path.relative_to(root)), path.lstat()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_file():
            found[name] = (stat.S_IMODE(status.st_mode), path.read_bytes())
        else:
            found[name] = None
    return found


def since(target: str, last: str, *, others_since: bool = False) -> RestorePlan:
    """Return the plan for a restoration if the agent worked since the checkpoint."""
    return RestorePlan(
        target=target, last=last, by_agent=((target, last),), others_since=others_since
    )


async def undo(
    checkpointer: Checkpointer, workspace: Workspace, target: str, *, dry_run: bool = False
) -> RestoreReport:
    """Restore a checkpoint; the agent has made all changes since then."""
    return await checkpointer.restore(workspace, since(target, target), dry_run=dry_run)
