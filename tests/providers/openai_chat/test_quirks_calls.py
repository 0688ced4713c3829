"""Quirks 1 to 31 that concern tool calls; each test has the number of its quirk.

Three quirks need a mode of their own and do not concern the decoder: 23 (a template requires ids of
nine characters, so the endpoint's own ids are sent back), 25 (calls written as text) and 26 (lost
quotation marks: such a call is an error that shows the text received).
"""

import json

import pytest

from agent_actors.domain.blocks import TextBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelRequest, ModelSettings
from agent_actors.errors import ProviderConnectError
from tests.providers.openai_chat.answers import answer, calls, chunk, entry, made, read, sse, text

A, B = '{"q":"A"}', '{"q":"B"}'
TWO = [("a", "find", {"q": "A"}), ("b", "find", {"q": "B"})]
ONE = [("a", "find", {"q": "A"})]


def test_the_clean_stream_of_two_calls() -> None:
    found = answer(
        chunk({"role": "assistant", "content": None}),
        calls(entry(0, "a", "find", "")),
        calls(entry(0, arguments='{"q":')),
        calls(entry(0, arguments='"A"}')),
        calls(entry(1, "b", "find", "")),
        calls(entry(1, arguments=B)),
        chunk({}, "tool_calls"),
    )
    assert made(found) == TWO
    assert (found.finish_reason, found.model, found.response_id) == ("tool_calls", "m-1", "r")


def test_quirk_01_no_index() -> None:
    assert (
        made(answer(calls(entry(None, "a", "find", A)), calls(entry(None, "b", "find", B)))) == TWO
    )


def test_quirk_01_neither_index_nor_id() -> None:
    found = answer(
        calls(entry(None, None, "find", ""), entry(None, None, "now", "")), chunk({}, "stop")
    )
    assert made(found) == [("call_1_0", "find", {}), ("call_1_1", "now", {})]


def test_quirk_01_repeated_tool_keeps_each_signature() -> None:
    def of(arguments: str, signature: str) -> dict[str, object]:
        extra = {"google": {"thought_signature": signature}}
        return {**entry(None, None, "find", arguments), "extra_content": extra}

    found = answer(calls(of(A, "s")), calls(of(B, "t")), chunk({}, "tool_calls"))
    assert made(found) == [("call_1_0", "find", {"q": "A"}), ("call_1_1", "find", {"q": "B"})]
    assert [block.extra for block in found.blocks if isinstance(block, ToolUseBlock)] == [
        {"extra_content": {"google": {"thought_signature": signature}}} for signature in "st"
    ]


def test_quirk_02_index_zero_on_parallel_calls() -> None:
    assert made(answer(calls(entry(0, "a", "find", A)), calls(entry(0, "b", "find", B)))) == TWO
    assert made(answer(calls(entry(0, "a", "find", A), entry(0, "b", "find", B)))) == TWO


def test_quirk_03_negative_index() -> None:
    assert made(answer(calls(entry(-1, "a", "find", A)), calls(entry(-1, "b", "find", B)))) == TWO


def test_quirk_04_index_from_one_and_sparse() -> None:
    found = answer(
        calls(entry(1, "a", "find", "")),
        calls(entry(1, arguments=A)),
        calls(entry(7, "b", "find", "")),
        calls(entry(7, arguments=B)),
    )
    assert made(found) == TWO


def test_quirk_05_choice_index_is_block_index() -> None:
    first = text("Let me look.")
    second = calls(entry(0, "a", "find", A))
    second["choices"] = [{"index": 1, "delta": {"tool_calls": [entry(0, "a", "find", A)]}}]
    found = answer(first, second, chunk({}, "tool_calls"))
    assert found.text == "Let me look."
    assert made(found) == ONE


def test_quirk_06_arguments_under_another_index() -> None:
    found = answer(
        calls(entry(0, "a", "find", "")),
        calls(entry(1, arguments='{"q":')),
        calls(entry(1, arguments='"A"}')),
        calls(entry(2, "b", "find", "")),
        calls(entry(3, arguments=B)),
    )
    assert made(found) == TWO


@pytest.mark.feature("OAS-061")
def test_quirk_07_continuation_with_empty_id() -> None:
    continuation = entry(0, "", arguments='"A"}')
    found = answer(calls(entry(0, "a", "find", '{"q":')), calls(continuation))
    assert made(found) == ONE


def test_quirk_08_empty_continuation_id_and_name() -> None:
    found = answer(calls(entry(0, "a", "find", '{"q":')), calls(entry(0, "", "", '"A"}')))
    assert made(found) == ONE


