"""Drawings match the captured terminal output, and a capture is stale if its shape has changed."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.style import Style
from rich.text import Text

from scripts import docs_demo
from scripts.screen import Screen
from scripts.terminal_picture import picture

SVG = "{http://www.w3.org/2000/svg}"


def lines_of(written: str, width: int = 40, height: int = 4) -> list[Text]:
    screen = Screen(width, height)
    screen.feed(written.replace("\n", "\r\n"))
    return screen.styled


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("1;3", "bold italic"),
        ("2", "bright_black"),
        ("33", "yellow"),
        ("95", "bright_magenta"),
        ("38;5;197;1", "#ff005f bold"),
        ("38;5;2", "#00cd00"),
    ],
)
def test_character_keeps_its_style(codes: str, style: str) -> None:
    line = lines_of(f"a\x1b[{codes}mb\x1b[0mc")[0]
    assert line.plain == "abc"
    plain, styled, after = (line.get_style_at_offset(Console(), at) for at in range(3))
    assert plain == after == Style(bold=False, italic=False)
    assert styled == Style.parse(f"not bold not italic {style}")


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Co", "Cn"]), max_size=30))
def test_picture_is_well_formed_and_offline(text: str) -> None:
    svg = picture(lines_of(f"one \x1b[1m{text}"), f"about <{text}>")
    root = ET.fromstring(svg)
    assert root.findtext(f"{SVG}title") == f"about <{text}>"
    assert "one" in "".join(one.text or "" for one in root.iter(f"{SVG}text"))
    assert not {name for one in root.iter() for name in one.attrib} & {"href", "src"}
    assert set(re.findall(r"url\((.)", svg)) <= {"#"}


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
