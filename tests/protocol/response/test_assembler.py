from collections.abc import Sequence

import pytest

from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    FinishDelta,
    FinishReason,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ModelSettings,
    ProgressDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.protocol.response.assembler import Assembler, estimate_prompt_tokens
from agent_actors.protocol.response.tool_call_fragments import Slot

STOP = FinishDelta("stop")
LENGTH = FinishDelta("length")
HIGH, LOW = "\ud83d", "\ude00"


def finished(*deltas: ModelDelta, truncated: bool = False) -> ModelCompleted:
    assembler = Assembler()
    for delta in deltas:
        assembler.feed(delta)
    assembler.flush()
    return assembler.finish(truncated=truncated)


def shown(*deltas: ModelDelta) -> list[ModelDelta]:
    assembler = Assembler()
    found = [shown for delta in deltas for shown in assembler.feed(delta)]
    return [*found, *assembler.flush()]


def call(call_id: str, name: str, arguments: str | None, index: int | None = 0) -> ToolCallDelta:
    return ToolCallDelta(index, call_id, name, arguments)


def test_text_becomes_one_block() -> None:
    assert finished(TextDelta("Hel"), TextDelta(""), TextDelta("lo"), STOP).blocks == (
        TextBlock("Hello"),
    )


def test_plain_text_delta_is_passed_through() -> None:
    delta = TextDelta("Hello")
    (piece,) = Assembler().feed(delta)
    assert piece is delta


def test_nothing_becomes_no_block() -> None:
    answer = finished(TextDelta(""), ThinkingDelta(""), ToolCallDelta(0), STOP)
    assert answer.blocks == ()
    assert answer.finish_reason == "stop"


def test_blocks_keep_order_of_first_delta() -> None:
    answer = finished(
        ThinkingDelta("Hm."),
        TextDelta("Let me "),
        TextDelta("look."),
        call("a", "f", "{"),
        TextDelta("Meanwhile"),
        call("", "", "}"),
        ThinkingDelta("More."),
        TextDelta("Done."),
    )
    assert answer.blocks == (
        ThinkingBlock("Hm."),
        TextBlock("Let me look."),
        ToolUseBlock("a", "f", {}, "{}"),
        TextBlock("Meanwhile"),
        ThinkingBlock("More."),
        TextBlock("Done."),
    )


def test_thinking_keeps_signature_and_extras() -> None:
    answer = finished(
        ThinkingDelta("a", "sig", {"k": 1}), ThinkingDelta("b"), ThinkingDelta("", "nature")
    )
    assert answer.blocks == (ThinkingBlock("ab", "signature", extra={"k": 1}),)


def test_sealed_thinking_without_text_is_kept() -> None:
    assert finished(ThinkingDelta("", "sealed")).blocks == (ThinkingBlock("", "sealed"),)


def test_empty_thinking_is_dropped() -> None:
    assembler = Assembler()
    assembler.feed(ThinkingDelta(HIGH))
    assert assembler.finish().blocks == ()


def test_extras_of_text_are_kept_with_it() -> None:
    assert finished(
        TextDelta("a", {"k": 1}), call("x", "f", "{}"), TextDelta("", {"late": 2})
    ).blocks == (
        TextBlock("a", extra={"k": 1, "late": 2}),
        ToolUseBlock("x", "f", {}, "{}"),
    )


def test_extras_without_text_are_dropped() -> None:
    assert finished(TextDelta("", {"k": 1})).blocks == ()


def test_call_keeps_its_extras() -> None:
    (block,) = finished(
        ToolCallDelta(0, "a", "f", "", {"k": 1}), ToolCallDelta(0, "", "", "{}", {"l": 2})
    ).blocks
    assert block.extra == {"k": 1, "l": 2}


def test_surrogate_halves_are_joined_in_text() -> None:
    deltas = (
        TextDelta("a" + HIGH),
        TextDelta(LOW + HIGH),
        ThinkingDelta("b" + HIGH),
        TextDelta("c"),
    )
    assert finished(*deltas).blocks == (
        TextBlock("a\N{GRINNING FACE}\ufffd"),
        ThinkingBlock("b\ufffd"),
        TextBlock("c"),
    )
    assert shown(*deltas) == [
        TextDelta("a"),
        TextDelta("\N{GRINNING FACE}"),
        TextDelta("\ufffd"),
        ThinkingDelta("b"),
        ThinkingDelta("\ufffd"),
        TextDelta("c"),
    ]


def test_call_flushes_withheld_text() -> None:
    assert shown(TextDelta("so"), TextDelta("so on"), call("a", "f", "{}")) == [
        TextDelta("so"),
        TextDelta("so on"),
        ToolCallDelta(0, "a", "f", "{}"),
    ]


