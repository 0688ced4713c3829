"""The patch format of current coding models, parsed. No I/O.

    *** Begin Patch
    *** Update File: src/app.py
    *** Move to: src/main.py
    @@ class App:
     context line
    -removed line
    +added line
    *** End of File
    *** Add File: notes.txt
    +first line
    *** Delete File: old.txt
    *** End Patch

A hunk is found by its context and removed lines, so it has no line numbers. The text after `@@` is
a line above the hunk, usually the head of a class or function. Models wrap patches in shell
here-documents and code fences, and leave out the blank of empty context lines; both are accepted.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import attrs

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_END_OF_FILE: Final = "*** End of File"
_ADD: Final = "*** Add File:"
_DELETE: Final = "*** Delete File:"
_UPDATE: Final = "*** Update File:"
_MOVE: Final = "*** Move to:"
_SECTION: Final = "*** "
# Lines around a patch that belong to a shell command or to Markdown.
_WRAPPER: Final = re.compile(
    r"\s*(?:(?:apply_patch\s*)?<<-?\s*['\"]?\w+['\"]?|```\w*|['\"]?EOF['\"]?)?\s*"
)
# The header of a hunk in a unified diff. Its line numbers are ignored, because models miscount.
_UNIFIED: Final = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")
_NO_LINE_BREAK: Final = "\\ No newline at end of file"


class PatchError(ValueError):
    """The patch is malformed or does not match a file; the message says where and why."""


@attrs.frozen
class HunkLine:
    """A line of a hunk.

    Attributes:
        kind: A blank for context, `-` for a removed line, `+` for an added one.
        text: The line.
    """

    kind: Literal[" ", "-", "+"]
    text: str


@attrs.frozen
class Hunk:
    """A change at one place of a file.

    Attributes:
        anchors: Lines above the hunk, in order, which narrow the search for its place.
        lines: The lines.
        at_end: True if the hunk is at the end of the file.
        number: The number of the hunk's first line in the patch.
    """

    anchors: tuple[str, ...]
    lines: tuple[HunkLine, ...]
    at_end: bool
    number: int


@attrs.frozen
class AddFile:
    """A new file with its content."""

    path: str
    content: str


@attrs.frozen
class DeleteFile:
    """A file to delete."""

    path: str


@attrs.frozen
class UpdateFile:
    """Changes of a file.

    Attributes:
        path: The file.
        hunks: The changes, in the order of the file.
        move_to: The new path of the file; empty if it stays.
    """

    path: str
    hunks: tuple[Hunk, ...]
    move_to: str = ""


FileChange: TypeAlias = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[FileChange, ...]:
    """Parse a patch.

    Raises:
        PatchError: The patch is malformed.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    reader = _Reader(lines, *_extent(lines))
    changes: list[FileChange] = []
    while (line := reader.next_section()) is not None:
        if line.startswith(_ADD):
            changes.append(AddFile(_path(line, _ADD, reader.at), _added(reader)))
        elif line.startswith(_DELETE):
            changes.append(DeleteFile(_path(line, _DELETE, reader.at)))
        elif line.startswith(_UPDATE):
            changes.append(_updated(_path(line, _UPDATE, reader.at), reader))
        else:
            raise PatchError(
                f"line {reader.at} of the patch is {line!r:.80}; expected '{_ADD} path', "
                f"'{_DELETE} path' or '{_UPDATE} path'"
            )
    if not changes:
        raise PatchError("the patch changes no file")
    return tuple(changes)


def patched_paths(text: str) -> tuple[str, ...]:
    """Return every path that a patch names, in order; also of a patch that is malformed."""
    found = (
        line.strip().removeprefix(marker).strip()
        for line in text.split("\n")
        for marker in (_ADD, _DELETE, _UPDATE, _MOVE)
        if line.strip().startswith(marker)
    )
    return tuple(dict.fromkeys(found))


