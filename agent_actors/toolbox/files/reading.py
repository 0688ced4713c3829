"""Reads a file of the workspace for a model: as numbered lines, as an image or as a PDF."""

from functools import partial
from typing import Final

import attrs

from agent_actors.domain.blocks import FileBlock, ImageBlock
from agent_actors.domain.media import MAX_MEDIA_BYTES, sniff
from agent_actors.domain.workspace.files import FileData
from agent_actors.domain.workspace.report import CallResources
from agent_actors.toolbox.calls import compute, workspace_of
from agent_actors.toolbox.failure import ToolFailure
from agent_actors.toolbox.files.decoding import DecodedText, binary_type, decode_text
from agent_actors.toolbox.files.numbering import NumberedLines, numbered
from agent_actors.toolbox.files.session_files import SessionFiles
from agent_actors.tools import ToolContext

# The image types that endpoints commonly accept.
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF: Final = "application/pdf"

MAX_FILE_BYTES: Final = MAX_MEDIA_BYTES
"""Default maximum size of a file that is read or edited, in bytes."""

DEFAULT_LINES: Final = 2_000
"""The number of lines that a call reads if it does not say how many."""

_MAX_CHARACTERS: Final = 100_000


@attrs.frozen
class FileReader:
    """Reads files for the sessions of a set of tools.

    Attributes:
        files: The files that the sessions have read.
        max_file_bytes: Maximum number of bytes of a file that are read.
        max_characters: Maximum number of characters of a result.
    """

    files: SessionFiles
    max_file_bytes: int = MAX_FILE_BYTES
    max_characters: int = _MAX_CHARACTERS

    async def read(self, ctx: ToolContext, path: str, offset: int, limit: int) -> object:
        """Return lines of a text file with their numbers, or an image or PDF as a block.

        Args:
            ctx: The call.
            path: The file.
            offset: The number of the first line, from 1.
            limit: Maximum number of lines.

        Raises:
            ToolFailure: An argument is invalid, or the file is neither text, an image nor a PDF.
            WorkspaceError: The file cannot be read.

        Cancellation: safe.
        """
        if offset < 0 or limit < 1:
            raise ToolFailure(
                f"offset must be a line number from 1 and limit at least 1; got offset={offset} "
                f"and limit={limit}"
            )
        file = await workspace_of(ctx).read(path, limit=self.max_file_bytes)
        resources = CallResources(paths=(file.info.path,), bytes_read=len(file.data))
        ctx.used(resources)
        media_type = sniff(file.data)
        if media_type in _IMAGES or media_type == _PDF:
            block = await self._block(file, media_type)
            self.files.remember(ctx.session_id, file.info.path, file.info.version, None)
            return block
        decoded, lines = await compute(
            len(file.data), partial(self._lines, file, offset, limit, path)
        )
        known = None if file.truncated else decoded.text
        self.files.remember(ctx.session_id, file.info.path, file.info.version, known)
        return "\n".join(filter(None, [lines.text, *_notices(file, decoded, lines)]))

    async def _block(self, file: FileData, media_type: str) -> ImageBlock | FileBlock:
        if file.truncated:
            raise ToolFailure(
                f"{file.info.path} is {media_type} with {file.info.size} bytes; at most "
                f"{self.max_file_bytes} bytes can be shown"
            )
        make = (
            partial(ImageBlock.from_bytes, file.data, media_type)
            if media_type in _IMAGES
            else partial(FileBlock.from_bytes, file.data, media_type, name=file.info.path)
        )
        return await compute(len(file.data), make)

    def _lines(
        self, file: FileData, offset: int, limit: int, path: str
    ) -> tuple[DecodedText, NumberedLines]:
        decoded = decoded_file(file)
        lines = numbered(decoded.text, offset, limit, max_characters=self.max_characters)
        if lines.first > max(lines.total, 1):
            raise ToolFailure(
                f"offset {offset} is after the end of {path}, which has {lines.total} lines"
                + (" in the part that can be read" if file.truncated else "")
            )
        return decoded, lines


def decoded_file(file: FileData) -> DecodedText:
    """Return the text of a file.

    Raises:
        ToolFailure: The file is not text.
    """
    decoded = decode_text(file.data, complete=not file.truncated)
    if decoded is None:
        raise ToolFailure(
            f"{file.info.path} is not a text file but {binary_type(file.data)}, with "
            f"{file.info.size} bytes"
        )
    return decoded


def _notices(file: FileData, decoded: DecodedText, lines: NumberedLines) -> list[str]:
    notices: list[str] = []
    if not lines.total:
        notices.append("[The file is empty.]")
    elif lines.last < lines.total:
        notices.append(
            f"[These are lines {lines.first} to {lines.last} of {lines.total}. "
            f"To read more, set offset to {lines.last + 1}.]"
        )
    if lines.cut:
        notices.append(f"[{lines.cut} of these lines are too long and were cut.]")
    if decoded.notice:
        notices.append(f"[The file's encoding is {decoded.notice}.]")
    if file.truncated:
        notices.append(
            f"[The file has {file.info.size} bytes; only the first {len(file.data)} can be read. "
            "Search the file to find text in the rest.]"
        )
    return notices