def test_quirk_09_explicit_nulls() -> None:
    odd = {
        "index": 0,
        "id": None,
        "type": None,
        "function": {"name": None, "arguments": '"A"}'},
    }
    found = answer(
        chunk({"role": None, "content": None, "tool_calls": [entry(0, "a", "find", '{"q":')]}),
        calls(odd),
        calls({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": ""}}),
        calls({"index": 0, "function": None}),
    )
    assert made(found) == ONE


def test_quirk_10_null_tool_calls() -> None:
    found = answer(
        chunk({"content": "Hi", "tool_calls": None}), chunk({"tool_calls": None}, "stop")
    )
    assert found.blocks == (TextBlock("Hi"),)


@pytest.mark.feature("OAS-062")
def test_quirk_11_id_never_sent() -> None:
    found = answer(
        calls(entry(0, None, "find", '{"q":')),
        calls(entry(0, None, None, '"A"}')),
        calls(entry(1, None, "find", B)),
    )
    assert made(found) == [("call_1_0", "find", {"q": "A"}), ("call_1_1", "find", {"q": "B"})]


def test_quirk_12_head_repeated_in_every_chunk() -> None:
    pieces = ["", '{"q":', '"A"}', ""]
    entries = [{**entry(0, "a", "find", piece), "name": None} for piece in pieces]
    assert made(answer(*[calls(one) for one in entries])) == ONE


def test_quirk_13_name_in_fragments() -> None:
    found = answer(
        calls(entry(0, "a", "edit_ex")),
        calls(entry(0, None, "isting_file")),
        calls(entry(0, None, None, A)),
    )
    assert made(found) == [("a", "edit_existing_file", {"q": "A"})]


def test_quirk_14_name_after_arguments() -> None:
    found = answer(
        calls(entry(0, "a", None, '{"q":')),
        calls(entry(0, None, None, '"A"}')),
        calls(entry(0, None, "find")),
    )
    assert made(found) == ONE


def test_quirk_15_second_object_under_index() -> None:
    found = answer(calls(entry(0, "a", "find", A)), calls(entry(0, None, None, B)))
    assert made(found) == [("a", "find", {"q": "A"}), ("call_1_0", "find", {"q": "B"})]


def test_quirk_15_whole_arguments_repeated() -> None:
    found = answer(
        calls(entry(0, "a", "find", '{"q":')),
        calls(entry(0, None, None, '"A"}')),
        calls(entry(0, "a", "find", A)),
    )
    assert made(found) == ONE


@pytest.mark.feature("WICK-083")
def test_quirk_16_arguments_as_an_object() -> None:
    found = answer(calls(entry(0, "a", "find", {"q": "A"})))
    assert found.blocks == (ToolUseBlock("a", "find", {"q": "A"}),)


def test_quirk_17_arguments_encoded_twice() -> None:
    found = answer(calls(entry(0, "a", "find", json.dumps(A))))
    assert found.blocks == (ToolUseBlock("a", "find", {"q": "A"}, A),)


@pytest.mark.feature("OAS-064")
@pytest.mark.parametrize("function", [{"arguments": ""}, {}, {"arguments": None}])
def test_quirk_18_no_arguments(function: dict[str, object]) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "now", **function}}
    assert made(answer(calls(call), chunk({}, "tool_calls"))) == [("a", "now", {})]


def test_quirk_19_empty_object_before_arguments() -> None:
    found = answer(
        calls(entry(0, "a", "find", "{}")),
        calls(entry(0, None, None, '{"q":')),
        calls(entry(0, None, None, '"A"}')),
    )
    assert made(found) == ONE


def test_quirk_20_arguments_begin_with_the_head() -> None:
    found = answer(calls(entry(0, "a", "find", "{")), calls(entry(0, None, None, '"q":"A"}')))
    assert made(found) == ONE


def test_quirk_21_whole_call_with_the_finish() -> None:
    found = answer(calls(entry(0, "a", "find", A), finish="tool_calls"))
    assert made(found) == ONE
    assert found.finish_reason == "tool_calls"


def test_quirk_22_ids_of_earlier_turns() -> None:
    request = ModelRequest(
        Messages().user("x"), ModelSettings("m"), turn=2, known_call_ids=frozenset({"find:0"})
    )
    body = sse(calls(entry(0, "find:0", "find", A)), calls(entry(1, "find:1", "find", B)))
    assert made(read(body, request)) == [
        ("call_2_0", "find", {"q": "A"}),
        ("find:1", "find", {"q": "B"}),
    ]


