"""A terminal without a window: converts the output of a program to the text that a user would see.

It supports the output of chats and line editors: text of any width, cursor movements, erasing, and
requests for the cursor position, which it answers as terminals do. The style of each character is
stored as its pen, which `terminal_picture` reads. Used by tests and for captures in the
documentation.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
from rich.cells import cell_len

# Escape sequences: CSI with its arguments and final letter, OSC, and two-character sequences.
_ESCAPE: Final = re.compile(
    "\x1b(?:\\[([?>=]?)([0-9;]*)([A-Za-z])|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|([^\\[\\]]))"
)
_UNFINISHED: Final = re.compile("\x1b(?:\\[[?>=]?[0-9;]*|\\][^\x07\x1b]*\x1b?)?$")

Cell: TypeAlias = tuple[str, str]
"""A character and its pen: the codes for its color and weight, for example `1;31`."""
_PLAIN: Final = 0


@attrs.define(eq=False)
class Screen:
    """A screen.

    Args:
        width: The number of columns.
        height: The number of lines.
        answer: Called with the replies of the terminal.

    Attributes:
        scrolled: The lines that have scrolled off the top of the screen.
    """

    width: int
    height: int
    answer: Callable[[str], object] = attrs.field(default=lambda _: None)
    scrolled: list[str] = attrs.field(factory=list[str], init=False)
    _cells: list[list[Cell]] = attrs.field(init=False)
    _pen: str = attrs.field(default="", init=False)
    _row: int = attrs.field(default=0, init=False)
    _column: int = attrs.field(default=0, init=False)
    _rest: str = attrs.field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self._cells = [self._blank() for _ in range(self.height)]

    @property
    def text(self) -> str:
        """All lines, including scrolled ones, without trailing blanks."""
        return "\n".join([*self.scrolled, *map(_line, self._cells)]).rstrip("\n")

    @property
    def lines(self) -> list[str]:
        """The lines on the screen."""
        return [_line(row) for row in self._cells]

    @property
    def cells(self) -> list[list[Cell]]:
        """The cells of the lines on the screen. The second cell of a wide character is empty."""
        return [list(row) for row in self._cells]

    @property
    def cursor(self) -> tuple[int, int]:
        """The line and column of the cursor, from 0."""
        return self._row, self._column

    def feed(self, written: str) -> None:
        """Process output. A sequence may be split between calls."""
        text = self._rest + written
        self._rest = ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._show(text[at])
                at += 1
                continue
            found = _ESCAPE.match(text, at)
            if found is None:
                if _UNFINISHED.match(text, at):
                    self._rest = text[at:]
                    return
                at += 1
                continue
            if found[3]:
                self._obey(found[1], [int(n or 0) for n in found[2].split(";")], found[3])
            at = found.end()

    def _show(self, character: str) -> None:
        match character:
            case "\r":
                self._column = 0
            case "\n":
                self._line_feed()
            case "\b":
                self._column = max(0, self._column - 1)
            case _ if character < " ":
                pass
            case _:
                self._put(character)

    def _put(self, character: str) -> None:
        size = cell_len(character)
        if size == 0:
            if self._column:
                text, pen = self._cells[self._row][self._column - 1]
                self._cells[self._row][self._column - 1] = text + character, pen
            return
        if self._column + size > self.width:
            self._column = 0
            self._line_feed()
        row = self._cells[self._row]
        row[self._column] = character, self._pen
        # The second cell of a wide character.
        row[self._column + 1 : self._column + size] = [("", self._pen)] * (size - 1)
        self._column += size

    def _line_feed(self) -> None:
        if self._row < self.height - 1:
            self._row += 1
            return
        self.scrolled.append(_line(self._cells.pop(0)))
        self._cells.append(self._blank())

    def _obey(self, private: str, numbers: list[int], letter: str) -> None:
        count = max(numbers[0], 1)
        match letter:
            case _ if private:
                pass
            case "A":
                self._row = max(0, self._row - count)
            case "B":
                self._row = min(self.height - 1, self._row + count)
            case "C":
                self._column = min(self.width - 1, self._column + count)
            case "D":
                self._column = max(0, min(self._column, self.width - 1) - count)
            case "G":
                self._column = count - 1
            case "H":
                second = numbers[1] if len(numbers) > 1 else 1
                self._row, self._column = count - 1, max(second, 1) - 1
            case "J":
                self._erase_below(numbers[0])
            case "K":
                self._erase_line(numbers[0])
            case "m":
                self._take_pen(numbers)
            case "n":
                column = min(self._column, self.width - 1)
                self.answer(f"\x1b[{self._row + 1};{column + 1}R")
            case _:
                pass

    def _take_pen(self, numbers: list[int]) -> None:
        for number in numbers:
            self._pen = "" if number == _PLAIN else f"{self._pen};{number}".removeprefix(";")

    def _erase_below(self, how: int) -> None:
        if how == 0:
            self._erase_line(0)
            first = self._row + 1
        else:
            first = 0
        for row in range(first, self.height):
            self._cells[row] = self._blank()

    def _erase_line(self, how: int) -> None:
        row = self._cells[self._row]
        # After a character in the last column, the cursor is still there: erase that character.
        start = 0 if how else min(self._column, self.width - 1)
        end = self._column + 1 if how == 1 else self.width
        row[start:end] = [(" ", "")] * (end - start)

    def _blank(self) -> list[Cell]:
        return [(" ", "")] * self.width


def _line(row: list[Cell]) -> str:
    return "".join(text for text, _ in row).rstrip()
