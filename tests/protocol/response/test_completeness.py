"""Completeness of a growing text is found in linear time, with the same result as for the full
text.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.protocol.response import completeness as whole
from agent_actors.protocol.response.arguments import is_complete_object
from agent_actors.protocol.response.completeness import WholeObjects

OBJECTS = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
        max_leaves=4,
    ),
    max_size=3,
).map(json.dumps)
ODD = st.sampled_from(
    ["", " ", "\n", "{", "}", '"', "\\", "[", "]", "null", "x", "\u00a0", '{"a":', "{}", '"{}"']
)
WRAPPED = OBJECTS.map(json.dumps) | OBJECTS.map(json.dumps).map(json.dumps)
TEXTS = st.lists(OBJECTS | ODD | WRAPPED, max_size=5)


def states(pieces: list[str]) -> list[bool]:
    """Return, for each piece, whether the text is complete after it."""
    text, found = WholeObjects(), list[bool]()
    for piece in pieces:
        text.feed(piece)
        found.append(text.whole)
    return found


@given(TEXTS)
def test_incremental_result_equals_single_result(pieces: list[str]) -> None:
    texts = ["".join(pieces[: count + 1]) for count in range(len(pieces))]
    assert states(pieces) == [is_complete_object(text) for text in texts]


@given(TEXTS)
def test_single_characters_give_same_result(pieces: list[str]) -> None:
    text = "".join(pieces)
    said = [is_complete_object(text[: count + 1]) for count in range(len(text))]
    assert states(list(text)) == said


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (['{"a":', "{}", "}"], [False, False, True]),
        (["{}", " ", "{", "}"], [True, True, False, True]),
        (["{}", "x", "{}"], [True, False, False]),
        (["{x}", "{}"], [False, False]),
        (['{"}', '"', ":1}"], [False, False, True]),
        (['{"a\\', '"', '}":1}'], [False, False, True]),
        (['"', "{}", '"', " "], [False, False, True, True]),
        (['"{}"', "{}"], [True, False]),
        (["{}", '"{}"'], [True, False]),
        (['{"a":[}', "]}"], [False, False]),
        (["[", "{}"], [False, False]),
    ],
)
def test_each_fragment_may_complete_or_spoil(pieces: list[str], expected: list[bool]) -> None:
    assert states(pieces) == expected


@pytest.mark.parametrize("piece", ["{}", "}", '{"a":{}', '{"a":1}', '"', "{x}", '\\"}'])
@pytest.mark.parametrize("first", ["", '{"a":', '{"a":"'])
def test_each_character_is_parsed_once_at_most(
    monkeypatch: pytest.MonkeyPatch, first: str, piece: str
) -> None:
    parsed: list[int] = []

    def counted(text: str) -> bool:
        parsed.append(len(text))
        return is_complete_object(text)

    monkeypatch.setattr(whole, "is_complete_object", counted)
    states([first, *[piece] * 500])
    assert sum(parsed) <= len(first) + 500 * len(piece)