def test_quirk_22_tool_name_as_shared_id() -> None:
    found = answer(calls(entry(0, "find", "find", A)), calls(entry(1, "find", "find", B)))
    assert made(found) == [("find", "find", {"q": "A"}), ("call_1_0", "find", {"q": "B"})]


def test_quirk_24_leaked_tokens_in_the_name() -> None:
    found = answer(calls(entry(0, "a", "find<|channel|>commentary", A)))
    assert made(found) == ONE


def test_quirk_26_lost_quotes_are_an_error() -> None:
    (block,) = answer(calls(entry(0, "a", "find", '{"hvd": Pura90"}')), chunk({}, "stop")).blocks
    assert isinstance(block, ToolUseError)
    assert block.raw_data == '{"hvd": Pura90"}'


@pytest.mark.feature("OAS-063")
@pytest.mark.parametrize("finish", ["stop", "eos", "STOP", "end_turn"])
def test_quirk_27_finish_reason_stop_with_calls(finish: str) -> None:
    found = answer(calls(entry(0, "a", "find", A)), chunk({}, finish))
    assert made(found) == ONE
    assert found.finish_reason == "tool_calls"


@pytest.mark.parametrize("finish", ["tool_calls", "length"])
def test_quirk_28_truncated_call_with_tool_calls(finish: str) -> None:
    (block,) = answer(calls(entry(0, "a", "find", '{"q":"A')), chunk({}, finish)).blocks
    assert isinstance(block, ToolUseError)


def test_quirk_29_empty_finish_reason_everywhere() -> None:
    found = answer(text("Hi", ""), calls(entry(0, "a", "find", A), finish=""))
    assert made(found) == ONE
    assert found.finish_reason == "unknown"


def test_quirk_30_finish_reason_null_or_absent() -> None:
    absent = text(" there")
    absent["choices"] = [{"delta": {"content": " there"}}]
    found = answer(text("Hi", "null"), absent, chunk({}, "stop"))
    assert (found.text, found.finish_reason) == ("Hi there", "stop")
    with pytest.raises(ProviderConnectError, match="the response is incomplete"):
        answer(calls(entry(0, "a", "find", '{"q"'), finish="null"), done=False)


def test_quirk_31_finish_reason_early_and_twice() -> None:
    found = answer(
        text("Hi", "stop"), text(" there", "stop"), calls(entry(0, "a", "find", A), finish="stop")
    )
    assert found.text == "Hi there"
    assert made(found) == ONE


def test_quirk_49_text_and_call_in_delta() -> None:
    found = answer(
        chunk({"content": "Look:", "tool_calls": [entry(0, "a", "find", A)]}, "tool_calls")
    )
    assert found.blocks == (TextBlock("Look:"), ToolUseBlock("a", "find", {"q": "A"}, A))


def test_quirk_50_legacy_function_call() -> None:
    found = answer(
        chunk({"function_call": {"name": "find", "arguments": '{"q":'}}),
        chunk({"function_call": {"arguments": '"A"}'}}),
        chunk({}, "function_call"),
    )
    assert made(found) == [("call_1_0", "find", {"q": "A"})]
    assert found.finish_reason == "tool_calls"


# --- fields of undocumented types -----------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        {"index": "0", "id": 17, "function": {"name": "find", "arguments": A}},
        {"index": 0.0, "id": 17, "function": {"name": "find", "arguments": {"q": "A"}}},
        {"index": None, "id": 17, "name": "find", "arguments": {"q": "A"}},
        {"index": True, "id": 17, "type": 3, "function": {"name": "find", "arguments": A}},
        {"index": "first", "id": 17, "function": {"name": "find", "arguments": A}},
        {"index": 0.5, "id": 17, "function": {"name": "find", "arguments": A}},
    ],
)
def test_odd_call_fields_are_tolerated(odd: dict[str, object]) -> None:
    assert made(answer(calls(odd))) == [("17", "find", {"q": "A"})]


def test_non_text_arguments_are_an_error() -> None:
    (found,) = made(answer(calls(entry(0, "a", "find", [1])), chunk({}, "stop")))
    assert found == ("a", "find", "the arguments must be a JSON object, not an array")


@pytest.mark.parametrize(
    "odd",
    [7, "none", [None, 3], {"index": 0, "id": "a", "function": {"name": "find", "arguments": A}}],
)
def test_invalid_tool_calls_keep_the_rest(odd: object) -> None:
    found = answer(chunk({"content": "Hi", "tool_calls": odd}), chunk({}, "stop"))
    assert found.text == "Hi"
    assert made(found) == (ONE if isinstance(odd, dict) else [])
