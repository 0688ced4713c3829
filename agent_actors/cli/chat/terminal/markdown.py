"""Finds the part of a growing Markdown text that can no longer change. Pure.

Markdown consists of blocks: paragraphs, lists, fences, tables. Text that follows can change only
the last block, so all other blocks can be printed permanently. The only exception is a link whose
target is defined further down; such a link is displayed as it was written.

Only complete lines are considered: a line with only `#` closes the paragraph before it, but
`#hashtag` does not.
"""

from itertools import pairwise
from typing import Final

import attrs
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment

# The terminal's own colours, on its own background.
_CODE_THEME: Final = "ansi_dark"
_FENCES: Final = ("```", "~~~")


def finished_size(text: str) -> int:
    """Return the number of characters in blocks that can no longer change.

    Args:
        text: The text so far.
    """
    starts = _starts(text[: text.rfind("\n") + 1])
    return starts[-1] if starts else 0


def blocks(text: str) -> list[str]:
    """Split a text into its current blocks; concatenated, the blocks are the text."""
    bounds = [0, *_starts(text)[1:], len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def _starts(text: str) -> list[int]:
    """Return the positions where the blocks of a text begin."""
    if not text.strip():
        return []
    lines = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    found: list[int] = []
    at = number = 0
    for line in lines:
        while number < line:
            at = text.index("\n", at) + 1
            number += 1
        found.append(at)
    return found


@attrs.frozen(eq=False)
class Block:
    """A Markdown text to print, without empty lines around it.

    The targets of links are printed, so that the user can see them.
    """

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments of its lines."""
        block = Markdown(self.text, code_theme=_CODE_THEME, hyperlinks=False)
        lines = console.render_lines(block, options, pad=False)
        kept = [index for index, line in enumerate(lines) if any(s.text.strip() for s in line)]
        for line in lines[kept[0] : kept[-1] + 1] if kept else []:
            yield from line
            yield Segment.line()


def shortened(text: str, lines: int) -> str:
    """Return an unfinished block without the part that is above the screen.

    Only the last lines of a code fence are kept: otherwise the complete code would be highlighted
    again with every delta. Other blocks are returned unchanged.
    """
    if not text.startswith(_FENCES):
        return text
    opening, _, code = text.partition("\n")
    kept = code.rsplit("\n", lines)
    return text if len(kept) <= lines else "\n".join((opening, *kept[1:]))