def test_surrogate_halves_are_joined_in_arguments() -> None:
    (block,) = finished(call("a", "f", '{"x":"' + HIGH), call("", "", LOW + '"}')).blocks
    assert block == ToolUseBlock("a", "f", {"x": "\N{GRINNING FACE}"}, '{"x":"\N{GRINNING FACE}"}')


def test_shown_argument_deltas_are_encodable() -> None:
    assert shown(call("a", "f", HIGH)) == [ToolCallDelta(0, "a", "f", "\ufffd")]


@pytest.mark.feature("OAS-060")
def test_cumulative_text_equals_incremental_text() -> None:
    text = "Once upon a time there was a quick brown fox. " * 4
    pieces = [TextDelta(text[:end]) for end in range(1, len(text) + 1)]
    assert finished(*pieces).blocks == (TextBlock(text),)
    assert "".join(d.text for d in shown(*pieces) if isinstance(d, TextDelta)) == text


def test_a_declared_endpoint_needs_no_proof() -> None:
    assembler = Assembler(cumulative=True)
    for piece in ("a", "ab", "ab"):
        assembler.feed(TextDelta(piece))
        assembler.feed(ThinkingDelta(piece))
    assert [type(block) for block in assembler.finish().blocks] == [TextBlock, ThinkingBlock] * 2


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.feature("OAS-063", "OAS-068")
@pytest.mark.parametrize("hint", ["stop", "tool_calls", "unknown"])
def test_complete_calls_ignore_finish_reason(hint: FinishReason) -> None:
    answer = finished(call("a", "f", '{"x":'), call("", "", "1}"), FinishDelta(hint))
    assert answer.blocks == (ToolUseBlock("a", "f", {"x": 1}, '{"x":1}'),)


@pytest.mark.feature("OAS-064")
@pytest.mark.parametrize("arguments", [None, "", "null", "{}", " "])
def test_empty_absent_or_null_arguments_mean_none(arguments: str | None) -> None:
    (block,) = finished(call("a", "now", arguments), STOP).blocks
    assert isinstance(block, ToolUseBlock)
    assert block.input == {}


@pytest.mark.feature("OAS-065")
def test_invalid_arguments_become_error_with_text() -> None:
    (block,) = finished(call("a", "f", '{"hvd": Pura90"}'), STOP).blocks
    assert isinstance(block, ToolUseError)
    assert block.error.startswith("the arguments are not valid JSON: ")
    assert (block.raw_data, block.id, block.name) == ('{"hvd": Pura90"}', "a", "f")


def test_non_object_arguments_become_an_error() -> None:
    (block,) = finished(call("a", "f", "[1]"), STOP).blocks
    assert isinstance(block, ToolUseError)
    assert block.error == "the arguments must be a JSON object, not an array"


@pytest.mark.feature("OAS-066")
@pytest.mark.parametrize("name", ["", "<|constrain|>json"])
def test_nameless_call_becomes_an_error(name: str) -> None:
    (block,) = finished(call("a", name, '{"x":1}'), STOP).blocks
    assert block == ToolUseError(
        "the call does not name a tool: its function name is missing", '{"x":1}', "a"
    )


def test_call_with_id_only_has_no_data() -> None:
    (block,) = finished(call("a", "", None), STOP).blocks
    assert isinstance(block, ToolUseError)
    assert block.raw_data is None


@pytest.mark.feature("OAS-066", "OAS-062")
def test_missing_id_uses_turn_and_slot() -> None:
    assembler = Assembler(turn=7)
    for index in (0, 1):
        assembler.feed(call("", "f", f'{{"n":{index}}}', index))
    assert [block.id for block in assembler.finish().blocks if isinstance(block, ToolUseBlock)] == [
        "call_7_0",
        "call_7_1",
    ]


@pytest.mark.feature("OAS-062")
def test_early_id_becomes_the_call_id() -> None:
    deltas = (call("", "f", ""), call("late", "", '{"x"'), call("late", "", ":1}"))
    assert finished(*deltas).blocks == (ToolUseBlock("late", "f", {"x": 1}, '{"x":1}'),)
    assert shown(*deltas) == [
        ToolCallDelta(0, "call_1_0", "f", ""),
        ToolCallDelta(0, "late", "f", '{"x"'),
        ToolCallDelta(0, "late", "f", ":1}"),
    ]


@pytest.mark.feature("OAS-069")
def test_shown_id_and_name_stay() -> None:
    deltas = (call("", "f", '{"x"'), call("late", "g", ":1"), call("late", "", "}"))
    assert finished(*deltas).blocks == (ToolUseBlock("call_1_0", "f", {"x": 1}, '{"x":1}'),)
    assert shown(*deltas) == [
        ToolCallDelta(0, "call_1_0", "f", '{"x"'),
        ToolCallDelta(0, "call_1_0", "f", ":1"),
        ToolCallDelta(0, "call_1_0", "f", "}"),
    ]