@attrs.define
class _Reader:
    """The lines between the markers of a patch.

    Attributes:
        at: The number of the line that was read last, from 1.
    """

    _lines: list[str]
    at: int
    _end: int

    def peek(self) -> str | None:
        """Return the next line; None at the end."""
        return self._lines[self.at] if self.at < self._end else None

    def take(self) -> str:
        """Return the next line and skip it."""
        self.at += 1
        return self._lines[self.at - 1]

    def next_section(self) -> str | None:
        """Skip empty lines and take the next one; None at the end."""
        while (line := self.peek()) is not None:
            self.take()
            if line.strip():
                return line.strip()
        return None

    def body(self) -> Iterator[str]:
        """Take the lines up to the next section, without empty lines at their end."""
        end = self.at
        for at in range(self.at, self._end):
            line = self._lines[at]
            if line.startswith(_SECTION) and line.strip() != _END_OF_FILE:
                break
            if line:
                end = at + 1
        while self.at < end:
            yield self.take()


def _extent(lines: list[str]) -> tuple[int, int]:
    """Return the positions after the first marker and of the last marker."""
    stripped = [line.strip() for line in lines]
    if _BEGIN not in stripped:
        raise PatchError(f"the patch must begin with the line '{_BEGIN}'")
    start = stripped.index(_BEGIN)
    if _END not in stripped[start:]:
        raise PatchError(f"the patch must end with the line '{_END}'")
    end = len(stripped) - 1 - stripped[::-1].index(_END)
    for line in (*lines[:start], *lines[end + 1 :]):
        if not _WRAPPER.fullmatch(line):
            raise PatchError(
                f"the line {line!r:.80} is outside the patch; pass only the lines from "
                f"'{_BEGIN}' to '{_END}'"
            )
    return start + 1, end


def _path(line: str, marker: str, number: int) -> str:
    path = line.removeprefix(marker).strip()
    if not path:
        raise PatchError(f"line {number} of the patch has no path after '{marker}'")
    return path


def _added(reader: _Reader) -> str:
    content: list[str] = []
    for line in reader.body():
        if line and not line.startswith("+"):
            raise PatchError(
                f"line {reader.at} of the patch must begin with '+', as every line of an added file"
            )
        content.append(line[1:])
    return "".join(f"{line}\n" for line in content)


def _updated(path: str, reader: _Reader) -> UpdateFile:
    move_to = ""
    following = (reader.peek() or "").strip()
    if following.startswith(_MOVE):
        reader.take()
        move_to = _path(following, _MOVE, reader.at)
    hunks: list[Hunk] = []
    draft = _Draft(reader.at + 1)
    for line in reader.body():
        if line.startswith("@@"):
            if draft.lines:
                hunks.append(draft.hunk(at_end=False))
                draft = _Draft(reader.at)
            anchor = _anchor(line)
            draft.anchors += [anchor] if anchor else []
        elif line.strip() == _END_OF_FILE:
            hunks.append(draft.hunk(at_end=True))
            draft = _Draft(reader.at + 1)
        elif line != _NO_LINE_BREAK:
            draft.lines.append(_hunk_line(line, reader.at))
    if draft.lines or draft.anchors:
        hunks.append(draft.hunk(at_end=False))
    if not hunks and not move_to:
        raise PatchError(f"the patch has no changes for the file {path}")
    return UpdateFile(path, tuple(hunks), move_to)


@attrs.define
class _Draft:
    """A hunk whose lines are still being read."""

    number: int
    anchors: list[str] = attrs.field(factory=list[str], init=False)
    lines: list[HunkLine] = attrs.field(factory=list[HunkLine], init=False)

    def hunk(self, *, at_end: bool) -> Hunk:
        if not self.lines:
            raise PatchError(f"the hunk at line {self.number} of the patch has no lines")
        return Hunk(tuple(self.anchors), tuple(self.lines), at_end, self.number)


def _anchor(line: str) -> str:
    unified = _UNIFIED.fullmatch(line.strip())
    return (unified[1] if unified else line.removeprefix("@@")).strip()


def _hunk_line(line: str, number: int) -> HunkLine:
    match line[:1]:
        case "":
            return HunkLine(" ", "")
        case " " | "-" | "+" as kind:
            return HunkLine(kind, line[1:])
        case _:
            raise PatchError(
                f"line {number} of the patch is {line!r:.80}; it must begin with a blank for "
                "context, '-' for a removed line, '+' for an added line, or '@@'"
            )
