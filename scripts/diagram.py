"""Diagrams of boxes and arrows as SVG, generated from tables in the code.

The caller defines the positions of boxes and the paths of arrows. The tables define the labels and
which boxes are connected. A picture has its own background and needs no downloaded font, so that it
looks the same on light and dark pages.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Final, TypeAlias

import attrs

Point: TypeAlias = tuple[float, float]

_HALF: Final = (86, 19)
"""Half the width and half the height of a box, in pixels."""
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
        at: The center.
        hexagon: True for a hexagon.
        dot: True for a dot without a name: a start or an end.
    """

    at: Point
    hexagon: bool = False
    dot: bool = False


@attrs.frozen
class Way:
    """The path of an arrow.

    Attributes:
        via: The points between its ends.
        shift: Pixels by which the path is shifted to the right, seen in the direction of the arrow.
            This leaves space for a parallel arrow.
        label: The position of the label. None: next to the center of the longest segment of the
            path.
        anchor: The part of each label line that is at this position: `start`, `middle` or `end`.
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
    """Return the picture.

    Args:
        boxes: The boxes by name.
        arrows: The lines of each arrow's label, by the names of the boxes at its two ends.
        ways: The paths of arrows that are not straight.
        about: A description for readers who cannot see the picture.
        size: The width and height.

    Raises:
        ValueError: An end of an arrow has no box, or a path has no arrow.
    """
    if lost := sorted({name for arrow in arrows for name in arrow} - set(boxes)):
        raise ValueError(f"the picture has no box for {', '.join(lost)}")
    if idle := sorted(" to ".join(ends) for ends in set(ways) - set(arrows)):
        raise ValueError(f"the picture has no arrow for these paths: {', '.join(idle)}")
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
    """Return the point where a line from inside a box crosses its border."""
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
