"""The checkpoints of workspaces: the checkpointers of a runtime, and the checkpoints of one run."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import attrs
import trio

from agent_actors.abc import Checkpointer, Workspace
from agent_actors.domain.events import EventBuilder, FileChanged, WorkspaceCheckpoint
from agent_actors.domain.workspace.trees import Checkpoint, CheckpointPhase, FileChange
from agent_actors.errors import WorkspaceError
from agent_actors.options.checkpoints import Checkpoints

_LOG: Final = logging.getLogger(__name__)

# Time limit, in seconds, for the checkpoint at the end of a run, which cannot be cancelled.
END_TIMEOUT: Final = 20.0
# The number of changed files that are recorded one by one.
_RECORDED: Final = 1_000


class Checkpointers:
    """Creates checkpointers when they are first needed.

    Args:
        make: Creates a checkpointer.
    """

    def __init__(self, make: Callable[[Checkpoints], Checkpointer]) -> None:
        self._make = make
        self._made: dict[Checkpoints, Checkpointer] = {}

    def get(self, options: Checkpoints) -> Checkpointer:
        """Return the checkpointer for a directory and its limits."""
        found = self._made.get(options)
        if found is None:
            found = self._made[options] = self._make(options)
        return found


class RunCheckpoints:
    """The checkpoints of one run. A failed checkpoint does not fail the run.

    Args:
        checkpointer: Makes the checkpoints.
        workspace: The workspace.
    """

    def __init__(self, checkpointer: Checkpointer, workspace: Workspace) -> None:
        self._checkpointer = checkpointer
        self._workspace = workspace
        self._before: Checkpoint | None = None
        self._began = False

    async def begin(self) -> EventBuilder:
        """Make the checkpoint before the run, and return its record.

        Cancellation: safe.
        """
        self._began = True
        try:
            taken = self._before = await self._checkpointer.take(self._workspace)
        except Exception as error:  # noqa: BLE001 - see the class
            return self._record("before", _reason(error))
        return self._record("before", taken)

    async def end(self, recorded: Mapping[str, FileChange]) -> list[EventBuilder]:
        """Make the checkpoint after the run; return the records of changed files and its record.

        Args:
            recorded: The changes that tools have recorded. Equal changes are not recorded again.

        Cancellation: shielded; `END_TIMEOUT` limits the time.
        """
        if not self._began:
            return []
        records: list[EventBuilder] = []
        taken: Checkpoint | str = f"the checkpoint took longer than {END_TIMEOUT:g} s"
        try:
            with trio.move_on_after(END_TIMEOUT, shield=True):
                taken = await self._checkpointer.take(self._workspace)
                records, more = await self._changes(taken, recorded)
                if more:
                    note = f"{more} more changed files are not recorded one by one"
                    taken = attrs.evolve(taken, not_covered=(*taken.not_covered, note))
        except Exception as error:  # noqa: BLE001 - see the class
            taken = _reason(error)
        return [*records, self._record("after", taken)]

    async def _changes(
        self, after: Checkpoint, recorded: Mapping[str, FileChange]
    ) -> tuple[list[EventBuilder], int]:
        """Return the records of changed files, and the number of files without a record."""
        found: tuple[FileChange, ...] = ()
        if self._before is not None:
            found = await self._checkpointer.changes(self._before.id, after.id)
        changes = {change.path: change for change in found[:_RECORDED]}
        new = [one for path, one in changes.items() if not _is_known(one, recorded.get(path))]
        for path, change in recorded.items():
            # A command may have removed a file that a tool created.
            unchanged = path not in changes and len(found) <= _RECORDED
            if unchanged and change.kind == "written" and await self._is_gone(path):
                new.append(FileChange(path, "deleted"))
        return [
            partial(FileChanged, path=one.path, content=one.text, digest=one.digest, size=one.size)
            for one in new
        ], len(found) - len(changes)

    async def _is_gone(self, path: str) -> bool:
        try:
            await self._workspace.stat(path)
        except WorkspaceError as error:
            return error.reason == "not_found"
        return False

    def _record(self, phase: CheckpointPhase, taken: Checkpoint | str) -> EventBuilder:
        if isinstance(taken, str):
            return partial(WorkspaceCheckpoint, phase=phase, checkpoint_id="", error=taken)
        return checkpoint_record(phase, taken, self._workspace.describe().root)


def checkpoint_record(phase: CheckpointPhase, taken: Checkpoint, root: str) -> EventBuilder:
    """Return the record of a checkpoint."""
    return partial(
        WorkspaceCheckpoint,
        phase=phase,
        checkpoint_id=taken.id,
        root=root,
        files=taken.files,
        not_covered=taken.not_covered,
    )


def _is_known(change: FileChange, recorded: FileChange | None) -> bool:
    """Return whether a tool has recorded the change."""
    if recorded is None or recorded.kind != change.kind:
        return False
    if change.text is not None:
        return change.text.removeprefix("\ufeff") == recorded.text
    if change.digest and recorded.digest:
        return change.digest == recorded.digest
    return True  # only the tool knows the encoding of the text


def _reason(error: Exception) -> str:
    _LOG.warning("a checkpoint failed: %s: %s", type(error).__name__, error)
    return str(error) or type(error).__name__
