import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.protocol.response.arguments import (
    BadArguments,
    GoodArguments,
    dump_object,
    is_complete_object,
    parse_arguments,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS: st.SearchStrategy[JsonObject] = st.dictionaries(st.text(), JSON, max_size=4)


def only_input(text: str) -> JsonObject:
    (parsed,) = parse_arguments(text)
    assert isinstance(parsed, GoodArguments)
    return parsed.input


def only_error(text: str) -> str:
    (parsed,) = parse_arguments(text)
    assert isinstance(parsed, BadArguments)
    assert parsed.raw == text
    return parsed.error


@given(OBJECTS)
def test_object_is_returned_with_its_text(value: JsonObject) -> None:
    text = dump_object(value)
    assert parse_arguments(text) == (GoodArguments(value, text),)


@pytest.mark.feature("OAS-064")
@pytest.mark.parametrize("text", ["", "  \n", "null", " null ", '""', '"null"'])
def test_nothing_blanks_and_null_mean_no_arguments(text: str) -> None:
    assert parse_arguments(text) == (GoodArguments({}),)


@given(OBJECTS, st.integers(1, 3))
def test_an_object_wrapped_in_strings_is_unwrapped(value: JsonObject, wrappings: int) -> None:
    inner = text = dump_object(value)
    for _ in range(wrappings):
        text = json.dumps(text)
    assert parse_arguments(text) == (GoodArguments(value, inner),)


def test_an_object_wrapped_too_often_is_refused() -> None:
    text = "{}"
    for _ in range(5):
        text = json.dumps(text)
    assert "not a string" in only_error(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[1]", "an array"),
        ("3", "a number"),
        ("3.5", "a number"),
        ("true", "a boolean"),
        ('"Paris"', "a string"),
        ('"[1]"', "a string"),
    ],
)
def test_non_object_json_is_refused_by_kind(text: str, kind: str) -> None:
    assert only_error(text) == f"the arguments must be a JSON object, not {kind}"


@pytest.mark.feature("OAS-065")
@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1',
        '  {"a": 1',
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1e999}',
        '{"a": Pura90"}',
        "}",
    ],
)
def test_invalid_json_error_names_the_position(text: str) -> None:
    assert only_error(text).startswith("the arguments are not valid JSON: ")


def test_arguments_nested_too_deeply_are_refused() -> None:
    fault = "the arguments are nested more than 100 levels deep"
    assert only_error('{"a":' * 100_000) == fault
    deepest = '{"a": ' + "[" * 99 + "]" * 99 + "}"
    assert only_input(deepest)
    assert only_error(deepest.replace("[]", "[[]]")) == fault
    # The limit also applies in a JSON string, and to a lone surrogate, which the fast parser
    # rejects.
    assert only_error(json.dumps(deepest.replace("[]", "[[]]"))).startswith(
        "the arguments must be a JSON object"
    )
    assert only_error(deepest.replace("[]", '[["\\ud83d"]]')) == fault


def test_consecutive_objects_are_separated() -> None:
    assert parse_arguments('{"q": "A"} \n{"q": "B"}') == (
        GoodArguments({"q": "A"}, '{"q": "A"}'),
        GoodArguments({"q": "B"}, '{"q": "B"}'),
    )


@pytest.mark.parametrize("text", ['{}{"a":1}', '{"a":1}{}', '{"a":1}{"a":1}', '{}{}{"a": 1}{}'])
def test_empty_objects_and_repeats_are_ignored(text: str) -> None:
    assert only_input(text) == {"a": 1}


def test_empty_objects_alone_are_one_call() -> None:
    assert only_input("{}{}") == {}


def test_unfinished_second_object_is_refused_alone() -> None:
    first, second = parse_arguments('{"q":"A"}{"q":')
    assert first == GoodArguments({"q": "A"}, '{"q":"A"}')
    assert isinstance(second, BadArguments)
    assert second.raw == '{"q":'


@pytest.mark.parametrize("text", ['{}{"a":1', '{}{}{"a":', "{} {"])
def test_empty_then_unfinished_object_never_runs(text: str) -> None:
    assert only_error(text).startswith("the arguments are not valid JSON: ")


@pytest.mark.parametrize("text", ['{"a":1}}', '{"a":1}</tool_call>', '{"a":1} trailing'])
def test_object_followed_by_text_is_refused(text: str) -> None:
    only_error(text)


def test_object_followed_by_json_is_refused() -> None:
    assert "must contain only JSON objects" in only_error('{"a":1} [2]')


def test_halves_of_a_character_are_joined() -> None:
    assert only_input('{"a":"\ud83d\ude00"}') == {"a": "\N{GRINNING FACE}"}


def test_lone_surrogates_are_replaced_everywhere() -> None:
    text = r'{"a":["\ud83d",{"\ude00":"\ud83dx"},1,null]}'
    (parsed,) = parse_arguments(text)
    expected: JsonValue = ["\ufffd", {"\ufffd": "\ufffdx"}, 1, None]
    # The text differs from the input, so it must not be sent again.
    assert parsed == GoodArguments({"a": expected}, "")


def test_fractions_survive_the_slow_path_too() -> None:
    assert only_input('{}{"a":1.5}') == {"a": 1.5}


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ('{"a":1}', True),
        ("{}", True),
        ("{} ", True),
        (r'"{\"a\":1}"', True),
        ("", False),
        ("  ", False),
        ("null", False),
        ('{"a":{}', False),
        ('{"a":"}', False),
        ('"abc"', False),
    ],
)
def test_object_is_complete_when_closed(text: str, *, complete: bool) -> None:
    assert is_complete_object(text) is complete


def test_many_objects_parse_in_linear_time() -> None:
    assert len(parse_arguments("".join(f'{{"n":{n}}}' for n in range(20_000)))) == 20_000


def test_nearly_json_needs_an_option() -> None:
    (strict,) = parse_arguments("{'q': 'A'}")
    assert isinstance(strict, BadArguments)
    assert parse_arguments("{'q': 'A'}", lenient=True) == (
        GoodArguments({"q": "A"}, "{'q': 'A'}", repaired=True),
    )


@pytest.mark.parametrize("text", ["", "{}", '{"q": 1}', '"{}"', '{"q":1}{"q":2}', "{'q'", "[1]"])
def test_repair_keeps_valid_and_hopeless_json(text: str) -> None:
    assert parse_arguments(text, lenient=True) == parse_arguments(text)
