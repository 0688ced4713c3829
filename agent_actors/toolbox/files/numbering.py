"""Numbered lines of a text, as models see files. No I/O.

Lines end with a line feed, optionally after a carriage return, so that the numbers are those of
other programs. Only in a text without any line feed do carriage returns end the lines.
"""

from typing import Final

import attrs

MAX_LINE_CHARACTERS: Final = 2_000
"""Longer lines are cut, because minified files would fill a model's context."""


@attrs.frozen
class NumberedLines:
    """A part of a text with line numbers.

    Attributes:
        text: The numbered lines.
        first: The number of the first line.
        last: The number of the last line; `first - 1` if there are no lines.
        total: The number of lines of the complete text.
        cut: The number of lines that were cut because they are too long.
    """

    text: str
    first: int
    last: int
    total: int
    cut: int = 0


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their line breaks.

    A line break at the end of the text does not begin another line.
    """
    separator = "\r" if "\n" not in text else "\n"
    lines = text.split(separator)
    if not lines[-1]:
        lines.pop()
    return lines if separator == "\r" else [line.removesuffix("\r") for line in lines]


def numbered(
    text: str,
    offset: int,
    limit: int,
    *,
    max_characters: int,
    max_line_characters: int = MAX_LINE_CHARACTERS,
) -> NumberedLines:
    """Return lines with their numbers, each as `number`, tab, `line`.

    Args:
        text: The complete text.
        offset: The number of the first line, from 1; 0 also means the first line.
        limit: Maximum number of lines.
        max_characters: Maximum number of characters; at least one line is returned.
        max_line_characters: Longer lines are cut.
    """
    lines = split_lines(text)
    first = max(offset, 1)
    shown: list[str] = []
    size = cut = 0
    for number, line in enumerate(lines[first - 1 : first - 1 + limit], first):
        rest = len(line) - max_line_characters
        end = f"… [{rest} more characters]" if rest > 0 else ""
        entry = f"{number:>6}\t{line[:max_line_characters]}{end}"
        size += len(entry) + 1
        if shown and size > max_characters:
            break
        cut += rest > 0
        shown.append(entry)
    return NumberedLines("\n".join(shown), first, first + len(shown) - 1, len(lines), cut)
