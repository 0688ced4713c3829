"""Each diagram shows all entries of its table, and is redrawn when the table changes."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from agent_actors.hooks.phases import PHASES
from agent_actors.protocol.turn import TABLE, State
from scripts import docs_phases, docs_turn
from scripts.diagram import Box, Way, diagram
from scripts.generated import write_or_compare

SVG = "{http://www.w3.org/2000/svg}"
BOXES = {"a": Box((100, 50)), "b": Box((400, 50)), "c": Box((400, 250), hexagon=True)}


def drawn(
    arrows: dict[tuple[str, str], list[str]], ways: dict[tuple[str, str], Way] | None = None
) -> ET.Element:
    return ET.fromstring(diagram(BOXES, arrows, ways or {}, "a & b", size=(500, 300)))


def ways_of(root: ET.Element) -> list[list[tuple[float, float]]]:
    """Return the points of each arrow."""
    paths = [one.attrib["d"] for one in root.iter(f"{SVG}path") if "marker-end" in one.attrib]
    return [
        [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)] for path in paths
    ]


def texts_of(root: ET.Element) -> list[str | None]:
    return [one.text for one in root.iter(f"{SVG}text")]


def test_an_arrow_goes_from_border_to_border() -> None:
    root = drawn({("a", "b"): ["by <this>", "or that"], ("b", "c"): [""]})
    assert ways_of(root) == [[(186, 50), (314, 50)], [(400, 69), (400, 231)]]
    assert texts_of(root) == ["a", "b", "c", "by <this>", "or that"]
    assert root.findtext(f"{SVG}title") == "a & b"


def test_opposite_arrows_are_drawn_in_parallel() -> None:
    there, back = Way(shift=10), Way(shift=10, via=(), label=(3, 4), anchor="end")
    ways = {("a", "b"): there, ("b", "a"): back, ("a", "c"): Way(via=((100, 250),))}
    root = drawn({("a", "b"): [], ("b", "a"): ["back"], ("a", "c"): []}, ways)
    assert ways_of(root) == [
        [(186, 60), (314, 60)],
        [(314, 40), (186, 40)],
        [(100, 69), (100, 250), (314, 250)],
    ]
    (label,) = [one for one in root.iter(f"{SVG}text") if one.text == "back"]
    assert (label.attrib["x"], label.attrib["text-anchor"]) == ("3.0", "end")


def test_missing_box_or_arrow_is_reported() -> None:
    with pytest.raises(ValueError, match="no box for d"):
        drawn({("a", "d"): []})
    with pytest.raises(ValueError, match="b to c"):
        drawn({("a", "b"): []}, {("b", "c"): Way()})


def test_turn_machine_has_arrow_per_transition() -> None:
    root = ET.fromstring(docs_turn.drawn())
    allowed = {(state, to) for state, row in TABLE.items() for one in row.values() for to in one.to}
    assert len(ways_of(root)) == len(allowed) + 2
    texts = texts_of(root)
    assert set(State) <= set(texts)
    assert {event.__name__ for row in TABLE.values() for event in row} <= set(texts)


def test_every_phase_is_drawn() -> None:
    root = ET.fromstring(docs_phases.drawn())
    assert set(PHASES) <= set(texts_of(root))


@pytest.mark.parametrize("text", [docs_turn.drawn(), docs_phases.drawn()])
def test_boxes_stay_apart_and_inside(text: str) -> None:
    root = ET.fromstring(text)
    middles: list[tuple[float, float]] = []
    for one in root.iter(f"{SVG}polygon"):
        points = [tuple(map(float, point.split(","))) for point in one.attrib["points"].split()]
        assert all(
            0 < x < float(root.attrib["width"]) and 0 < y < float(root.attrib["height"])
            for x, y in points
        )
        across, down = zip(*points, strict=True)
        middles.append((sum(across) / len(across), sum(down) / len(down)))
    for number, (x, y) in enumerate(middles):
        for a, b in middles[number + 1 :]:
            assert abs(x - a) >= 172 or abs(y - b) >= 38


@pytest.mark.parametrize(
    ("page", "picture"),
    [(docs_turn.PAGE, docs_turn.PICTURE), (docs_phases.PAGE, docs_phases.PICTURE)],
)
def test_the_page_shows_its_picture(page: Path, picture: Path) -> None:
    assert f"](../assets/{picture.name})" in page.read_text("utf-8")


def test_generator_writes_or_reports_stale_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {tmp_path / "new" / "a.md": "a", tmp_path / "b.svg": "b"}
    monkeypatch.setattr("sys.argv", ["x", "--check"])
    assert write_or_compare(made, "the table") == 1
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().err.splitlines() == [
        f"{name} does not match the table; run `make docs`" for name in ("a.md", "b.svg")
    ]
    monkeypatch.setattr("sys.argv", ["x"])
    assert write_or_compare(made, "the table") == 0
    monkeypatch.setattr("sys.argv", ["x", "--check"])
    assert write_or_compare(made, "the table") == 0
    (tmp_path / "b.svg").write_text("c", "utf-8")
    assert write_or_compare(made, "the table") == 1
    assert capsys.readouterr().err.startswith("b.svg")
