"""The application of a patch's hunks to a text. No I/O.

The place of a hunk is the first one after the previous hunk whose lines are equal. If there is
none, differences in white space at the end of lines, then around lines, and then between similar
punctuation characters are ignored. Context lines always stay as they are in the file.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from agent_actors.toolbox.files.edits import usual_line_break
from agent_actors.toolbox.files.nearest import nearest_lines
from agent_actors.toolbox.files.patch_parsing import Hunk, PatchError

# Models replace typographic characters by similar ones.
_SIMILAR: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys(
            "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
    }
)


def _unchanged(line: str) -> str:
    return line


def _punctuation_normalized(line: str) -> str:
    return line.translate(_SIMILAR).strip()


_COMPARISONS: Final[tuple[Callable[[str], str], ...]] = (
    _unchanged,
    str.rstrip,
    str.strip,
    _punctuation_normalized,
)


@attrs.frozen
class Patched:
    """A text after a patch.

    Attributes:
        text: The text.
        inexact: The number of hunks whose lines were found only by ignoring white space or
            punctuation.
    """

    text: str
    inexact: int


def apply_hunks(text: str, hunks: Sequence[Hunk], *, path: str) -> Patched:
    """Apply hunks in order. Line breaks are kept, and new lines have the usual one of the text.

    Args:
        text: The text.
        hunks: The hunks, in the order of the text.
        path: The file, for errors.

    Raises:
        PatchError: The place of a hunk was not found.
    """
    usual = usual_line_break(text)
    lines = _with_breaks(text)
    open_end = bool(lines) and not lines[-1][1]
    plain = [line for line, _ in lines]
    position = inexact = 0
    done: list[tuple[str, str]] = []
    taken = 0
    for hunk in hunks:
        start, length, is_exact = _find(plain, hunk, position, path)
        inexact += not is_exact
        done += lines[taken:start]
        done += _replaced(hunk, lines[start : start + length], usual)
        taken = position = start + length
    done += lines[taken:]
    closed = [(line, ending or usual) for line, ending in done]
    if open_end and closed:
        closed[-1] = (closed[-1][0], "")
    return Patched("".join(line + ending for line, ending in closed), inexact)


def _with_breaks(text: str) -> list[tuple[str, str]]:
    """Return the lines of a text, each with its line break."""
    pattern = r"([^\n]*?)(\r?\n|\Z)" if "\n" in text or "\r" not in text else r"([^\r]*)(\r|\Z)"
    found = [(match[1], match[2]) for match in re.finditer(pattern, text)]
    # The last match is the empty one at the end of the text, unless the text has an open last line.
    return [item for item in found if item != ("", "")]


def _find(lines: Sequence[str], hunk: Hunk, position: int, path: str) -> tuple[int, int, bool]:
    """Return the place of a hunk: its first line, its number of lines, and whether it is exact."""
    is_exact = True
    for anchor in hunk.anchors:
        at, level = _seek(lines, [anchor], position)
        if at is None:
            raise PatchError(
                f"{path}: the line {anchor!r:.120}, which the patch names after '@@' at line "
                f"{hunk.number}, was not found after line {position} of the file"
                + _nearest(lines, [anchor])
            )
        position = at + 1
        is_exact = is_exact and level == 0
    old = [line.text for line in hunk.lines if line.kind != "+"]
    if not old:
        return (position if hunk.anchors and not hunk.at_end else len(lines)), 0, is_exact
    # Models end a hunk with an empty context line for the line break at the end of the file.
    for wanted in (old, old[:-1] if not old[-1] and hunk.lines[-1].kind == " " else []):
        start = max(position, len(lines) - len(wanted)) if hunk.at_end else position
        at, level = _seek(lines, wanted, start) if wanted else (None, 0)
        if at is not None:
            return at, len(wanted), is_exact and level == 0
    where = " at the end of the file" if hunk.at_end else f" after line {position} of the file"
    raise PatchError(
        f"{path}: the lines of the hunk at line {hunk.number} of the patch were not found{where}; "
        "read the file and copy the lines exactly, with the hunks in the order of the file"
        + _nearest(lines, old)
    )


def _seek(lines: Sequence[str], wanted: Sequence[str], start: int) -> tuple[int | None, int]:
    """Return the first place of the wanted lines, and the comparison that found it."""
    for level, form in enumerate(_COMPARISONS):
        formed = [form(line) for line in wanted]
        for at in range(start, len(lines) - len(wanted) + 1):
            if all(form(lines[at + by]) == line for by, line in enumerate(formed)):
                return at, level
    return None, 0


def _replaced(hunk: Hunk, found: Sequence[tuple[str, str]], usual: str) -> list[tuple[str, str]]:
    made: list[tuple[str, str]] = []
    rest = iter(found)
    for line in hunk.lines:
        if line.kind == "+":
            made.append((line.text, usual))
            continue
        current = next(rest, None)
        if current is not None and line.kind == " ":
            made.append(current)
    return made


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    near = nearest_lines(list(lines), list(wanted), count=1)
    shown = [f"{part.first + by}: {line}" for part in near for by, line in enumerate(part.lines)]
    return "\nThe nearest lines are:\n" + "\n".join(shown) if shown else ""
