"""The changes of calls that write files, computed before the calls run.

A hook computes the diff of each such call from its arguments and the current file. The display
shows the diff when the call needs approval, or else when the call has ended. The file is read
through a read-only workspace of its own, with the same confinement as the tools.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import attrs
import trio

from agent_actors.cli.edits.diffs import Diff, patch_diff, text_diff
from agent_actors.domain.events import ToolResult
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.run import Question
from agent_actors.errors import WorkspaceError
from agent_actors.hooks import Hooks, PreToolUseEvent
from agent_actors.toolbox.files.decoding import decode_text
from agent_actors.toolbox.files.edits import Edit, Edited, apply_edit
from agent_actors.toolbox.files.patch_parsing import patched_paths

if TYPE_CHECKING:
    from types import TracebackType

    from agent_actors.toolbox.workspace import LocalWorkspace

# The ids of a session and of a call, which is unique only in its session.
_Key: TypeAlias = tuple[str, str]
# Files and texts with more bytes are written without a diff.
_MAX_BYTES: Final = 1_000_000


@attrs.define(eq=False)
class EditPreviews:
    """The diffs of the calls that have not ended.

    Args:
        root: The root of the workspace; None if the tools have no workspace, so that there are no
            diffs.
    """

    root: Path | None
    _diffs: dict[_Key, Diff] = attrs.field(factory=dict[_Key, Diff], init=False)
    _shown: set[_Key] = attrs.field(factory=set[_Key], init=False)
    _files: "LocalWorkspace | None" = attrs.field(default=None, init=False)

    async def __aenter__(self) -> Self:
        if self.root is not None:
            # Imported here, because most commands need no workspace.
            from agent_actors.toolbox.workspace import LocalWorkspace  # noqa: PLC0415

            self._files = LocalWorkspace(self.root, read_only=True)
        return self

    async def __aexit__(
        self,
        exc_type: "type[BaseException] | None",
        exc: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        if self._files is not None:
            with trio.CancelScope(shield=True):
                await self._files.aclose()

    @property
    def hooks(self) -> Hooks:
        """The hook that computes the diffs; none without a workspace."""
        return () if self.root is None else {"before_tool": self.before_tool}

    async def before_tool(self, event: PreToolUseEvent) -> None:
        """Compute the diff of a call; a hook.

        Cancellation: safe.
        """
        if event.nested:
            return  # the display does not show the results of nested runs
        diff = await self._diff_of(event.tool_name, event.tool_input)
        if diff is not None:
            self._diffs[event.session_id, event.tool_use_id] = diff

    def ask(self, question: Question) -> Diff | None:
        """Return the diff to show with the question about a call; None if it has none."""
        key = (question.session_id, question.tool_use_id)
        diff = self._diffs.get(key)
        if diff is not None:
            self._shown.add(key)
        return diff

    def end(self, result: ToolResult) -> Diff | None:
        """Return the diff to show after a call has ended, and forget it.

        Args:
            result: The result of the call. If it is an error, nothing was written.

        Returns:
            The diff, without lines if the question showed them; None if the call has none.
        """
        key = (result.session_id, result.tool_use_id)
        diff = self._diffs.pop(key, None)
        if key in self._shown:
            self._shown.remove(key)
            diff = None if diff is None else attrs.evolve(diff, lines=(), more=0)
        return None if result.is_error else diff

    async def _diff_of(self, name: str, arguments: JsonObject) -> Diff | None:
        match name, arguments:
            case "ApplyPatch", {"patch": str(patch)} if len(patch) <= _MAX_BYTES:
                return patch_diff(patch, patched_paths(patch))
            case ("Write", {"file_path": str(path), "content": str(new)}) | (
                "write_file",
                {"path": str(path), "content": str(new)},
            ) if len(new) <= _MAX_BYTES:
                return await self._changed(path, lambda _: new, may_be_new=True)
            case "Edit", {"file_path": str(path), "old": str(), "new": str()}:
                return await self._changed(path, _edit_of(arguments))
            case "edit_file", {"path": str(path), "old_text": str(old), "new_text": str(new)}:
                return await self._changed(path, _edit_of({"old": old, "new": new}))
            case _:
                return None

    async def _changed(
        self, path: str, change: Callable[[str], str | None], *, may_be_new: bool = False
    ) -> Diff | None:
        if self._files is None:
            return None
        old: str | None = None
        try:
            file = await self._files.read(path, limit=_MAX_BYTES)
        except WorkspaceError as error:
            if error.reason != "not_found" or not may_be_new:
                return None
        else:
            decoded = None if file.truncated else decode_text(file.data)
            if decoded is None:
                return None
            old = decoded.text

        def work() -> Diff | None:
            new = change(old or "")
            return None if new is None else text_diff(path, old, new)

        return await trio.to_thread.run_sync(work)


def _edit_of(arguments: Mapping[str, JsonValue]) -> Callable[[str], str | None]:
    """Return a function that applies an edit, and returns None if its text does not occur."""
    texts = {name: arguments.get(name, "") for name in ("old", "new", "before", "after")}
    count = arguments.get("count", 1)
    edit = Edit(
        **{name: text if isinstance(text, str) else "" for name, text in texts.items()},
        count=count if isinstance(count, int) else 1,
    )

    def change(text: str) -> str | None:
        if not edit.old or edit.count < 0:
            return None
        outcome = apply_edit(text, edit)
        return outcome.text if isinstance(outcome, Edited) else None

    return change