@pytest.mark.feature("OAS-069")
def test_arguments_before_name_are_shown_later() -> None:
    deltas = (call("a", "", '{"x"'), call("a", "", ":1"), call("a", "f", ""), call("a", "", "}"))
    assert shown(*deltas) == [
        ProgressDelta(),
        ProgressDelta(),
        ToolCallDelta(0, "a", "f", '{"x":1'),
        ToolCallDelta(0, "a", "f", "}"),
    ]


def test_id_of_earlier_turn_is_rewritten() -> None:
    assembler = Assembler(turn=2, known_call_ids=frozenset({"f:0"}))
    assert assembler.feed(call("f:0", "f", "{}")) == [ToolCallDelta(0, "call_2_0", "f", "{}")]
    assert assembler.finish().blocks == (ToolUseBlock("call_2_0", "f", {}, "{}"),)


def test_two_objects_in_slot_are_two_calls() -> None:
    assert finished(call("a", "f", '{"q":"A"}{"q":"B"}'), STOP).blocks == (
        ToolUseBlock("a", "f", {"q": "A"}, '{"q":"A"}'),
        ToolUseBlock("call_1_0", "f", {"q": "B"}, '{"q":"B"}'),
    )


def test_extras_belong_to_first_object_only() -> None:
    fragments = (
        ToolCallDelta(0, "a", "f", '{"x":1}', {"signature": "s"}),
        ToolCallDelta(0, arguments='{"x":2}'),
    )
    blocks = finished(*fragments).blocks
    assert [block.extra for block in blocks if isinstance(block, ToolUseBlock)] == [
        {"signature": "s"},
        {},
    ]


def test_object_arguments_have_no_raw_text() -> None:
    assert finished(ToolCallDelta(0, "a", "f", {"x": 1})).blocks == (
        ToolUseBlock("a", "f", {"x": 1}),
    )


def test_fragments_show_number_id_and_name() -> None:
    assert shown(
        call("a", "f", "", 5), call("", "", '{"x":', 5), call("", "", "", 5), call("b", "g", "", 9)
    ) == [
        ToolCallDelta(0, "a", "f", ""),
        ToolCallDelta(0, "a", "f", '{"x":'),
        ToolCallDelta(1, "b", "g", ""),
    ]


def test_repeated_head_is_shown_once() -> None:
    assert shown(call("a", "ed", ""), call("a", "it", ""), call("a", "edit", "")) == [
        ToolCallDelta(0, "a", "ed", ""),
        ToolCallDelta(0, "a", "edit", ""),
    ]


# --- truncated responses --------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [None, "", '{"x":', '{"x":1}{"y":', "{}"])
def test_truncated_call_never_becomes_a_call(arguments: str | None) -> None:
    answer = finished(call("a", "f", arguments), LENGTH)
    error = answer.blocks[-1]
    assert isinstance(error, ToolUseError)
    assert error.error.startswith("the response was cut off at its token limit before")
    assert answer.finish_reason == "length"


def test_interrupted_call_never_becomes_a_call() -> None:
    (error,) = finished(call("a", "f", '{"x":'), truncated=True).blocks
    assert isinstance(error, ToolUseError)
    assert error.error == "the stream broke off before the arguments of this call were complete"


def test_complete_calls_before_truncation_stay_calls() -> None:
    answer = finished(
        call("a", "f", '{"x":1}', 0), call("b", "now", "", 1), call("c", "f", '{"x"', 2), LENGTH
    )
    assert [type(block) for block in answer.blocks] == [ToolUseBlock, ToolUseBlock, ToolUseError]


def test_complete_call_survives_truncation() -> None:
    (block,) = finished(call("a", "f", '{"x":1}'), LENGTH).blocks
    assert block == ToolUseBlock("a", "f", {"x": 1}, '{"x":1}')


def test_empty_object_argument_is_complete() -> None:
    (block,) = finished(ToolCallDelta(0, "a", "f", {}), LENGTH).blocks
    assert block == ToolUseBlock("a", "f", {})


def test_earlier_broken_call_reports_its_fault() -> None:
    first, _ = finished(call("a", "f", "{]", 0), call("b", "f", "{", 1), LENGTH).blocks
    assert isinstance(first, ToolUseError)
    assert first.error.startswith("the arguments are not valid JSON")


