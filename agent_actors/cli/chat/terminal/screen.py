"""The bottom of a terminal, drawn anew without flicker.

What is finished is written once and scrolls away. Below it stands what is live: of it only the
lines are written again that differ from those that stand there, and those after them, in one piece.
rich turns things into lines here and writes nothing itself: it would wipe every line first, and a
terminal that is held up (Ctrl-S) would hold up the whole program.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
from rich.cells import cell_len
from rich.console import Console, RenderableType

from agent_actors.cli.streams import Output

# Colours and the like, which take no room.
_STYLES: Final = re.compile("\x1b\\[[0-9;]*m")
_ERASE_BELOW: Final = "\x1b[J"
_NEW_LINE: Final = "\n"
# rich draws nothing sensible in less; such a terminal folds the lines itself.
_LEAST_WIDTH: Final = 8
_USUAL_SIZE: Final = (80, 24)


@attrs.define(eq=False)
class LiveArea:
    """What stands at the bottom, and what to write to change it. Pure.

    The cursor is always where it was left: behind the last live line, or at the beginning of a line
    where nothing is live.
    """

    _lines: list[str] = attrs.field(factory=list[str], init=False)

    def change(self, finished: Sequence[str], live: Sequence[str], width: int, height: int) -> str:
        """What to write.

        Args:
            finished: Lines that go above what is live, for good.
            live: The lines that are live from here on; the last ones, if they are too many.
            width: Columns of the terminal.
            height: Its lines.

        Returns:
            Text with its escapes; empty if nothing changes.
        """
        live = _fitting(live, width, height - 1)
        new = [*finished, *live]
        old, self._lines = self._lines, list(live)
        same = _same(old, new)
        if live and same == len(new):
            if len(old) == len(new):
                return ""
            same -= 1  # the cursor has to end up behind the last line
        rest = _NEW_LINE.join(new[same:])
        if not live and same < len(new):
            rest += _NEW_LINE
        return _back_to(same, old, width) + rest


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines stay as they are; what is finished now may have been live as it is."""
    same = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        same += 1
    return same


def _back_to(kept: int, lines: Sequence[str], width: int) -> str:
    """What leads from behind the last line to the beginning of the first that is not kept."""
    if kept == len(lines):
        return _NEW_LINE if lines else ""
    # A terminal that became narrower has folded the lines.
    up = sum(_rows(line, width) for line in lines[kept:]) - 1
    return "\r" + (f"\x1b[{up}A" if up else "") + _ERASE_BELOW


def _fitting(lines: Sequence[str], width: int, height: int) -> Sequence[str]:
    """The last lines that fit."""
    rows = 0
    for index in range(len(lines) - 1, -1, -1):
        rows += _rows(lines[index], width)
        if rows > height:
            return lines[index + 1 :]
    return lines


def _rows(line: str, width: int) -> int:
    cells = cell_len(_STYLES.sub("", line))
    return max(1, -(-cells // max(width, 1)))


class Screen:
    """A terminal.

    Args:
        console: Knows its colours.
        output: Where to write.
        size: Its columns and lines, as they are now.
    """

    def __init__(
        self, console: Console, output: Output, size: Callable[[], tuple[int, int]]
    ) -> None:
        self._console = console
        self._output = output
        self._size = size
        self._live = LiveArea()

    @property
    def height(self) -> int:
        """How many lines it has."""
        return self._size()[1]

    async def draw(
        self, finished: Iterable[RenderableType], live: Iterable[RenderableType] = ()
    ) -> None:
        """Print what is finished, and below it what is live in place of what was.

        Raises:
            OSError: Nobody reads any more.

        Cancellation: at any byte; what follows may then stand in the wrong place.
        """
        width, height = self._size()
        text = self._live.change(
            self._lines(finished, width), self._lines(live, width), width, height
        )
        if text:
            await self._output.write_bytes(text.encode(self._output.encoding, "replace"))

    def _lines(self, shown: Iterable[RenderableType], width: int) -> list[str]:
        lines: list[str] = []
        for one in shown:
            with self._console.capture() as capture:
                self._console.print(one, width=max(width, _LEAST_WIDTH))
            lines += capture.get().removesuffix("\n").split("\n")
        return lines


def terminal_size(fd: int) -> tuple[int, int]:
    """The columns and lines of a terminal; of one that does not know, 80 and 24.

    Not from the environment, where a shell may have left what was true when the program began.
    """
    try:
        width, height = os.get_terminal_size(fd)
    except OSError:
        width = height = 0
    return width or _USUAL_SIZE[0], height or _USUAL_SIZE[1]
