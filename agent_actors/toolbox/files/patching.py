"""Applies patches to files of the workspace, all or nothing.

All hunks are checked before the first file is written. Each file is then written atomically. If a
write fails, or the call is cancelled, the files that were already written get their old content
back. A crash of the process between two writes leaves the patch half applied.
"""

import logging
from functools import partial
from posixpath import normpath
from typing import Final, assert_never

import attrs
import trio

from agent_actors.abc.workspace import Workspace
from agent_actors.domain.events import FileChanged
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.workspace.files import FileInfo
from agent_actors.domain.workspace.report import CallResources
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.calls import compute, workspace_of
from agent_actors.toolbox.failure import ToolFailure
from agent_actors.toolbox.files.changing import FileChanger, RecordedContent, encoded
from agent_actors.toolbox.files.decoding import DecodedText
from agent_actors.toolbox.files.patch_application import Patched, apply_hunks
from agent_actors.toolbox.files.patch_parsing import (
    AddFile,
    DeleteFile,
    FileChange,
    PatchError,
    UpdateFile,
    parse_patch,
)
from agent_actors.toolbox.files.reading import decoded_file
from agent_actors.tools import ToolContext

_log: Final = logging.getLogger(__name__)

_ROLLBACK_SECONDS: Final = 10.0
"""Maximum duration of a rollback, which a cancellation does not interrupt."""


@attrs.define(eq=False)
class _Planned:
    """A file that a patch changes.

    Attributes:
        path: The path, as the patch has it.
        old: The content before the patch; None if the file does not exist.
        info: The state before the patch.
        form: The encoding.
        exists: True if the file exists after the changes that were planned so far.
        text: The text after these changes; empty if the file is not text.
        fault: The reason why the file cannot be updated; empty if it can.
    """

    path: str
    old: bytes | None = None
    info: FileInfo | None = None
    form: DecodedText = attrs.field(factory=DecodedText)
    exists: bool = False
    text: str = ""
    fault: str = ""


@attrs.frozen
class _Step:
    """A file that is written, or removed.

    Attributes:
        plan: The plan.
        data: The new content; None if the file is removed.
    """

    plan: _Planned
    data: bytes | None


