"""Writes and edits files of the workspace, unless another program changed them meanwhile."""

import difflib
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Final, TypeAlias, assert_never

import attrs

from agent_actors.abc.workspace import Workspace
from agent_actors.domain.events import EventBuilder, FileChanged
from agent_actors.domain.json import JsonObject
from agent_actors.domain.workspace.files import FileData, FileInfo
from agent_actors.domain.workspace.report import CallResources
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.calls import compute, workspace_of
from agent_actors.toolbox.failure import ToolFailure
from agent_actors.toolbox.files.decoding import DecodedText, decode_text
from agent_actors.toolbox.files.edits import Edit, Edited, EditMiss, apply_edit
from agent_actors.toolbox.files.nearest import nearest_lines
from agent_actors.toolbox.files.numbering import split_lines
from agent_actors.toolbox.files.reading import MAX_FILE_BYTES, decoded_file
from agent_actors.toolbox.files.session_files import SeenFile, SessionFiles
from agent_actors.tools import ToolContext

RECORDED_BYTES: Final = 256_000
"""Longer contents are recorded by digest and size."""

_DIFF_LINES: Final = 200

# The names of the parameters `old`, `before` and `after` of an edit, for messages.
EditNames: TypeAlias = tuple[str, str, str]


@attrs.frozen
class RecordedContent:
    """The content of a file that is written, prepared before the write.

    The write and its record must not be separated by a checkpoint, where the call could be
    cancelled.

    Attributes:
        text: The text.
        size: Size in bytes.
        digest: The digest, if the content is too long to be recorded; otherwise empty.
    """

    text: str
    size: int
    digest: str = ""

    @classmethod
    async def of(cls, data: bytes, text: str) -> "RecordedContent":
        """Return the content, given as bytes and as text.

        Cancellation: safe.
        """
        if len(data) <= RECORDED_BYTES:
            return cls(text, len(data))
        digest = await compute(len(data), lambda: sha256(data).hexdigest())
        return cls(text, len(data), f"sha256:{digest}")

    def event(self, path: str) -> EventBuilder:
        """Return the record of the change."""
        if self.digest:
            return partial(FileChanged, path=path, content=None, digest=self.digest, size=self.size)
        return partial(FileChanged, path=path, content=self.text)


@attrs.frozen
class FileChanger:
    """Changes files for the sessions of a set of tools.

    Attributes:
        files: The files that the sessions have read.
        max_file_bytes: Maximum size of a file that is edited, in bytes.
    """

    files: SessionFiles
    max_file_bytes: int = MAX_FILE_BYTES

    async def write(
        self, ctx: ToolContext, path: str, content: str, *, overwrite: bool = True
    ) -> JsonObject:
        """Write a text file and return its path and size.

        Raises:
            ToolFailure: The file changed since the session last read it.
            WorkspaceError: The file exists and must not be overwritten, or cannot be written.

        Cancellation: the file has either its old or its new content.
        """
        data = encoded(content)
        recorded = await RecordedContent.of(data, content)
        workspace = workspace_of(ctx)
        async with self.files.lock(ctx.session_id):
            info = await _state(workspace, path) if overwrite else None
            if info is not None and self._has_changed(ctx, info):
                await self.check_unchanged(ctx, await workspace.read(path))
            expected = None if info is None or info.kind != "file" else info.version
            written = await workspace.write(path, data, overwrite=overwrite, expected=expected)
            self.note_written(ctx, written, recorded)
        return {"path": written.path, "bytes_written": len(data)}

    async def edit(self, ctx: ToolContext, path: str, edit: Edit, names: EditNames) -> Edited:
        """Replace text in a file.

        Args:
            ctx: The call.
            path: The file.
            edit: The replacement.
            names: The names of the parameters that contain `old`, `before` and `after`.

        Raises:
            ToolFailure: The replacement is invalid, its texts do not occur in the file, or the file
                is not text or changed since the session last read it.
            WorkspaceError: The file cannot be read or written.

        Cancellation: the file has either its old or its new content.
        """
        _check_edit(edit, names[0])
        workspace = workspace_of(ctx)
        async with self.files.lock(ctx.session_id):
            file = await self.read_for_change(ctx, workspace, path)
            decoded, edited = await compute(len(file.data), partial(_edited, file, edit, names))
            data = encoded(edited.text, decoded, path)
            recorded = await RecordedContent.of(data, edited.text)
            written = await workspace.write(path, data, expected=file.info.version)
            self.note_written(ctx, written, recorded)
        return edited

    async def read_for_change(self, ctx: ToolContext, workspace: Workspace, path: str) -> FileData:
        """Read a complete file that the call will change.

        Raises:
            ToolFailure: The file is too large, or changed since the session last read it.
            WorkspaceError: The file cannot be read.
        """
        file = await workspace.read(path, limit=self.max_file_bytes)
        ctx.used(CallResources(paths=(file.info.path,), bytes_read=len(file.data)))
        if file.truncated:
            raise ToolFailure(
                f"{path} has {file.info.size} bytes; files of at most {self.max_file_bytes} bytes "
                "can be edited"
            )
        await self.check_unchanged(ctx, file)
        return file

    async def check_unchanged(self, ctx: ToolContext, file: FileData) -> None:
        """Raise an error with a diff if a file changed since the session last read it.

        Raises:
            ToolFailure: The file changed.
        """
        seen = self.files.seen(ctx.session_id, file.info.path)
        if seen is None or seen.version == file.info.version:
            return
        diff = await compute(len(file.data), partial(_diff, seen, file))
        raise ToolFailure(
            f"{file.info.path} has changed since you last read it, so it was not written. Read it "
            f"again before you change it. {diff}"
        )

    def note_written(self, ctx: ToolContext, info: FileInfo, content: RecordedContent) -> None:
        """Remember, record and report the new content of a file."""
        self.files.remember(ctx.session_id, info.path, info.version, content.text)
        ctx.record(content.event(info.path))
        ctx.used(CallResources(paths=(info.path,), bytes_written=content.size))

    def _has_changed(self, ctx: ToolContext, info: FileInfo) -> bool:
        seen = self.files.seen(ctx.session_id, info.path)
        return seen is not None and seen.version != info.version