# --- finish reasons -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hints", "with_call", "reason"),
    [
        ([], False, "unknown"),
        (["stop"], False, "stop"),
        (["stop"], True, "tool_calls"),
        (["tool_calls"], False, "stop"),
        (["tool_calls", "stop"], True, "tool_calls"),
        (["length", "stop"], True, "length"),
        (["refusal", "stop"], False, "refusal"),
        (["content_filter", "length"], False, "content_filter"),
        (["stop", "unknown"], False, "stop"),
        (["stop", "length"], False, "length"),
        (["unknown"], False, "unknown"),
    ],
)
def test_finish_reason_follows_blocks_and_hints(
    hints: Sequence[FinishReason], reason: FinishReason, *, with_call: bool
) -> None:
    calls = [call("a", "f", "{}")] if with_call else []
    assert finished(*calls, *map(FinishDelta, hints)).finish_reason == reason


def test_the_hint_can_be_asked_for() -> None:
    assembler = Assembler()
    assert assembler.finish_hint is None
    assert assembler.feed(LENGTH) == ()
    assert assembler.finish_hint == "length"


@pytest.mark.feature("OAS-115")
def test_the_last_usage_wins_and_is_shown() -> None:
    first, last = UsageDelta(Usage(1, 1)), UsageDelta(Usage(5, 7))
    assert shown(first, last) == [first, last]
    assert finished(first, last).usage == Usage(5, 7)


@pytest.mark.feature("OAS-115")
def test_missing_usage_is_estimated_and_marked() -> None:
    request = ModelRequest(
        Messages().user("x" * 40),
        ModelSettings("m"),
        system_prompt="y" * 8,
        tools=(ToolSpec("abcd", "efgh", {"k": 1}), ToolSpec("ijkl", "mn")),
    )
    assembler = Assembler.for_request(request)
    for delta in (ThinkingDelta("t" * 8), TextDelta("a" * 12), call("c", "f", '{"x": 12}   ')):
        assembler.feed(delta)
    around = 8 + (4 + 4 + len('{"k": 1}')) + (4 + 2 + len("{}"))
    assert estimate_prompt_tokens(request) == 10 + around // 4
    assert assembler.finish().usage == Usage(
        10 + around // 4, (8 + 12 + 12) // 4, reasoning_tokens=2, estimated=True
    )


@pytest.mark.parametrize(
    ("request_", "tokens"),
    [
        (ModelRequest(Messages().user("hi"), ModelSettings("m")), 1),
        (ModelRequest(Messages(), ModelSettings("m"), system_prompt="!"), 1),
        (ModelRequest(Messages(), ModelSettings("m"), tools=(ToolSpec("f", "", None),)), 1),
        (ModelRequest(Messages(), ModelSettings("m")), 0),
    ],
)
def test_non_empty_prompt_has_a_token(request_: ModelRequest, tokens: int) -> None:
    assert estimate_prompt_tokens(request_) == tokens


def test_estimate_without_request_counts_response_only() -> None:
    assert finished(TextDelta("a" * 9)).usage == Usage(0, 2, estimated=True)


def test_the_request_gives_turn_and_known_ids() -> None:
    request = ModelRequest(
        Messages().user("x"), ModelSettings("m"), turn=4, known_call_ids=frozenset({"a"})
    )
    assembler = Assembler.for_request(request)
    assembler.feed(call("a", "f", "{}"))
    answer = assembler.finish(model="real", response_id="r")
    assert answer.blocks == (ToolUseBlock("call_4_0", "f", {}, "{}"),)
    assert (answer.model, answer.response_id) == ("real", "r")


def test_arguments_before_name_are_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []

    def arguments(slot: Slot) -> str:
        joined.append(slot.number)
        return '{"a": 1}'

    monkeypatch.setattr(Slot, "arguments", property(arguments))
    assembler = Assembler()
    for _ in range(1000):
        assembler.feed(ToolCallDelta(0, "", "", " "))
    before = len(joined)
    assembler.feed(ToolCallDelta(0, "", "f", ""))
    assert (before, len(joined)) == (1, 2)


def test_empty_text_after_reason_is_no_content() -> None:
    found = finished(TextDelta("a"), STOP, TextDelta(""))
    assert (found.finish_reason, found.blocks) == ("stop", (TextBlock("a"),))


def test_call_without_name_does_not_grow() -> None:
    made = Assembler()
    list(made.feed(call("c1", "", "{")))
    assert made.growing_call is None  # the next fragment may bring the name, which `feed` reads
    list(made.feed(call("", "f", "")))
    assert made.growing_call == 0


def test_finished_text_is_not_plain() -> None:
    made = Assembler()
    made.feed(TextDelta("first "))
    made.feed(TextDelta("second"))
    assert made.is_plain(thinking=False)
    made.feed(STOP)
    assert not made.is_plain(thinking=False)  # `feed` records that the response goes on
