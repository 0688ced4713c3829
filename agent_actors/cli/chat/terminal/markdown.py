"""How much of a Markdown text that still grows will not change any more. Pure.

Markdown is made of blocks: paragraphs, lists, fences, tables. Only the last one of a text can
change by what follows it, so that the others are shown once, and for good. The one exception, a
link that is defined further down, is shown as it was written.

Only whole lines are looked at: `#` on a line of its own closes the paragraph before it, and
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
    """How many characters of a text are of blocks that cannot change any more.

    Args:
        text: The text so far.
    """
    starts = _starts(text[: text.rfind("\n") + 1])
    return starts[-1] if starts else 0


def blocks(text: str) -> list[str]:
    """A text in its blocks, as they are now; together they are the text."""
    bounds = [0, *_starts(text)[1:], len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def _starts(text: str) -> list[int]:
    """Where the blocks of a text begin."""
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

    The targets of links are written out, so that they can be seen.
    """

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Its lines."""
        block = Markdown(self.text, code_theme=_CODE_THEME, hyperlinks=False)
        lines = console.render_lines(block, options, pad=False)
        kept = [index for index, line in enumerate(lines) if any(s.text.strip() for s in line)]
        for line in lines[kept[0] : kept[-1] + 1] if kept else []:
            yield from line
            yield Segment.line()


def shortened(text: str, lines: int) -> str:
    """A block that is not whole, without what of it is above the screen.

    Of a fence of code only the last lines are kept: a long one would be coloured from its beginning
    with every piece that comes. Other blocks are returned as they are.
    """
    if not text.startswith(_FENCES):
        return text
    opening, _, code = text.partition("\n")
    kept = code.rsplit("\n", lines)
    return text if len(kept) <= lines else "\n".join((opening, *kept[1:]))
