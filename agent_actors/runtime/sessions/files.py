"""Restores the files of a workspace when a session is rewound."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors.abc import Checkpointer, Workspace
from agent_actors.actors.resources.checkpoints import Checkpointers
from agent_actors.actors.resources.session_resources import SessionResources
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.workspace.trees import RestoreReport
from agent_actors.errors import ConfigError
from agent_actors.options.checkpoints import Checkpoints, as_checkpoints
from agent_actors.options.workspace_config import WorkspaceConfig, as_workspace
from agent_actors.sessions.checkpoints import restore_plan

# Time limit, in seconds, for closing a workspace that was opened for a rewind.
_CLOSE_TIMEOUT: Final = 30.0


@attrs.frozen
class Restored:
    """The files that were restored, and the root of the workspace."""

    report: RestoreReport
    root: str


@attrs.frozen(eq=False)
class FileRestorer:
    """Restores files from the checkpoints of a session.

    Attributes:
        resources: The open workspaces.
        checkpointers: The checkpoints.
        make_workspace: Creates a workspace from its configuration; called in a thread.
    """

    resources: SessionResources
    checkpointers: Checkpointers
    make_workspace: Callable[[WorkspaceConfig, Path], Workspace]

    async def restore(
        self,
        session_id: str,
        records: tuple[AnyEvent, ...],
        to_seq: int,
        *,
        workspace: Workspace | Mapping[str, object] | None,
        checkpoints: Checkpoints | str | None,
        dry_run: bool,
    ) -> Restored:
        """Restore the files as they were right after a record.

        Args:
            session_id: The session.
            records: Its records.
            to_seq: The `seq` of the record.
            workspace: The workspace, or its configuration; None: the open one of the session.
            checkpoints: The checkpoints; None: those of the session's last run, or the default.
            dry_run: True to change nothing.

        Raises:
            ConfigError: The workspace is not known, or the records contain no checkpoint of it.
            WorkspaceError: A checkpoint does not exist, or a file cannot be restored.

        Cancellation: each file is either unchanged or restored; the call can be repeated.
        """
        async with self._open(session_id, workspace) as place:
            root = place.describe().root
            plan = restore_plan(records, to_seq, root)
            if plan is None:
                raise ConfigError(
                    f"session {session_id!r} has no checkpoint of the workspace {root} that fits "
                    f"record {to_seq}; checkpoints are made by runs with "
                    "AgentOptions(checkpoints=True)"
                )
            checkpointer = self._checkpointer(session_id, checkpoints)
            checkpointer.check(place)
            return Restored(await checkpointer.restore(place, plan, dry_run=dry_run), root)

    def _checkpointer(self, session_id: str, checkpoints: Checkpoints | str | None) -> Checkpointer:
        given = as_checkpoints(checkpoints)
        last = self.resources.checkpointer(session_id)
        if given is None and last is not None:
            return last
        return self.checkpointers.get(given or Checkpoints())

    @asynccontextmanager
    async def _open(
        self, session_id: str, workspace: Workspace | Mapping[str, object] | None
    ) -> AsyncGenerator[Workspace]:
        given = as_workspace(workspace)
        if given is None:
            lease = self.resources.borrow(session_id)
            if lease is None:
                raise ConfigError(
                    f"the workspace of session {session_id!r} is not open; pass workspace=..."
                )
            try:
                yield lease.source
            finally:
                lease.release()
            return
        if isinstance(given, Workspace):
            yield given
            return
        if not isinstance(given, WorkspaceConfig):
            raise ConfigError("rewind: workspace must be a Workspace or a table, not a function")
        made = await trio.to_thread.run_sync(partial(self.make_workspace, given, Path.cwd()))
        try:
            yield made
        finally:
            with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await made.aclose()
