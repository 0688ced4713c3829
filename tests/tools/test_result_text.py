"""Measuring and truncating the text of tool results, in slices."""

import dataclasses
import json
from typing import cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import ToolResultBlock
from agent_actors.domain.json import JsonValue
from agent_actors.tools.output import ToolOutput, converts_fast
from agent_actors.tools.result_text import SLICE, Content, cut_content, is_small, text_chunks

IMAGE: JsonValue = {"type": "image", "source": "data:image/png;base64,AAAA"}
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def text_part(text: str) -> JsonValue:
    return {"type": "text", "text": text}


PARTS: st.SearchStrategy[JsonValue] = st.builds(text_part, st.text()) | st.just(IMAGE)
CONTENTS = cast(
    "st.SearchStrategy[Content]",
    st.one_of(st.text(), st.dictionaries(st.text(), VALUES), st.lists(VALUES), st.lists(PARTS)),
)


def text_of(content: Content) -> bytes:
    return ToolResultBlock("", content).text.encode()


@given(CONTENTS)
def test_chunks_are_the_text(content: Content) -> None:
    assert b"".join(text_chunks(content)) == text_of(content)


@pytest.mark.parametrize(
    "content",
    [
        "é" * (3 * SLICE + 7),
        {"a": "\n" * (2 * SLICE), "b": [1, None, {"c": "x" * SLICE}], "d": {}},
        [*range(1000), ["y" * 9] * 600],
        [{"type": "text", "text": "z" * (SLICE + 1)}, IMAGE],
        [IMAGE, 5],
    ],
    ids=["text", "object", "array", "blocks", "mixed"],
)
def test_large_values_are_sliced(content: Content) -> None:
    chunks = list(text_chunks(content))
    assert b"".join(chunks) == text_of(content)
    assert max(map(len, chunks)) < 7 * SLICE


@given(CONTENTS, st.integers(0, 3000))
def test_small_values_are_within_the_limit(content: Content, limit: int) -> None:
    if is_small(content, limit):
        assert len(text_of(content)) <= limit


@pytest.mark.parametrize(
    ("value", "small"),
    [
        ("x" * 100, True),
        ("x" * 101, False),
        ("é" * 100, False),
        ({"a": 1}, True),
        ([1, 2, 3, 4], False),
        (dict.fromkeys(map(str, range(600))), False),
        ([None] * 600, False),
    ],
)
def test_sizes_are_estimated_from_above(value: JsonValue, small: bool) -> None:
    assert is_small(value, 100) is small


def test_estimate_stops_in_large_values() -> None:
    row: list[JsonValue] = [None] * 400
    assert not is_small([row, row], 1e9)


@given(CONTENTS, st.integers(0, 50))
def test_cut_content_is_a_prefix(content: Content, size: int) -> None:
    whole = text_of(content)
    cut, shown = cut_content(content, text_chunks(content), size)
    assert shown <= size
    assert shown == len(whole) or shown > size - 4  # less than one character is missing
    if isinstance(cut, str):
        assert cut.encode() == whole[:shown]
    else:
        images = [part for part in cut if part == IMAGE]
        assert isinstance(content, list)
        assert images == [part for part in content if part == IMAGE]
        if not images:
            assert text_of(cut or "") == whole[:shown]


def test_images_stay_when_text_is_cut() -> None:
    text: JsonValue = {"type": "text", "text": "abcdef"}
    content: Content = [text, IMAGE, text]
    assert cut_content(content, (), 4) == ([{"type": "text", "text": "abcd"}, IMAGE], 4)


@attrs.frozen
class Report:
    lines: list[str]


@dataclasses.dataclass
class Page:
    lines: list[str]


@pytest.mark.parametrize(
    ("value", "fast"),
    [
        ("x" * 10**7, True),  # ASCII text needs no check
        ("é" * 10**7, False),
        (ToolOutput("é" * 10**7), False),
        (ToolOutput({"a": [1, 2]}), True),
        ({"a": list(range(600))}, False),
        ([[[1] * 90] * 9] * 9, False),
        (Report(["x"] * 600), False),
        (Report(["x"] * 6), True),
        (Page(["x"] * 600), False),
        (Page(["x"] * 6), True),
    ],
)
def test_slow_conversions_are_recognised(value: object, fast: bool) -> None:
    assert converts_fast(value) is fast


def test_json_text_matches_json_dumps() -> None:
    values: list[JsonValue] = ["é\u0001", 1.5, True, None, [], {}]
    content: Content = {"k": values * 200}
    assert b"".join(text_chunks(content)).decode() == json.dumps(content, ensure_ascii=False)
