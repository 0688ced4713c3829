"""Changes the files of a workspace back to the state in a checkpoint, one entry at a time.

The order is: removals (the deepest first), directories (the highest first), files and symlinks. A
crash leaves each entry either unchanged, removed or restored, and a repeated restoration does the
rest, because it compares the files anew.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import attrs

from agent_actors.abc.workspace import TreeWorkspace, Workspace
from agent_actors.domain.workspace.trees import TreeEntry
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.checkpoints.manifest import Kept
from agent_actors.toolbox.checkpoints.planning import Step

_CHANGED: Final = frozenset({"changed", "exists", "not_empty", "not_a_file", "not_a_directory"})
_REFUSED: Final = frozenset({"protected", "refused"})


@attrs.define(eq=False)
class Restorer:
    """A restoration.

    Attributes:
        workspace: The workspace.
        content: Returns the copied content of a file; None if it is missing.
        conflicts: The files that others changed since they were listed.
        refused: The files that the workspace refuses to change, or whose copy is missing.
        failures: The errors of the other files that could not be restored.
    """

    workspace: Workspace
    content: Callable[[Kept], Awaitable[bytes | None]]
    conflicts: list[str] = attrs.field(factory=list[str])
    refused: list[str] = attrs.field(factory=list[str])
    failures: list[WorkspaceError] = attrs.field(factory=list[WorkspaceError])

    async def run(self, steps: Iterable[Step]) -> None:
        """Carry out the steps. An error with one file does not end the restoration.

        Cancellation: each entry is either unchanged, removed or restored.
        """
        steps = sorted(steps, key=lambda step: step.path)
        for step in reversed(steps):
            if step.removes:
                await self._attempt(step, self._remove)
        failed = {*self.conflicts, *self.refused, *(error.path for error in self.failures)}
        written = [one for one in steps if one.wanted is not None and one.path not in failed]
        for step in sorted(written, key=_is_no_directory):
            await self._attempt(step, self._write)

    async def _attempt(self, step: Step, work: Callable[[Step], Awaitable[None]]) -> None:
        try:
            await work(step)
        except WorkspaceError as error:
            if error.reason in _REFUSED:
                self.refused.append(step.path)
            elif error.reason in _CHANGED:
                self.conflicts.append(step.path)
            else:
                error.path = step.path
                self.failures.append(error)

    async def _remove(self, step: Step) -> None:
        assert step.present is not None
        try:
            await self._discard(step.path, step.present)
        except WorkspaceError as error:
            # A directory that others use is kept.
            is_kept = error.reason == "not_empty" and step.wanted is None
            if error.reason != "not_found" and not is_kept:
                raise

    async def _discard(self, path: str, present: Kept) -> None:
        workspace = self.workspace
        if isinstance(workspace, TreeWorkspace):
            await workspace.discard(path, expected=present.version)
            return
        info = await workspace.stat(path)
        if info.version != present.version:
            raise WorkspaceError("the file has changed", reason="changed", path=path)
        await workspace.remove(path)

    async def _write(self, step: Step) -> None:
        wanted, present = step.wanted, step.present
        assert wanted is not None
        data: bytes | None = b""
        if wanted.kind == "file":
            data = await self.content(wanted)
        if data is None:
            self.refused.append(step.path)
            return
        expected = "" if present is None or step.removes else present.version
        workspace = self.workspace
        if isinstance(workspace, TreeWorkspace):
            entry = TreeEntry(
                path=step.path, kind=wanted.kind, mode=wanted.mode, target=wanted.target
            )
            await workspace.put(entry, data, expected=expected)
        else:
            overwrite = bool(expected)
            await workspace.write(step.path, data, overwrite=overwrite, expected=expected or None)


def _is_no_directory(step: Step) -> bool:
    return step.wanted is not None and step.wanted.kind != "directory"
