"""What a terminal shows is drawn as it is, and a capture is stale when its shape has changed."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import docs_demo
from scripts.screen import Cell, Screen
from scripts.terminal_picture import Pen, pen_of, picture

SVG = "{http://www.w3.org/2000/svg}"


def rows_of(written: str, width: int = 40, height: int = 4) -> list[list[Cell]]:
    screen = Screen(width, height)
    screen.feed(written.replace("\n", "\r\n"))
    return screen.cells


def texts_of(svg: str) -> list[tuple[str, float, float]]:
    """Each text of a picture, with its place."""
    return [
        ((one.text or "").replace("\xa0", " "), float(one.attrib["x"]), float(one.attrib["y"]))
        for one in ET.fromstring(svg).iter(f"{SVG}text")
    ]


def test_character_keeps_its_style() -> None:
    (first, *_) = rows_of("a\x1b[1;31mb\x1b[3mc\x1b[0md\x1b[me")
    assert first[:6] == [("a", ""), ("b", "1;31"), ("c", "1;31;3"), ("d", ""), ("e", ""), (" ", "")]


@pytest.mark.parametrize(
    ("told", "pen"),
    [
        ("", Pen()),
        ("1;3;2", Pen(bold=True, italic=True, dim=True)),
        ("36", Pen(colour="#56b6c2")),
        ("91", Pen(colour="#ef8891")),
        ("38;5;9;1", Pen(colour="#ef8891", bold=True)),
        ("38;5;197", Pen(colour="#ff005f")),
        ("38;5;237", Pen(colour="#3a3a3a")),
        ("38;5", Pen()),
        ("4;48", Pen()),
    ],
)
def test_style_is_read_from_escape_sequences(told: str, pen: Pen) -> None:
    assert pen_of(told) == pen


def test_words_and_blanks_keep_their_columns() -> None:
    svg = picture(rows_of("one  <two>\n    & \x1b[1mthree\x1b[0m"), "about <it>")
    assert [text for text, _, _ in texts_of(svg)] == ["one  <two>", "&", "three"]
    (_, left, top), (_, second, below), (_, third, _) = texts_of(svg)
    assert second == pytest.approx(left + 4 * 8.4, abs=0.1)
    assert third == pytest.approx(left + 6 * 8.4, abs=0.1)
    assert below > top
    assert ET.fromstring(svg).findtext(f"{SVG}title") == "about <it>"


def test_boxes_are_drawn_and_not_written() -> None:
    svg = picture(rows_of("┌─┐\n└─┘\n━╸"), "a box")
    assert texts_of(svg) == []
    assert len(list(ET.fromstring(svg).iter(f"{SVG}path"))) == 3


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Co", "Cn"]), max_size=30))
def test_picture_is_well_formed_and_offline(text: str) -> None:
    svg = picture(rows_of(text), text)
    root = ET.fromstring(svg)
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {
        "svg",
        "title",
        "rect",
        "g",
        "text",
        "path",
    }
    assert not {name for one in root.iter() for name in one.attrib} & {"href", "style", "src"}


def test_demo_picture_matches_its_capture() -> None:
    capture = docs_demo.CAPTURE.read_text("utf-8")
    assert docs_demo.PICTURE.read_text("utf-8") == docs_demo.drawn(capture)


@pytest.mark.parametrize(
    ("old", "new", "alike"),
    [
        ("│ seconds                                 │", "│ seconds  │", True),
        ("most tools at once                      │        ", "most tools at once │ 1", True),
        ("\x1b[3m", "", True),
        ("tasks left behind                       │          0", "tasks left behind │ 1", False),
        ("100 of 100", "99 of 100", False),
        ("tool calls", "calls of tools", False),
        ("│ seconds", "│ minutes", False),
    ],
)
def test_capture_shape_is_independent_of_figures(old: str, new: str, alike: bool) -> None:
    capture = docs_demo.CAPTURE.read_text("utf-8")
    assert old in capture
    assert (docs_demo.shape(capture.replace(old, new)) == docs_demo.shape(capture)) is alike
