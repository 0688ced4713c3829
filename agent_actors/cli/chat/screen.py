"""The bottom of a terminal, drawn anew without flicker.

What is finished is written once and scrolls away. Below it stands what is live: of it only the
lines are written again that differ from those that stand there, and those after them, in one piece.
rich turns things into lines here and writes nothing itself: it would wipe every line first, and a
terminal that is held up (Ctrl-S) would hold up the whole program.
"""

import re
from collections.abc import Iterable, Sequence
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
        same = 0
        if not finished:
            for old, new in zip(self._lines, live, strict=False):
                if old != new:
                    break
                same += 1
            if same == len(self._lines) == len(live):
                return ""
            # The cursor has to end up behind the last line: that one is written again.
            same -= same == len(live) != 0
        out = self._back_to(same, width)
        out += "".join(line + _NEW_LINE for line in finished)
        out += _NEW_LINE.join(live[same:])
        self._lines = list(live)
        return out

    def _back_to(self, kept: int, width: int) -> str:
        # To the beginning of the first line that changes; below it all is erased.
        old = self._lines
        if not old:
            return ""
        if kept == len(old):
            return _NEW_LINE
        # A terminal that became narrower has folded the lines.
        up = sum(_rows(line, width) for line in old[kept:]) - 1
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
        console: Knows its width and its colours.
        output: Where to write.
    """

    def __init__(self, console: Console, output: Output) -> None:
        self._console = console
        self._output = output
        self._live = LiveArea()

    @property
    def height(self) -> int:
        """How many lines it has."""
        return self._console.size.height

    async def draw(
        self, finished: Iterable[RenderableType], live: Iterable[RenderableType] = ()
    ) -> None:
        """Print what is finished, and below it what is live in place of what was.

        Raises:
            OSError: Nobody reads any more.

        Cancellation: at any byte; what follows may then stand in the wrong place.
        """
        width, height = self._console.size
        text = self._live.change(self._lines(finished), self._lines(live), width, height)
        if text:
            await self._output.write_bytes(text.encode(self._output.encoding, "replace"))

    def _lines(self, shown: Iterable[RenderableType]) -> list[str]:
        lines: list[str] = []
        width = max(self._console.size.width, _LEAST_WIDTH)
        for one in shown:
            with self._console.capture() as capture:
                self._console.print(one, width=width)
            lines += capture.get().removesuffix("\n").split("\n")
        return lines
