"""Text that is nearly JSON is repaired; all other text is left unchanged."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.protocol.response.json_repair import repair_object

MENDED: list[tuple[str, JsonObject]] = [
    ('{"a": 1,}', {"a": 1}),
    ('{"a": [1, 2, ], "b": {},\n}', {"a": [1, 2], "b": {}}),
    ("{'a': 'b'}", {"a": "b"}),
    ('{\'a\': "it\'s", "b": \'say "hi"\'}', {"a": "it's", "b": 'say "hi"'}),
    (r"{'a': 'it\'s', 'b': 'x\ty\"\u00e9'}", {"a": "it's", "b": 'x\ty"é'}),
    ("{'a': True, 'b': [False, None], 'c': null}", {"a": True, "b": [False, None], "c": None}),
    ('{"hvd": Pura90"}', {"hvd": "Pura90"}),
    ('{"hvd": Pura90}', {"hvd": "Pura90"}),
    ('{"a": Grüße aus Köln , "b": 1}', {"a": "Grüße aus Köln", "b": 1}),
    ('{"a": x, }', {"a": "x"}),
    ("{\"a\": x.y-z/2, 'b': [-1.5e3, 0]}", {"a": "x.y-z/2", "b": [-1500.0, 0]}),
    ('{"a": {"b": word}}', {"a": {"b": "word"}}),
    ('```json\n{"a": 1}\n```', {"a": 1}),
    ("  ```\n{'a': [1,\n2],}\n```  \n", {"a": [1, 2]}),
    (' {"a": 1} ', {"a": 1}),
]


@pytest.mark.parametrize(("text", "meant"), MENDED)
def test_unambiguous_text_is_repaired(text: str, meant: JsonObject) -> None:
    assert repair_object(text) == meant


LEFT = {
    "open object": '{"a": 1',
    "open array": '{"a": [1, 2',
    "open text": "{'a': 'b",
    "cut after a bare text": '{"a": Pura90',
    "cut after a comma": '{"a": 1,',
    "cut after a name": '{"a":',
    "cut in a name": "{'a",
    "open fence": '```json\n{"a": 1}',
    "fence of something else": "```json\nnothing\n```",
    "fence that ends in its first line": '```{"a": 1}```',
    "fence in a fence": '```a`b\n{"a": 1}\n```',
    "nothing": "",
    "only a fence": "```",
    "no object": "['a']",
    "text around it": "Sure: {'a': 1}",
    "text behind it": "{'a': 1} there",
    "two objects": "{'a': 1}{'b': 2}",
    "a name without quotes": "{a: 1}",
    "a name twice": "{'a': 1, 'a': 2}",
    "no colon": "{'a' 1}",
    "no comma": "{'a': 1 'b': 2}",
    "no value": "{'a': , 'b': 2}",
    "only a comma": "{,}",
    "two commas": "{'a': [1,,2]}",
    "an apostrophe in single quotes": "{'a': 'it's'}",
    "a comma in a bare text": '{"a": hello, world}',
    "a comma in a bare text and a text": '{"a": hello, "world"}',
    "a colon in a bare text": '{"a": https://x}',
    "a bare text in an array": '{"a": [b, c]}',
    "a bare text that begins with a digit": '{"a": 2024-01-01}',
    "a number that is none": '{"a": 01}',
    "a number out of range": '{"a": 1e999,}',
    "a word of another language": '{"a": undefined}',
    "a word in other letters": '{"a": TRUE}',
    "a word with half its quotes": '{"a": true"}',
    "a raw line break": '{"a": "b\nc",}',
    "an escape that is none": r"{'a': '\x41'}",
    "half a character": r"{'a': '\ud83d'}",
    "too deep": '{"a":' * 65 + "1," + "}" * 65,
}


@pytest.mark.parametrize("text", LEFT.values(), ids=list(LEFT))
def test_ambiguous_or_truncated_json_is_unchanged(text: str) -> None:
    assert repair_object(text) is None


WORDS = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=3)


def with_commas(text: str) -> str:
    return text.replace("]", ",]").replace("}", ",}").replace("[,]", "[]").replace("{,}", "{}")


@given(OBJECTS)
def test_python_literal_object_is_repaired(value: JsonObject) -> None:
    assert repair_object(json.dumps(value)) == value
    written = repr(value)
    if "\\x" not in written and "\\U" not in written:  # escapes that JSON does not have
        assert repair_object(written) == value


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(), max_size=2), max_size=3))
def test_commas_before_brackets_are_read_over(value: JsonObject) -> None:
    assert repair_object(with_commas(json.dumps(value))) == value


@given(st.sampled_from([text for text, _ in MENDED]), st.data())
def test_incomplete_text_is_never_repaired(text: str, data: st.DataObject) -> None:
    whole = text.rstrip()
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert repair_object(cut) is None


@given(st.text("{}[]:,'\"\\`\n a1tT-", max_size=30))
def test_any_text_repairs_to_object_or_none(text: str) -> None:
    found = repair_object(text)
    assert found is None or json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("piece", ["{", "[", "'", '"', "\\", "\n", " ", "`", "a", "a ", "{'a':"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    for head in ("", "{'a': ", "```\n", '{"a": x'):
        assert repair_object(head + piece * 200_000) is None
