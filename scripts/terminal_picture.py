"""Pictures of terminal screens as SVG that look the same everywhere.

The input is the cells of a `Screen`. A picture does not need a downloaded font, and its lines have
the same width in every font. Box-drawing characters are drawn as lines, so that they connect. A
character that is not in the table is written as text.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Final

import attrs

from scripts.screen import Cell

# Pixels. The size of a cell in common fonts.
_SIZE: Final = 14
_ACROSS: Final = 8.4
_DOWN: Final = 18
_EDGE: Final = 16
_GROUND: Final = "#1b1f27"
_INK: Final = "#d7dae0"
_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_COLOURS: Final = (
    *("#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0"),
    *("#7f848e", "#ef8891", "#b3d39c", "#efd19a", "#8ac6f7", "#d79bea", "#7fccd6", "#ffffff"),
)
"""The sixteen named colors of a terminal."""
_LIGHT: Final = 1.2
_HEAVY: Final = 2.6

# Lines to the left, up, right and down. 0: none; 1: light; 2: heavy.
_LINES: Final = {
    "─": "1010", "│": "0101", "┌": "0011", "┐": "1001", "└": "0110", "┘": "1100",
    "├": "0111", "┤": "1101", "┬": "1011", "┴": "1110", "┼": "1111",
    "━": "2020", "┃": "0202", "┏": "0022", "┓": "2002", "┗": "0220", "┛": "2200",
    "┳": "2022", "╇": "2221", "┡": "0221", "┩": "2201", "╸": "2000", "╺": "0020",
}  # fmt: skip
_WAYS: Final = ((-0.5, 0.0), (0.0, -0.5), (0.5, 0.0), (0.0, 0.5))


@attrs.frozen
class Pen:
    """The style of a character.

    Attributes:
        colour: The color in SVG syntax.
        bold: True for bold text.
        italic: True for italic text.
        dim: True for dim text.
    """

    colour: str = _INK
    bold: bool = False
    italic: bool = False
    dim: bool = False


def pen_of(told: str) -> Pen:
    """Parse a style sequence such as `1;38;5;197`. Unknown codes are ignored."""
    numbers = [int(number) for number in told.split(";") if number]
    pen = Pen()
    while numbers:
        match numbers.pop(0):
            case 1:
                pen = attrs.evolve(pen, bold=True)
            case 2:
                pen = attrs.evolve(pen, dim=True)
            case 3:
                pen = attrs.evolve(pen, italic=True)
            case 38 if numbers[:1] == [5] and len(numbers) > 1:
                pen = attrs.evolve(pen, colour=_of_256(numbers[1]))
                del numbers[:2]
            case number if 30 <= number < 38:
                pen = attrs.evolve(pen, colour=_COLOURS[number - 30])
            case number if 90 <= number < 98:
                pen = attrs.evolve(pen, colour=_COLOURS[number - 82])
            case _:
                pass
    return pen


def picture(rows: Sequence[Sequence[Cell]], about: str) -> str:
    """Return a picture of these lines.

    Args:
        rows: The cells of each line, from the top.
        about: A description for readers who cannot see the picture.
    """
    width = round(max(map(len, rows)) * _ACROSS) + 2 * _EDGE
    height = len(rows) * _DOWN + 2 * _EDGE
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
        f"<title>{escape(about)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{_GROUND}"/>',
        f'<g font-family="{_FONT}" font-size="{_SIZE}">',
    ]
    for number, row in enumerate(rows):
        parts += _row(row, _EDGE + number * _DOWN)
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _row(row: Sequence[Cell], top: float) -> Iterator[str]:
    column = 0
    for (told, is_line), group in groupby(row, key=lambda cell: (cell[1], cell[0] in _LINES)):
        texts = [text for text, _ in group]
        pen, left = pen_of(told), _EDGE + column * _ACROSS
        column += len(texts)
        if is_line:
            yield from _drawn(texts, pen, left, top)
        elif shown := "".join(texts).rstrip():
            # Skip leading blanks, because `textLength` applies to the visible text.
            before = len(shown) - len(shown.lstrip())
            yield _written(shown.lstrip(), pen, left + before * _ACROSS, top, len(texts) - before)


def _written(text: str, pen: Pen, left: float, top: float, places: int) -> str:
    look = f' fill="{pen.colour}"'
    look += ' font-weight="bold"' if pen.bold else ""
    look += ' font-style="italic"' if pen.italic else ""
    look += ' opacity="0.6"' if pen.dim else ""
    length = min(len(text), places) * _ACROSS
    # SVG collapses ordinary spaces.
    text = text.replace(" ", "\xa0")
    return (
        f'<text x="{left:.1f}" y="{top + _SIZE - 1:.1f}" textLength="{length:.1f}"'
        f' lengthAdjust="spacingAndGlyphs"{look}>{escape(text, quote=False)}</text>'
    )


def _drawn(texts: Sequence[str], pen: Pen, left: float, top: float) -> Iterator[str]:
    """Yield one path per line weight."""
    for weight, stroke in (("1", _LIGHT), ("2", _HEAVY)):
        path = ""
        for number, text in enumerate(texts):
            x, y = left + (number + 0.5) * _ACROSS, top + _DOWN / 2
            for told, (across, down) in zip(_LINES[text], _WAYS, strict=True):
                if told == weight:
                    to = f"{x + across * _ACROSS:.1f} {y + down * _DOWN:.1f}"
                    path += f"M{x:.1f} {y:.1f}L{to}"
        if path:
            yield (
                f'<path d="{path}" stroke="{pen.colour}" stroke-width="{stroke}"'
                f' fill="none" stroke-linecap="square" shape-rendering="crispEdges"/>'
            )


def _of_256(number: int) -> str:
    """Return a color of the 256-color palette."""
    if number < 16:
        return _COLOURS[number]
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    steps = (0, 95, 135, 175, 215, 255)
    red, green, blue = (number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6
    return f"#{steps[red]:02x}{steps[green]:02x}{steps[blue]:02x}"