@attrs.frozen
class PatchApplier:
    """Applies patches for the sessions of a set of tools.

    Attributes:
        changer: Reads files, and remembers and records changes.
    """

    changer: FileChanger

    async def apply(self, ctx: ToolContext, patch: str) -> JsonObject:
        """Apply a patch and return the changed files.

        Raises:
            ToolFailure: The patch is malformed or does not match the files. Nothing was changed.
            WorkspaceError: A file cannot be read or written. Nothing was changed, unless the
                message says so.

        Cancellation: no file is changed, unless the workspace does not restore a file in time.
        """
        workspace = workspace_of(ctx)
        try:
            changes = parse_patch(patch)
            async with self.changer.files.lock(ctx.session_id):
                plans, result, inexact = await self._plan(ctx, workspace, changes)
                await self._write(ctx, workspace, plans)
        except PatchError as error:
            raise ToolFailure(f"{error}; no file was changed") from None
        files: list[JsonValue] = list(result)
        return {"files": files, **({"inexact_hunks": inexact} if inexact else {})}

    async def _plan(
        self, ctx: ToolContext, workspace: Workspace, changes: tuple[FileChange, ...]
    ) -> tuple[list[_Planned], list[JsonObject], int]:
        plans: dict[str, _Planned] = {}
        result: list[JsonObject] = []
        inexact = 0
        for change in changes:
            plan = plans.get(normpath(change.path))
            if plan is None:
                plan = await self._current(ctx, workspace, change.path)
                plans[normpath(change.path)] = plan
            match change:
                case AddFile(path, content):
                    _check_absent(plan)
                    plan.exists, plan.text, plan.fault = True, content, ""
                    result.append({"path": path, "change": "added"})
                case DeleteFile(path):
                    _check_present(plan)
                    plan.exists = False
                    result.append({"path": path, "change": "deleted"})
                case UpdateFile(path, hunks, move_to):
                    _check_present(plan)
                    if plan.fault:
                        raise PatchError(plan.fault)
                    work = partial(apply_hunks, plan.text, hunks, path=path)
                    patched: Patched = await compute(len(plan.text), work)
                    inexact += patched.inexact
                    plan.text = patched.text
                    entry: JsonObject = {"path": path, "change": "updated"}
                    if move_to and normpath(move_to) != normpath(path):
                        await self._move(ctx, workspace, plans, plan, move_to)
                        entry = {"path": move_to, "change": "moved", "from": path}
                    result.append(entry)
                case _:
                    assert_never(change)
        return list(plans.values()), result, inexact

    async def _current(self, ctx: ToolContext, workspace: Workspace, path: str) -> _Planned:
        try:
            file = await self.changer.read_for_change(ctx, workspace, path)
        except WorkspaceError as error:
            if error.reason == "not_found":
                return _Planned(path)
            raise
        try:
            form = decoded_file(file)
        except ToolFailure as error:
            return _Planned(path, file.data, file.info, exists=True, fault=str(error))
        return _Planned(path, file.data, file.info, form, exists=True, text=form.text)

    async def _move(
        self,
        ctx: ToolContext,
        workspace: Workspace,
        plans: dict[str, _Planned],
        plan: _Planned,
        move_to: str,
    ) -> None:
        target = plans.get(normpath(move_to))
        if target is None:
            target = await self._current(ctx, workspace, move_to)
            plans[normpath(move_to)] = target
        _check_absent(target)
        target.exists, target.text, target.form, target.fault = True, plan.text, plan.form, ""
        plan.exists = False

    async def _write(self, ctx: ToolContext, workspace: Workspace, plans: list[_Planned]) -> None:
        # New content is written before anything is removed, so that a move loses no file.
        written = [plan for plan in plans if plan.exists]
        removed = [plan for plan in plans if not plan.exists and plan.old is not None]
        contents = [await _prepared(plan) for plan in written]
        begun: list[_Step] = []
        failed: list[str] = []
        infos: list[FileInfo] = []
        try:
            for plan, (data, _) in zip(written, contents, strict=True):
                begun.append(_Step(plan, data))
                expected = None if plan.info is None else plan.info.version
                infos.append(
                    await workspace.write(
                        plan.path, data, overwrite=plan.info is not None, expected=expected
                    )
                )
            for plan in removed:
                begun.append(_Step(plan, None))
                await workspace.remove(plan.path)
        except WorkspaceError as error:
            with trio.move_on_after(_ROLLBACK_SECONDS, shield=True):
                await _roll_back(workspace, begun, failed)
            if failures := _failures(begun, failed):
                raise ToolFailure(f"{error}; {failures}") from error
            raise
        except BaseException:  # the files must be restored whatever happens
            with trio.move_on_after(_ROLLBACK_SECONDS, shield=True):
                await _roll_back(workspace, begun, failed)
            _failures(begun, failed)
            raise
        for info, (_, recorded) in zip(infos, contents, strict=True):
            self.changer.note_written(ctx, info, recorded)
        for plan in removed:
            path = plan.path if plan.info is None else plan.info.path
            self.changer.files.forget(ctx.session_id, path)
            ctx.record(partial(FileChanged, path=path, content=None))
            ctx.used(CallResources(paths=(path,)))


async def _prepared(plan: _Planned) -> tuple[bytes, RecordedContent]:
    data = encoded(plan.text, plan.form, plan.path)
    return data, await RecordedContent.of(data, plan.text)


async def _roll_back(workspace: Workspace, begun: list[_Step], failed: list[str]) -> None:
    """Restore the files that were changed, the last one first.

    Args:
        workspace: The workspace.
        begun: The steps that may have changed a file. Each step that was undone is removed.
        failed: Receives a description of each failure.
    """
    while begun:
        try:
            await _restore(workspace, begun[-1])
        except WorkspaceError as error:
            failed.append(f"{begun[-1].plan.path} could not be restored ({error})")
        begun.pop()


def _failures(begun: list[_Step], failed: list[str]) -> str:
    """Return, and log, the failures of a rollback with the steps that it did not reach in time."""
    late = [f"{step.plan.path} was not restored in time" for step in begun]
    failures = "; ".join([*failed, *late])
    if failures:
        _log.warning("a failed patch could not be undone: %s", failures)
    return failures


async def _restore(workspace: Workspace, step: _Step) -> None:
    """Restore a file, unless the step did not change it.

    Raises:
        WorkspaceError: The file cannot be restored, or another program changed it meanwhile.
    """
    old = step.plan.old
    try:
        current = await workspace.read(step.plan.path)
    except WorkspaceError as error:
        if error.reason != "not_found":
            raise
        if old is not None:
            await workspace.write(step.plan.path, old, overwrite=False)
        return
    if current.data == old:
        return
    if current.data != step.data:
        raise WorkspaceError("another program changed it", reason="changed", path=step.plan.path)
    if old is None:
        await workspace.remove(step.plan.path)
    else:
        await workspace.write(step.plan.path, old, expected=current.info.version)


def _check_absent(plan: _Planned) -> None:
    if plan.exists:
        raise PatchError(f"{plan.path} already exists; update the file instead of adding it")


def _check_present(plan: _Planned) -> None:
    if not plan.exists:
        raise PatchError(f"{plan.path} does not exist")
