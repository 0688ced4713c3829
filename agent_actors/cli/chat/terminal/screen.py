"""The bottom of a terminal, redrawn without flicker.

Finished output is written once and scrolls away. The live lines are below it. A redraw is a single
write that starts at the first changed line. rich renders objects to lines here but writes nothing
itself, for two reasons: it would erase every line first, and a blocked terminal (Ctrl-S) would
block the complete program.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
from rich.cells import cell_len
from rich.console import Console, RenderableType

from agent_actors.cli.streams import Output

# Escape sequences for styles, which have no width.
_STYLES: Final = re.compile("\x1b\\[[0-9;]*m")
_ERASE_BELOW: Final = "\x1b[J"
_NEW_LINE: Final = "\n"
# rich needs at least this width; a narrower terminal wraps the lines itself.
_LEAST_WIDTH: Final = 8
_USUAL_SIZE: Final = (80, 24)


@attrs.define(eq=False)
class LiveArea:
    """The live lines at the bottom, and the text that changes them. Pure.

    The cursor is always at the end of the last live line, or at the beginning of a line if no lines
    are live.
    """

    _lines: list[str] = attrs.field(factory=list[str], init=False)

    def change(self, finished: Sequence[str], live: Sequence[str], width: int, height: int) -> str:
        """Return the text to write.

        Args:
            finished: Lines to print permanently above the live lines.
            live: The new live lines; only the last ones are shown if they do not fit.
            width: Columns of the terminal.
            height: Lines of the terminal.

        Returns:
            Text with escape sequences; empty if nothing changes.
        """
        live = _fitting(live, width, height - 1)
        new = [*finished, *live]
        old, self._lines = self._lines, list(live)
        same = _same(old, new)
        if live and same == len(new):
            if len(old) == len(new):
                return ""
            same -= 1  # the cursor must end after the last line
        rest = _NEW_LINE.join(new[same:])
        if not live and same < len(new):
            rest += _NEW_LINE
        return _back_to(same, old, width) + rest


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of unchanged lines at the top; finished lines may have been live before."""
    same = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        same += 1
    return same


def _back_to(kept: int, lines: Sequence[str], width: int) -> str:
    """Return the text that moves the cursor from the end to the first line that is not kept."""
    if kept == len(lines):
        return _NEW_LINE if lines else ""
    # If the terminal became narrower, it has wrapped the lines.
    up = sum(_rows(line, width) for line in lines[kept:]) - 1
    return "\r" + (f"\x1b[{up}A" if up else "") + _ERASE_BELOW


def _fitting(lines: Sequence[str], width: int, height: int) -> Sequence[str]:
    """Return the last lines that fit."""
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
    """A terminal to draw on.

    Args:
        console: Renders with the colours of the terminal.
        output: The stream to write to.
        size: Returns the current columns and lines.
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
        """The number of lines of the terminal."""
        return self._size()[1]

    async def draw(
        self, finished: Iterable[RenderableType], live: Iterable[RenderableType] = ()
    ) -> None:
        """Print finished output, and replace the live lines below it.

        Raises:
            OSError: The output was closed.

        Cancellation: at any byte; later output may then appear in the wrong place.
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
    """Return the columns and lines of a terminal; 80 and 24 if it does not report them.

    The environment is not used, because a shell may have set it before the size changed.
    """
    try:
        width, height = os.get_terminal_size(fd)
    except OSError:
        width = height = 0
    return width or _USUAL_SIZE[0], height or _USUAL_SIZE[1]
