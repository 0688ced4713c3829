"""Boxes and arrows as SVG, for what the documentation draws from tables of the code.

Whoever draws says where the boxes stand and by which way an arrow goes; what leads where, and by
what, comes from the table. A picture has a ground of its own and names no font that has to be
fetched, so that it looks the same on a light page and on a dark one.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Final, TypeAlias

import attrs

Point: TypeAlias = tuple[float, float]

_HALF: Final = (86, 19)
"""Half of a box, across and down, in pixels."""
_SIZE: Final = 13
_LINE: Final = 16
_EDGE: Final = 12
_FONT: Final = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_GROUND: Final = "#fbfbf8"
_INK: Final = "#23282f"
_ARROW: Final = "#59636e"
_FILL: Final = "#e4ebf1"
_HEAD: Final = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    f' orient="auto"><path d="M0 0L8 4L0 8z" fill="{_ARROW}"/></marker>'
)


@attrs.frozen
class Box:
    """A box.

    Attributes:
        at: Its middle.
        hexagon: Whether it is one.
        dot: Whether it is a dot without a name, where all begins or ends.
    """

    at: Point
    hexagon: bool = False
    dot: bool = False


@attrs.frozen
class Way:
    """How an arrow goes.

    Attributes:
        via: The points between its ends.
        shift: Pixels that it stands to the right of the straight way, as it goes, so that another
            may stand beside it.
        label: Where its label is; None: beside the middle of its longest part.
        anchor: Which end of each line of the label stands there: `start`, `middle` or `end`.
    """

    via: tuple[Point, ...] = ()
    shift: float = 0
    label: Point | None = None
    anchor: str = "middle"


def diagram(
    boxes: Mapping[str, Box],
    arrows: Mapping[tuple[str, str], Sequence[str]],
    ways: Mapping[tuple[str, str], Way],
    about: str,
    *,
    size: tuple[int, int],
) -> str:
    """The picture.

    Args:
        boxes: Each box by its name.
        arrows: The lines of the label of each arrow, by the names of its two ends.
        ways: How arrows go that do not go straight.
        about: What it shows, for those who cannot see it.
        size: Its width and its height.

    Raises:
        ValueError: An arrow's end has no box, or a way no arrow.
    """
    if lost := sorted({name for arrow in arrows for name in arrow} - set(boxes)):
        raise ValueError(f"the picture has no place for {', '.join(lost)}")
    if idle := sorted(" to ".join(ends) for ends in set(ways) - set(arrows)):
        raise ValueError(f"nothing goes these ways: {', '.join(idle)}")
    width, height = size
    sides = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    labels: list[str] = []
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {sides}>',
        f"<title>{escape(about)}</title>",
        f"<defs>{_HEAD}</defs>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{_GROUND}"/>',
        f'<g font-family="{_FONT}" font-size="{_SIZE}" fill="{_INK}">',
    ]
    for (start, end), lines in arrows.items():
        way = ways.get((start, end), Way())
        points = _points(boxes[start], boxes[end], way)
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(
            f'<path d="M{path}" fill="none" stroke="{_ARROW}" stroke-width="1.4"'
            f' stroke-linejoin="round" marker-end="url(#head)"/>'
        )
        labels += _label(lines, way, points)
    parts += [_box(name, box) for name, box in boxes.items()]
    return "\n".join([*parts, *labels, "</g>", "</svg>", ""])


def _points(start: Box, end: Box, way: Way) -> list[Point]:
    through = [start.at, *way.via, end.at]
    if way.shift:
        (x1, y1), (x2, y2) = through[0], through[-1]
        length = math.dist(through[0], through[-1])
        right = (-(y2 - y1) / length * way.shift, (x2 - x1) / length * way.shift)
        through = [(x + right[0], y + right[1]) for x, y in through]
    through[0] = _border(start, through[0], through[1])
    through[-1] = _border(end, through[-1], through[-2])
    return through


def _border(box: Box, inside: Point, outside: Point) -> Point:
    """Where a line from inside a box leaves it."""
    half = (7, 7) if box.dot else _HALF
    shares: list[float] = []
    for middle, size, start, end in zip(box.at, half, inside, outside, strict=True):
        if end != start:
            side = middle + math.copysign(size, end - start)
            shares.append((side - start) / (end - start))
    share = min(shares)
    return (
        inside[0] + (outside[0] - inside[0]) * share,
        inside[1] + (outside[1] - inside[1]) * share,
    )


def _label(lines: Sequence[str], way: Way, points: Sequence[Point]) -> Iterator[str]:
    if not any(lines):
        return
    (x, y), anchor = way.label or (0.0, 0.0), way.anchor
    if way.label is None:
        first, second = max(pairwise(points), key=lambda part: math.dist(*part))
        x, y = (first[0] + second[0]) / 2, (first[1] + second[1]) / 2
        if abs(first[0] - second[0]) < abs(first[1] - second[1]):
            x, y, anchor = x + 8, y + 4 - _LINE * (len(lines) - 1) / 2, "start"
        else:
            y -= 7 + _LINE * (len(lines) - 1)
    for number, line in enumerate(lines):
        yield (
            f'<text x="{x:.1f}" y="{y + number * _LINE:.1f}" text-anchor="{anchor}"'
            f' stroke="{_GROUND}" stroke-width="4" paint-order="stroke">{escape(line)}</text>'
        )


def _box(name: str, box: Box) -> str:
    (x, y), (across, down) = box.at, _HALF
    if box.dot:
        return f'<circle cx="{x}" cy="{y}" r="7" fill="{_INK}"/>'
    corners: Iterable[Point]
    if box.hexagon:
        point = across - _EDGE
        corners = (
            *((x - across, y), (x - point, y - down), (x + point, y - down)),
            *((x + across, y), (x + point, y + down), (x - point, y + down)),
        )
    else:
        corners = (
            *((x - across, y - down), (x + across, y - down)),
            *((x + across, y + down), (x - across, y + down)),
        )
    outline = " ".join(f"{across:.0f},{down:.0f}" for across, down in corners)
    return (
        f'<polygon points="{outline}" fill="{_FILL}" stroke="{_ARROW}" stroke-linejoin="round"/>'
        f'<text x="{x}" y="{y + 5}" text-anchor="middle" font-weight="600">{escape(name)}</text>'
    )
