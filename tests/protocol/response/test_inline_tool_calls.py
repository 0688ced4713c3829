"""Tool calls between tags are read for any split of the text."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    AssistantBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.model import (
    FinishDelta,
    ModelDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
)
from agent_actors.protocol.response.assembler import Assembler
from agent_actors.protocol.response.inline_tool_calls import FIRST_INDEX, TagCalls

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject

FIND = ToolSpec(
    "find",
    "Find it.",
    {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "n": {"type": "integer"},
            "or": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "any": {"anyOf": [{"type": "integer"}, {"type": ["string", "null"]}]},
            "list": {"type": "array"},
            "free": {},
        },
    },
)
CALL = '<tool_call>\n{"name": "find", "arguments": {"q": "A"}}\n</tool_call>'
USED = ToolUseBlock("call_1_0", "find", {"q": "A"})


def pieces_of(text: str, size: int) -> list[ModelDelta]:
    return [TextDelta(text[at : at + size]) for at in range(0, len(text), size)]


def assembled(
    deltas: Iterable[ModelDelta], *, lenient: bool = False, truncated: bool = False
) -> tuple[list[ModelDelta], tuple[AssistantBlock, ...]]:
    """Return the deltas shown for these deltas, and the resulting blocks."""
    assembler = Assembler(text_calls=TagCalls([FIND], lenient=lenient), lenient=lenient)
    shown: list[ModelDelta] = []
    for delta in deltas:
        shown += assembler.feed(delta)
    shown += assembler.flush()
    return shown, assembler.finish(truncated=truncated).blocks


def blocks(text: str, *, lenient: bool = False) -> tuple[AssistantBlock, ...]:
    """Return the blocks of this text; check that they are the same for pieces of any size."""
    _, whole = assembled([TextDelta(text)], lenient=lenient)
    for size in (1, 2, 5):
        assert assembled(pieces_of(text, size), lenient=lenient)[1] == whole
    return whole


def said(deltas: Iterable[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def test_quirk_25_tagged_call_is_read() -> None:
    assert blocks(CALL) == (USED,)
    assert blocks(f"Let me look.\n{CALL}") == (TextBlock("Let me look.\n"), USED)


def test_blanks_between_calls_are_dropped() -> None:
    other = ToolUseBlock("call_1_1", "now", {})
    two = f'{CALL}\n \n<tool_call>{{"name": "now"}}</tool_call>\n'
    assert blocks(two) == (USED, other)
    assert blocks(f"{two}\n Done.") == (USED, other, TextBlock("\n\n Done."))


@pytest.mark.parametrize(
    "inside",
    [
        '{"arguments": {"q": "A"}, "name": "find"}',
        '{"name": "find", "parameters": {"q": "A"}}',
        r'{"name": "find", "arguments": "{\"q\": \"A\"}"}',
        "<function=find>\n<parameter=q>\nA\n</parameter>\n</function>",
        "<function=find><parameter=q>A</parameter></function>",
    ],
)
def test_quirk_25_the_forms_of_a_call(inside: str) -> None:
    (block,) = blocks(f"<tool_call>{inside}</tool_call>")
    assert isinstance(block, ToolUseBlock)
    assert (block.name, block.input) == ("find", {"q": "A"})


def test_parameter_values_follow_the_schema() -> None:
    given_: dict[str, str] = {
        "q": "12",
        "n": "12",
        "or": "null",
        "any": "12",
        "list": "[1]",
        "free": "12",
        "new": "{}",
    }
    parameters = "".join(f"<parameter={key}>\n{v}\n</parameter>\n" for key, v in given_.items())
    (block,) = blocks(f"<tool_call>\n<function=find>\n{parameters}</function>\n</tool_call>")
    expected: JsonObject = {
        "q": "12",
        "n": 12,
        "or": None,
        "any": "12",
        "list": [1],
        "free": "12",
        "new": "{}",
    }
    assert isinstance(block, ToolUseBlock)
    assert block.input == expected
    odd = "<function=find><parameter=n>\n\ntwelve\n\n</parameter></function>"
    (block,) = blocks(f"<tool_call>{odd}</tool_call>")
    assert isinstance(block, ToolUseBlock)
    assert block.input == {"n": "\ntwelve\n"}
    (block,) = blocks("<tool_call><function=other></function></tool_call>")
    assert isinstance(block, ToolUseBlock)
    assert (block.name, block.input) == ("other", {})


BROKEN = {
    "no JSON": ('{"name": "find", "arguments": {"q": A}}', "find"),
    "not closed": ('{"name": "find", "arguments": {"q": "A"}', "find"),
    "no object": ('["find"]', ""),
    "no name": ('{"arguments": {"q": "A"}}', ""),
    "a name that is no text": ('{"name": 7, "arguments": {}}', ""),
    "an empty name": ('{"name": "", "arguments": {}}', ""),
    "words": ("find it", ""),
    "a function without end": ("<function=find><parameter=q>A</parameter>", "find"),
    "a function without name": ("<function=></function>", ""),
    "a function that is no tag": ("<function=find</function>", ""),
    "a parameter without end": ("<function=find><parameter=q>A</function>", "find"),
    "a parameter without name's end": (
        "<function=find><parameter=q</parameter></function>",
        "find",
    ),
    "something between": ("<function=find>A<parameter=q>A</parameter></function>", "find"),
    "a parameter twice": (
        "<function=find><parameter=q>A</parameter><parameter=q>B</parameter></function>",
        "find",
    ),
}


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(("inside", "name"), BROKEN.values(), ids=list(BROKEN))
def test_quirk_25_invalid_call_never_runs(inside: str, name: str, *, lenient: bool) -> None:
    (block,) = blocks(f"<tool_call>{inside}</tool_call>", lenient=lenient and "A}" not in inside)
    assert isinstance(block, ToolUseError)
    assert (block.name, block.raw_data) == (name, f"<tool_call>{inside}")


def test_non_object_arguments_are_an_error() -> None:
    (block,) = blocks('<tool_call>{"name": "find", "arguments": [1]}</tool_call>')
    assert isinstance(block, ToolUseError)
    assert "the arguments must be a JSON object" in block.error


def test_broken_calls_in_a_row_stay_apart() -> None:
    found = blocks("<tool_call>one</tool_call><tool_call>two</tool_call>")
    assert [b.raw_data for b in found if isinstance(b, ToolUseError)] == [
        "<tool_call>one",
        "<tool_call>two",
    ]


def test_several_objects_are_several_calls() -> None:
    found = blocks('<tool_call>{"name":"find"}\n{"name":"now"}\n{oops</tool_call>')
    assert [type(block) for block in found] == [ToolUseBlock, ToolUseBlock, ToolUseError]


def test_nearly_json_call_is_read_on_request() -> None:
    odd = "<tool_call>{'name': 'find', 'arguments': {'q': A,}}</tool_call>"
    assert blocks(odd, lenient=True) == (
        ToolUseBlock("call_1_0", "find", {"q": "A"}, repaired=True),
    )
    # Without the closing tag, the call may be incomplete.
    (block,) = blocks(odd.removesuffix("</tool_call>"), lenient=True)
    assert isinstance(block, ToolUseError)


def test_missing_end_tag_needs_complete_call() -> None:
    assert blocks(CALL.removesuffix("\n</tool_call>")) == (USED,)
    for end in range(len("<tool_call>\n") + 1, CALL.index("}}") + 2):
        _, found = assembled([TextDelta(CALL[:end])], truncated=True)
        assert isinstance(found[0], ToolUseError) == (end < CALL.index("}}") + 2)


@pytest.mark.parametrize(
    "text",
    [
        "a <tool_cal> b",
        "a <tool",
        "</tool_call> is no beginning",
        "<tool_call></tool_call>",
        "<tool_call> \n",
        "x < y",
        "<tool_call",
        "<",
    ],
)
def test_quirk_25_false_marker_is_text(text: str) -> None:
    assert blocks(text) == (TextBlock(text),)


def test_only_possible_markers_are_withheld() -> None:
    calls = TagCalls()
    assert calls.feed("Hello <to") == [TextDelta("Hello ")]
    assert calls.feed("ol") == []
    assert calls.feed("s>") == [TextDelta("<tools>")]
    assert calls.feed("<tool_call>") == []
    assert calls.settle() == ()
    assert calls.feed("{}<") == []
    assert calls.flush() == [ToolCallDelta(FIRST_INDEX + 1, "", " ", "<tool_call>{}<")]


def test_text_precedes_later_thinking_and_calls() -> None:
    deltas: list[ModelDelta] = [
        TextDelta("a<"),
        ThinkingDelta("Hm"),
        ThinkingDelta("Hm, well"),
        TextDelta("<tool"),
        ToolCallDelta(0, "x", "now", "{}"),
        TextDelta(CALL),
        FinishDelta("stop"),
    ]
    shown, found = assembled(deltas)
    assert said(shown) == "a<<tool"
    assert found == (
        TextBlock("a<"),
        ThinkingBlock("HmHm, well"),
        TextBlock("<tool"),
        ToolUseBlock("x", "now", {}, "{}"),
        ToolUseBlock("call_1_1", "find", {"q": "A"}),
    )


def test_split_character_in_thinking_is_joined() -> None:
    _, found = assembled([TextDelta("a"), ThinkingDelta("\ud83d"), ThinkingDelta("\ude00")])
    assert found == (TextBlock("a"), ThinkingBlock("\N{GRINNING FACE}"))


def test_extras_stay_with_their_text() -> None:
    _, found = assembled([TextDelta("Hi", {"k": 1}), TextDelta("", {"l": 2})])
    assert found == (TextBlock("Hi", extra={"k": 1, "l": 2}),)


PARTS = st.sampled_from(
    ["Hi", " ", "\n", "<", "<tool_call>", "</tool_call>", "{", "}", "é", "\ud83d"]
)


@given(st.lists(PARTS, max_size=12).map("".join), st.integers(1, 5))
def test_result_is_independent_of_splits(text: str, size: int) -> None:
    shown, whole = assembled([TextDelta(text)])
    shown_in_pieces, in_pieces = assembled(pieces_of(text, size))
    assert in_pieces == whole
    assert said(shown_in_pieces) == said(shown)
    assert said(shown) == "".join(block.text for block in whole if isinstance(block, TextBlock))


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="<{"), min_size=1, max_size=9),
            st.dictionaries(st.text("ab", max_size=2), st.text("x<>é", max_size=5), max_size=2),
        ),
        max_size=4,
    ),
    st.integers(1, 7),
)
def test_quirk_25_text_and_calls_round_trip(
    turns: list[tuple[str, dict[str, str]]], size: int
) -> None:
    text = "".join(
        f"{said_}|<tool_call>{TOOL_CALL.format(arguments)}</tool_call>"
        for said_, arguments in ((one, as_json(value)) for one, value in turns)
    )
    _, found = assembled(pieces_of(text, size))
    assert [b.text for b in found if isinstance(b, TextBlock)] == [f"{one}|" for one, _ in turns]
    assert [b.input for b in found if isinstance(b, ToolUseBlock)] == [one for _, one in turns]


TOOL_CALL = '{{"name":"find","arguments":{}}}'


def as_json(value: dict[str, str]) -> str:
    inside = ",".join(f'"{key}":"{text}"' for key, text in value.items())
    return f"{{{inside}}}"


def test_damaged_open_call_is_not_executed() -> None:
    assembler = Assembler(text_calls=TagCalls([FIND]))
    assembler.feed(TextDelta('<tool_call>{"name": "find", "arguments": {"n": 1'))
    assembler.damage()
    assembler.feed(TextDelta("}}</tool_call>"))
    assembler.flush()
    (block,) = assembler.finish().blocks
    assert isinstance(block, ToolUseError)


def test_too_deep_parameter_stays_text() -> None:
    deep = "[" * 100 + "]" * 100
    assembler = Assembler(text_calls=TagCalls([FIND]))
    text = f"<function=find><parameter=list>{deep}</parameter></function>"
    assembler.feed(TextDelta(f"<tool_call>{text}</tool_call>"))
    assembler.flush()
    (block,) = assembler.finish().blocks
    assert isinstance(block, ToolUseBlock)
    assert block.input == {"list": deep}