def encoded(text: str, like: DecodedText | None = None, path: str = "") -> bytes:
    """Return a text as bytes, in UTF-8 or in the encoding of a file.

    Raises:
        ToolFailure: A character has no bytes in the encoding.
    """
    form = DecodedText() if like is None else like
    try:
        return form.encode(text)
    except UnicodeEncodeError as error:
        character = ascii(text[error.start])
        if form.encoding == "latin-1":
            raise ToolFailure(
                f"{path} is encoded in latin-1, which has no character {character}; to convert the "
                "file to UTF-8, write it completely"
            ) from None
        raise ToolFailure(
            f"the new text contains {character}, which is half of a surrogate pair and no character"
        ) from None


async def _state(workspace: Workspace, path: str) -> FileInfo | None:
    try:
        return await workspace.stat(path)
    except WorkspaceError as error:
        if error.reason == "not_found":
            return None
        raise


def _check_edit(edit: Edit, old_name: str) -> None:
    if not edit.old:
        raise ToolFailure(f"{old_name} must not be empty; to create a file, write it")
    if edit.old == edit.new:
        raise ToolFailure(f"{old_name} and the new text are the same, so nothing would change")
    if edit.count < 0:
        raise ToolFailure(f"count must be at least 1, or 0 for all occurrences; got {edit.count}")


def _edited(file: FileData, edit: Edit, names: EditNames) -> tuple[DecodedText, Edited]:
    decoded = decoded_file(file)
    outcome = apply_edit(decoded.text, edit)
    if isinstance(outcome, Edited):
        return decoded, outcome
    raise ToolFailure(_miss(outcome, decoded.text, edit, file.info.path, names))


def _miss(miss: EditMiss, text: str, edit: Edit, path: str, names: EditNames) -> str:
    old, before, after = names
    match miss:
        case "old":
            return f"{old} not found in file {path}" + _nearest(text, edit.old)
        case "before":
            return f"{before} not found in file {path}" + _nearest(text, edit.before)
        case "after":
            return f"{after} not found in file {path}" + _nearest(text, edit.after)
        case "order":
            wanted = [
                name for name, anchor in ((before, edit.before), (after, edit.after)) if anchor
            ]
            return (
                f"no occurrence of {old} in file {path} is surrounded by {' and '.join(wanted)}; "
                f"the order must be {before}, {old}, {after}"
            )
        case _:
            assert_never(miss)


def _nearest(text: str, wanted: str) -> str:
    lines, wanted_lines = split_lines(text), split_lines(wanted)
    shown = [
        f"{part.first + by}: {line}"
        for part in nearest_lines(lines, wanted_lines)
        for by, line in enumerate(part.lines)
    ]
    if not shown:
        return "; no line of the file is similar"
    return "; it must match exactly, with all white space. The nearest lines are:\n" + "\n".join(
        shown
    )


def _diff(seen: SeenFile, file: FileData) -> str:
    decoded = decode_text(file.data, complete=not file.truncated)
    if seen.text is None or decoded is None:
        return "The difference cannot be shown."
    lines = difflib.unified_diff(
        split_lines(seen.text),
        split_lines(decoded.text),
        "when you read it",
        "now",
        n=2,
        lineterm="",
    )
    shown = list(islice(lines, _DIFF_LINES + 1))
    if not shown:
        return "Only its line breaks or its encoding are different."
    more = ["[more changes]"] if len(shown) > _DIFF_LINES else []
    return "The changes are:\n" + "\n".join(shown[:_DIFF_LINES] + more)
