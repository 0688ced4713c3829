"""Snapshots: copies of a workspace's files that another process restores in its own workspace."""

import os
from pathlib import Path

from agent_actors.abc.workspace import Workspace
from agent_actors.domain.workspace.trees import RestorePlan, RestoreReport, WorkspaceSnapshot
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.toolbox.checkpoints.checkpointer import DirectoryCheckpointer
from agent_actors.toolbox.checkpoints.directory import MANIFESTS


async def take_snapshot(
    workspace: Workspace, directory: str | os.PathLike[str]
) -> WorkspaceSnapshot:
    """Copy the files of a workspace to a directory.

    Args:
        workspace: The workspace.
        directory: The directory, which must be outside the workspace. Several snapshots can share
            it, and it can be moved to another machine.

    Raises:
        ConfigError: The directory is inside the workspace.
        WorkspaceError: The files cannot be listed, or the copies cannot be written.

    Cancellation: safe; a part of the files may have been copied.
    """
    options = Checkpoints(directory=Path(directory))
    checkpointer = DirectoryCheckpointer(options)
    checkpointer.check(workspace)
    taken = await checkpointer.take(workspace)
    return WorkspaceSnapshot(
        path=options.directory / MANIFESTS / taken.id,
        files=taken.files,
        not_covered=taken.not_covered,
    )


async def restore_snapshot(workspace: Workspace, path: str | os.PathLike[str]) -> RestoreReport:
    """Make the files of a workspace equal to those of a snapshot.

    Files that snapshots do not cover, such as ignored and protected ones, are left as they are.

    Args:
        workspace: The workspace.
        path: The path of the snapshot.

    Raises:
        WorkspaceError: The snapshot does not exist (reason `not_found`), or a file could not be
            restored. The call can be repeated.

    Cancellation: each file is either unchanged or restored; the call can be repeated.
    """
    snapshot = Path(path)
    checkpointer = DirectoryCheckpointer(Checkpoints(directory=snapshot.parent.parent))
    plan = RestorePlan(target=snapshot.name, last=snapshot.name, others_since=False)
    return await checkpointer.restore(workspace, plan, dry_run=False)
