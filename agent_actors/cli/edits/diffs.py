"""The difference between two texts, short and safe enough for a terminal. Pure.

A model may replace a huge file, or write control characters. A diff therefore has a maximum number
of lines and characters, and the work to compute it is bounded too.
"""

import difflib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.cli.safe_text import clean, visible
from agent_actors.toolbox.files.numbering import split_lines

LineKind: TypeAlias = Literal["added", "removed", "context", "place"]

# Maximum number of lines shown of one diff; a person still reads as many.
SHOWN_LINES: Final = 60
_LINE_SIZE: Final = 300
_CONTEXT: Final = 2
_SHOWN_PATHS: Final = 5
# Maximum number of changed lines that are matched with each other, which takes about 50 ms. More
# lines are shown as removed and added.
_MATCHED_LINES: Final = 2_000
_SIGNS: Final[dict[LineKind, str]] = {"added": "+", "removed": "-", "context": " ", "place": ""}
_PATCH_SIGNS: Final[dict[str, LineKind]] = {"+": "added", "-": "removed"}


@attrs.frozen
class DiffLine:
    """A line of a diff.

    Attributes:
        kind: `added`, `removed`, unchanged `context`, or the `place` of the lines that follow.
        text: The line with its sign, without unsafe characters.
    """

    kind: LineKind
    text: str


@attrs.frozen
class Diff:
    """The changes of one call.

    Attributes:
        where: The changed files, on one line.
        lines: The lines to show.
        added: The number of added lines.
        removed: The number of removed lines.
        more: The number of lines that are not shown.
    """

    where: str
    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    more: int = 0

    @property
    def summary(self) -> str:
        """The file and the numbers of changed lines, for example `a.py, 2 added, 1 removed`."""
        return f"{self.where}, {self.added:,} added, {self.removed:,} removed"

    @property
    def shown(self) -> tuple[DiffLine, ...]:
        """The lines to show, with a note about the others."""
        if not self.more:
            return self.lines
        lines = "line" if self.more == 1 else "lines"
        return (*self.lines, DiffLine("place", f"... ({self.more:,} more {lines})"))


def text_diff(path: str, old: str | None, new: str) -> Diff:
    """Return the difference between two contents of a file.

    Args:
        path: The file.
        old: The old content; None for a new file.
        new: The new content.
    """
    before, after = split_lines(old or ""), split_lines(new)
    start = _same(zip(before, after, strict=False))
    rest = zip(reversed(before[start:]), reversed(after[start:]), strict=False)
    end = _same(rest)
    changed_before = before[start : len(before) - end]
    changed_after = after[start : len(after) - end]
    if len(changed_before) + len(changed_after) > _MATCHED_LINES:
        lines = _replaced(start, changed_before, changed_after)
    else:
        first = max(0, start - _CONTEXT)
        past = min(end, _CONTEXT)
        lines = _matched(
            first, before[first : len(before) - end + past], after[first : len(after) - end + past]
        )
    head = "new file " if old is None else ""
    return _diff(f"{head}{visible(path)}", lines)


def patch_diff(patch: str, paths: Iterable[str]) -> Diff:
    """Return the changes of a patch in the format of `ApplyPatch`.

    Args:
        patch: The patch.
        paths: The files that it changes.
    """
    files = tuple(dict.fromkeys(paths))
    where = visible(", ".join(files[:_SHOWN_PATHS]))
    if len(files) > _SHOWN_PATHS:
        where += f" and {len(files) - _SHOWN_PATHS} more files"
    return _diff(where, map(_patch_line, split_lines(patch)))


def _same(pairs: Iterable[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _matched(first: int, before: list[str], after: list[str]) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, before, after)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield DiffLine("place", f"@@ line {first + group[0][3] + 1}")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (_line("context", line) for line in before[old_start:old_end])
                continue
            yield from (_line("removed", line) for line in before[old_start:old_end])
            yield from (_line("added", line) for line in after[new_start:new_end])


def _replaced(start: int, before: list[str], after: list[str]) -> Iterator[DiffLine]:
    yield DiffLine("place", f"@@ line {start + 1}")
    yield from (_line("removed", line) for line in before)
    yield from (_line("added", line) for line in after)


def _patch_line(line: str) -> DiffLine:
    if line.startswith(("***", "@@")):
        return DiffLine("place", _short(line))
    return DiffLine(_PATCH_SIGNS.get(line[:1], "context"), _short(line))


def _line(kind: LineKind, text: str) -> DiffLine:
    return DiffLine(kind, f"{_SIGNS[kind]}{_short(text)}")


def _short(line: str) -> str:
    left = len(line) - _LINE_SIZE
    return clean(line[:_LINE_SIZE]) + (f"... ({left:,} characters more)" if left > 0 else "")


def _diff(where: str, lines: Iterable[DiffLine]) -> Diff:
    found = iter(lines)
    shown = tuple(islice(found, SHOWN_LINES))
    counts = dict.fromkeys(_SIGNS, 0)
    more = 0
    for line in shown:
        counts[line.kind] += 1
    for line in found:
        counts[line.kind] += 1
        more += 1
    return Diff(where, shown, counts["added"], counts["removed"], more)
