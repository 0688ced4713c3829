"""A terminal without a window: converts the output of a program to the text that a user would see.

pyte emulates the terminal. The styled lines are rich objects, which `terminal_picture` draws. Tests
and the captures in the documentation use this module.
"""

from collections.abc import Callable
from typing import Final

import pyte
from rich.style import Style
from rich.text import Text

_DIM: Final = 2
_GREY: Final = 90
# Introduces a color of the palette. The number of that color may equal the code of another style.
_PALETTE: Final = 38


class _Terminal(pyte.Screen):
    """A screen that keeps the lines that scroll off, shows dim text, and answers requests."""

    def __init__(self, width: int, height: int, answer: Callable[[str], object]) -> None:
        super().__init__(width, height)
        self.scrolled: list[str] = []
        self._answer = answer

    def row(self, number: int) -> str:
        """Return the text of a line. The second cell of a wide character is empty."""
        line = self.buffer[number]
        return "".join(line[column].data for column in range(self.columns)).rstrip()

    def index(self) -> None:
        if self.cursor.y == self.lines - 1:
            self.scrolled.append(self.row(0))
        super().index()

    def select_graphic_rendition(self, *codes: int) -> None:
        if _PALETTE not in codes:
            codes = tuple(_GREY if code == _DIM else code for code in codes)
        super().select_graphic_rendition(*codes)

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class Screen:
    """A screen.

    Args:
        width: The number of columns.
        height: The number of lines.
        answer: Called with the replies of the terminal.

    Attributes:
        height: The number of lines.
    """

    def __init__(
        self, width: int, height: int, answer: Callable[[str], object] = lambda _: None
    ) -> None:
        self.height: int = height
        self._terminal = _Terminal(width, height, answer)
        self._stream = pyte.Stream(self._terminal)

    @property
    def text(self) -> str:
        """All lines, including scrolled ones, without trailing blanks."""
        return "\n".join([*self._terminal.scrolled, *self.lines]).rstrip("\n")

    @property
    def lines(self) -> list[str]:
        """The lines that are visible on the screen."""
        return [self._terminal.row(number) for number in range(self.height)]

    @property
    def styled(self) -> list[Text]:
        """The lines that are visible on the screen, with their styles."""
        return [self._styled(number) for number in range(self.height)]

    @property
    def cursor(self) -> tuple[int, int]:
        """The line and column of the cursor, counted from 0."""
        return self._terminal.cursor.y, self._terminal.cursor.x

    def feed(self, written: str) -> None:
        """Process output. A sequence may be split between calls."""
        self._stream.feed(written)

    def _styled(self, number: int) -> Text:
        line = self._terminal.buffer[number]
        text = Text()
        for column in range(self._terminal.columns):
            cell = line[column]
            text.append(
                cell.data, Style(color=_color(cell.fg), bold=cell.bold, italic=cell.italics)
            )
        text.rstrip()
        return text


def _color(name: str) -> str | None:
    """Return rich's name for a color of pyte."""
    if name == "default":
        return None
    if all(digit in "0123456789abcdef" for digit in name):
        return f"#{name}"
    return name.replace("brown", "yellow").replace("bright", "bright_")
