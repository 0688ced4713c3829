"""JSON text that is still being streamed is completed at any position, without wrong values."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.json import JsonValue
from agent_actors.protocol.response.growing_json import GrowingJson

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
).filter(lambda value: isinstance(value, dict | list))


def grows_to(part: JsonValue, value: JsonValue) -> bool:
    """Return whether a value may be the beginning of another."""
    match part, value:
        case str(), str():
            return value.startswith(part)
        case list(), list():
            return len(part) <= len(value) and all(map(grows_to, part, value))
        case dict(), dict():
            return all(key in value and grows_to(item, value[key]) for key, item in part.items())
        case _:
            return type(part) is type(value) and part == value


@given(VALUES, st.booleans(), st.sampled_from([None, 1]), st.integers(1, 5))
def test_completed_text_is_beginning_of_value(
    value: Any, ascii_only: bool, indent: int | None, size: int
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    growing = GrowingJson()
    for start in range(0, len(text), size):
        growing.feed(text[start : start + size])
        assert grows_to(json.loads(growing.completed()), value)
    assert growing.is_complete
    assert json.loads(growing.completed()) == value


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("", ""),
        (" \n```js", ""),
        ("```json\n", ""),
        ('```json\n{"a": 1', "{}"),
        ('{"a": 1,', '{"a": 1}'),
        ('{"a": "b', '{"a": "b"}'),
        ('{"a": "b\\', '{"a": "b"}'),
        ('{"a": "b\\ud83d\\u', '{"a": "b"}'),
        ('{"a": "b", "c', '{"a": "b"}'),
        ('{"a": [tru', '{"a": []}'),
        ('{"a": [{"b": "c"}, {', '{"a": [{"b": "c"}, {}]}'),
        ('{"a": 1} and {"b": 2}', '{"a": 1}'),
    ],
)
def test_text_is_completed(text: str, completed: str) -> None:
    growing = GrowingJson()
    growing.feed(text)
    assert growing.completed() == completed
    assert growing.is_json


@pytest.mark.parametrize(
    "text",
    ["Hello", "3", '"a"', "`a` {}", "{]", '{"a": "\\ud83d is not a pair', '["\\u12zzzzzzzzzz'],
)
def test_other_text_is_not_completed(text: str) -> None:
    growing = GrowingJson()
    growing.feed(text)
    growing.feed('{"a": 1}')
    assert not growing.is_json
    assert growing.completed() == ""


def test_text_after_the_document_is_ignored() -> None:
    growing = GrowingJson()
    growing.feed('{"a": 1} and more')
    assert growing.is_complete
    assert json.loads(growing.completed()) == {"a": 1}
