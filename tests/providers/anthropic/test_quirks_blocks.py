"""Blocks in Anthropic's protocol, both as specified and as endpoints send them; one test each."""

import json

import pytest

from agent_actors.domain.blocks import (
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    ModelDelta,
    ModelRequest,
    ModelSettings,
    ProgressDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.providers.anthropic.decode import MessageDecoder
from agent_actors.providers.anthropic.response import MessageResponseParser
from tests.providers.anthropic.answers import (
    REQUEST,
    add,
    answer,
    arguments,
    begin,
    brief,
    call_block,
    end,
    read_all,
    seal,
    shown,
    sse,
    start,
    stop,
    text,
    text_block,
    thought,
    tool_use,
)

THINKING = {"type": "thinking", "thinking": "", "signature": ""}
HELLO = [begin(), *text_block("Hel", "lo"), *end()]

# --- the protocol as specified --------------------------------------------------------------------


@pytest.mark.feature("ASDK-023")
def test_blocks_are_shown_as_they_stream() -> None:
    events = [
        begin(),
        {"type": "ping"},
        start(0, THINKING),
        thought("Hm"),
        thought("."),
        seal("s" * 10),
        stop(0),
        *text_block("Look", "ing", index=1),
        *call_block("", '{"q"', ": 1}", index=2),
        *call_block(call_id="b", name="now", index=3),
        *end("tool_use", input_tokens=3),
    ]
    found = answer(*events)
    assert found.blocks == (
        ThinkingBlock("Hm.", "s" * 10),
        TextBlock("Looking"),
        ToolUseBlock("a", "find", {"q": 1}, '{"q": 1}'),
        ToolUseBlock("b", "now", {}),
    )
    assert (found.finish_reason, found.model, found.response_id) == ("tool_calls", "m-1", "msg_1")
    assert found.usage == Usage(3, 4)
    assert shown(*events) == [
        ThinkingDelta("Hm"),
        ThinkingDelta("."),
        ThinkingDelta("", "s" * 10),
        TextDelta("Look"),
        TextDelta("ing"),
        ToolCallDelta(0, "a", "find", ""),
        ToolCallDelta(0, "a", "find", '{"q"'),
        ToolCallDelta(0, "a", "find", ": 1}"),
        ToolCallDelta(1, "b", "now", ""),
        UsageDelta(Usage(3, 4)),
    ]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("pause_turn", "paused"),
        ("something_new", "unknown"),
        ("length", "length"),
    ],
)
def test_reasons_are_mapped(word: str, reason: str) -> None:
    assert answer(begin(), *text_block("Hi"), *end(word)).finish_reason == reason


def test_call_ignores_stop_reason() -> None:
    assert answer(begin(), *call_block("{}"), *end("end_turn")).finish_reason == "tool_calls"


def test_explicit_stop_reason_is_kept() -> None:
    (cut, _), (plain, last) = end("max_tokens"), end("end_turn")
    assert answer(begin(), *text_block("Hi"), cut, plain, last).finish_reason == "length"


def test_cached_tokens_count_as_input() -> None:
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 7,
        "output_tokens": 1,
    }
    details = {"thinking_tokens": 2}
    found = answer(
        begin(usage=usage),
        *text_block("Hi"),
        *end(output_tokens=9, output_tokens_details=details, cache_read_input_tokens=None),
    )
    assert found.usage == Usage(15, 9, 5, 7, 2)


def test_final_zeros_keep_earlier_counts() -> None:
    found = answer(begin(), *text_block("Hi"), *end(input_tokens=0, output_tokens=2))
    assert found.usage == Usage(3, 2)


def test_prompt_may_be_counted_last() -> None:
    found = answer(begin(usage=None), *text_block("Hi"), *end(input_tokens=8))
    assert found.usage == Usage(8, 4)


@pytest.mark.feature("ASDK-024")
@pytest.mark.parametrize("counts", [None, {}, {"output_tokens": 0}, {"output_tokens": "many"}])
def test_missing_counts_are_estimated(counts: object) -> None:
    request = ModelRequest(Messages().user("Hello there, how are you?"), ModelSettings("m"))
    (delta, last) = end()
    events = [begin(usage=None), *text_block("x" * 40), {**delta, "usage": counts}, last]
    found = answer(*events, request=request)
    assert found.usage == Usage(6, 10, estimated=True)


@pytest.mark.parametrize(
    "counts", [{"input_tokens": 6}, {"input_tokens": 6, "output_tokens": 0}, {"output_tokens": -1}]
)
def test_initial_count_is_not_final(counts: dict[str, object]) -> None:
    (delta, last) = end()
    begun = begin(usage={"input_tokens": 6, "cache_read_input_tokens": 2, "output_tokens": 4})
    for size, tokens in ((40, 10), (4, 4)):
        found = answer(begun, *text_block("x" * size), {**delta, "usage": counts}, last)
        assert found.usage == Usage(8, tokens, 2, estimated=True)


# --- unknown content that is kept -----------------------------------------------------------------


def test_redacted_thinking_is_kept_verbatim() -> None:
    block: JsonObject = {"type": "redacted_thinking", "data": "xyz"}
    found = answer(begin(), start(0, block), stop(0), *text_block("Hi", index=1), *end())
    assert found.blocks == (OpaqueBlock(block, "anthropic"), TextBlock("Hi"))


def test_server_tools_are_kept_verbatim() -> None:
    use: JsonObject = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    result: JsonObject = {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [{"type": "web_search_result", "url": "https://x", "encrypted_content": "e"}],
    }
    citation: JsonObject = {"type": "web_search_result_location", "url": "https://x"}
    found = answer(
        begin(),
        start(0, use),
        arguments('{"query":'),
        arguments(' "x"}'),
        stop(0),
        start(1, result),
        stop(1),
        start(2, {"type": "text", "text": "", "citations": []}),
        text("Found", 2),
        add(2, {"type": "citations_delta", "citation": citation}),
        add(2, {"type": "citations_delta", "citation": citation}),
        stop(2),
        *text_block(".", index=3),
        *end(),
    )
    assert found.blocks == (
        OpaqueBlock({**use, "input": {"query": "x"}}, "anthropic"),
        OpaqueBlock(result, "anthropic"),
        TextBlock("Found", extra={"citations": [citation, citation]}),
        TextBlock("."),
    )


def fed(*events: object) -> list[ModelDelta]:
    """Return the deltas of an unfinished stream of these events."""
    return list(MessageResponseParser(REQUEST, endpoint="e").feed(sse(*events)))


def test_hidden_blocks_still_show_progress() -> None:
    going_on = [ProgressDelta()]
    use: JsonObject = {"type": "server_tool_use", "id": "s", "name": "x", "input": {}}
    opening = [begin(), start(0, use), *text_block("Hi", index=1)]
    for event in (
        start(2, {"type": "redacted_thinking", "data": "xyz"}),
        arguments('{"q": 1}'),
        add(0, {"type": "something_delta", "more": "of it"}),
        add(0, {"type": "text_delta", "text": "t"}),
        add(1, {"type": "citations_delta", "citation": {"c": 1}}),
        add(5, {"type": "something_delta", "more": "of it"}),
    ):
        before = len(fed(*opening))
        assert fed(*opening, event)[before:][:1] == going_on, event
    for nothing in (
        start(0, use),
        stop(0),
        arguments(""),
        add(0, {"type": "something_delta"}),
        add(0, {"type": "something_delta", "more": ""}),
        add(0, {"type": "text_delta", "text": ""}),
        add(1, {"type": "citations_delta", "citation": None}),
        dict[str, object](type="ping"),
    ):
        assert fed(*opening, nothing) == fed(*opening), nothing


def test_truncated_server_tool_keeps_initial_input() -> None:
    use: JsonObject = {"type": "server_tool_use", "id": "s", "name": "x", "input": {}}
    found = answer(begin(), start(0, use), arguments('{"q": '), *end("max_tokens"))
    assert brief(found.blocks) == [use]


def test_unknown_block_grows_by_deltas() -> None:
    begun = {"type": "compaction", "content": "a", "list": [1], "more": None}
    found = answer(
        begin(),
        start(0, begun),
        add(0, {"type": "compaction_delta", "content": "b", "list": [2], "more": {"x": 1}}),
        add(0, {"type": "compaction_delta", "content": None, "more": 2}),
        add(0, {"type": "text_delta", "text": "t"}),
        add(0, {"type": "citations_delta", "citation": {"c": 1}}),
        add(0, {"type": "input_json_delta", "partial_json": {"i": 1}}),
        stop(0),
        *end(),
    )
    assert brief(found.blocks) == [
        {
            "type": "compaction",
            "content": "ab",
            "list": [1, 2],
            "more": 2,
            "text": "t",
            "citations": [{"c": 1}],
            "input": {"i": 1},
        }
    ]


def test_deeply_nested_block_is_dropped_alone() -> None:
    deep = json.loads("[" * 200 + "]" * 200)
    sealed = {"type": "text", "text": "", "novel": deep}
    found = read_all(
        [
            sse(begin(), *text_block("Hello"))
            + sse(start(1, {"type": "new_thing", "x": deep}), stop(1))
            + sse(start(2, sealed), text("!", 2), stop(2), *end())
        ]
    )[1]
    assert found.blocks == (TextBlock("Hello"), TextBlock("!"))


def test_unknown_delta_becomes_its_own_block() -> None:
    odd = {"type": "odd_delta", "x": 1}
    found = answer(begin(), *text_block("Hi"), add(0, odd), add(7, odd), *end())
    assert brief(found.blocks) == ["Hi", odd, odd]


def test_unknown_call_fields_are_sent_back() -> None:
    more: JsonObject = {"caller": {"type": "direct"}}
    block = {**tool_use(), **more, "toolset_name": None}
    found = answer(begin(), start(0, block), arguments("{}"), stop(0), *end("tool_use"))
    assert found.blocks == (ToolUseBlock("a", "find", {}, "{}", extra=more),)


# --- blocks and their fields ----------------------------------------------------------------------


def test_each_thinking_keeps_its_signature() -> None:
    thoughts = [
        event
        for index in (0, 1)
        for event in (start(index, THINKING), thought("Hm", index), seal(f"s{index}", index))
    ]
    found = answer(begin(), *thoughts, *end())
    assert brief(found.blocks) == [("thinking", "Hm", "s0"), ("thinking", "Hm", "s1")]


def test_signature_without_thinking_is_kept() -> None:
    events = [start(0, THINKING), seal("s"), stop(0), *text_block("Hi", index=1)]
    assert brief(answer(begin(), *events, *end()).blocks) == [("thinking", "", "s"), "Hi"]


def test_late_signature_finds_its_thinking() -> None:
    events = [start(0, THINKING), thought("Hm"), *text_block("Hi", index=1), seal("s", 5)]
    assert brief(answer(begin(), *events, *end()).blocks) == [("thinking", "Hm", "s"), "Hi"]


def test_reused_index_opens_new_block() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s"}
    found = answer(begin(), start(1, result), stop(1), *text_block("Hi", index=1), *end())
    assert brief(found.blocks) == [result, "Hi"]


def test_text_delta_opens_missing_block() -> None:
    events = [start(0, THINKING), thought("Hm"), text("Hi"), text("!")]
    assert brief(answer(begin(), *events, *end()).blocks) == [("thinking", "Hm", ""), "Hi!"]


def test_text_after_result_is_kept() -> None:
    found = answer(begin(), start(0, {"type": "x_result"}), stop(0), text("Hi"), *end())
    assert brief(found.blocks) == [{"type": "x_result"}, "Hi"]


def test_deltas_of_nothing_begin_nothing() -> None:
    empty = [text(""), thought(""), arguments(""), seal(""), add(3, None), add(3, {"x": 1})]
    assert brief(answer(begin(), *empty, *text_block("Hi"), stop(9), *end()).blocks) == ["Hi"]


def test_arguments_join_the_open_call() -> None:
    events = [start(0, tool_use()), arguments('{"q": 1}', 5), stop(0)]
    assert brief(answer(begin(), *events, *end("tool_use")).blocks) == [("a", "find", {"q": 1})]


def test_orphan_arguments_are_a_visible_error() -> None:
    found = answer(begin(), *call_block("{}"), arguments('{"q": 1}', 5), *end("tool_use"))
    _, error = found.blocks
    assert isinstance(error, ToolUseError)
    assert (error.raw_data, error.error) == ('{"q": 1}', "the call does not name a tool")


def test_initial_arguments_are_shown_when_final() -> None:
    events = [begin(), start(0, tool_use(given={"q": 1})), stop(0), stop(0), *end("tool_use")]
    assert brief(answer(*events).blocks) == [("a", "find", {"q": 1})]
    assert shown(*events)[:2] == [
        ToolCallDelta(0, "a", "find", ""),
        ToolCallDelta(0, "a", "find", '{"q": 1}'),
    ]


@pytest.mark.parametrize(
    ("given", "value"), [('{"q": 1}', {"q": 1}), ([], {}), (None, {}), ("", {})]
)
def test_initial_arguments_may_be_text(given: object, value: object) -> None:
    block = {**tool_use(), "input": given}
    found = answer(begin(), start(0, block), stop(0), *end("tool_use"))
    assert brief(found.blocks) == [("a", "find", value)]


@pytest.mark.parametrize("pieces", [["{", '"q":'], ["[1]"], ["no"], [7], [[1]], [True]])
def test_non_object_arguments_are_visible_error(pieces: list[object]) -> None:
    (block,) = answer(begin(), *call_block(*pieces), *end("tool_use")).blocks
    assert isinstance(block, ToolUseError)
    assert (block.id, block.name) == ("a", "find")
    raw = "".join(piece if isinstance(piece, str) else json.dumps(piece) for piece in pieces)
    assert block.raw_data == raw


def test_several_objects_are_several_calls() -> None:
    found = answer(begin(), *call_block('{"q":1}{"q":2}'), *end("tool_use"))
    assert brief(found.blocks) == [("a", "find", {"q": 1}), ("call_1_0", "find", {"q": 2})]


def test_call_ids_are_unique_in_session() -> None:
    request = ModelRequest(
        REQUEST.messages, REQUEST.settings, turn=4, known_call_ids=frozenset({"a"})
    )
    events = [*call_block("{}"), *call_block("{}", call_id=None, index=1), *end("tool_use")]
    found = answer(begin(), *events, request=request)
    assert brief(found.blocks) == [("call_4_0", "find", {}), ("call_4_1", "find", {})]


def test_leaked_tokens_leave_the_name() -> None:
    found = answer(
        begin(),
        *call_block("{}", name="find<|channel|>commentary"),
        *call_block("{}", call_id="b", name="", index=1),
        start(2, {"type": "tool_use"}),
        *end("tool_use"),
    )
    assert brief(found.blocks) == [("a", "find", {}), ("b", "", "the call does not name a tool")]


def test_non_object_block_is_text() -> None:
    found = answer(begin(), start(0, None), text("Hi"), start(1, "x"), text("!", 1), *end())
    assert brief(found.blocks) == ["Hi", "!"]


def test_orphan_input_joins_open_server_tool() -> None:
    use: JsonObject = {"type": "server_tool_use", "id": "s", "name": "x", "input": {}}
    found = answer(begin(), start(0, use), arguments('{"q": 1}', 5), stop(0), *end())
    assert brief(found.blocks) == [{**use, "input": {"q": 1}}]


def test_blocks_of_nothing_are_left_out() -> None:
    empty = [start(0, THINKING), stop(0), *text_block("", index=1)]
    assert brief(answer(begin(), *empty, *text_block("Hi", index=2), *end()).blocks) == ["Hi"]


def test_repeated_signature_is_kept_once() -> None:
    events = [start(0, {**THINKING, "signature": "s"}), thought("Hm"), seal("s"), seal("s")]
    assert brief(answer(begin(), *events, *end()).blocks) == [("thinking", "Hm", "s")]


def test_duplicated_arguments_are_shown_once() -> None:
    events = [start(0, tool_use(given={"q": 1})), arguments('{"q": 2}'), stop(0)]
    assert brief(answer(begin(), *events, *end("tool_use")).blocks) == [("a", "find", {"q": 2})]
    pieces = [d.arguments for d in shown(begin(), *events, *end()) if isinstance(d, ToolCallDelta)]
    assert pieces == ["", '{"q": 2}']


def test_unknown_block_fields_grow_by_deltas() -> None:
    begun: JsonObject = {"type": "odd", "text": "a", "found": [1], "state": "x"}
    pieces: list[JsonObject] = [
        {"text": "b", "found": [2]},
        {"text": "c", "found": [[3]], "state": "y"},
        {"state": 1},
        {"state": "z"},
        {"state": "!"},
    ]
    events = [add(0, {"type": "odd_delta", **piece}) for piece in pieces]
    found = answer(begin(), start(0, begun), *events, stop(0), *end())
    grown: JsonObject = {"type": "odd", "text": "abc", "found": [1, 2, [3]], "state": "z!"}
    assert found.blocks == (OpaqueBlock(grown, "anthropic"),)
    assert begun == {"type": "odd", "text": "a", "found": [1], "state": "x"}


@pytest.mark.parametrize(
    "piece",
    [
        {"type": "citations_delta", "citation": {"cited_text": "x" * 50, "deep": [{"n": ["y"]}]}},
        {"type": "odd_delta", "found": [{"text": "x" * 50}]},
        {"type": "odd_delta", "text": "x" * 50},
    ],
)
def test_extras_count_toward_size_limit(piece: JsonObject) -> None:
    decoder = MessageDecoder(REQUEST, endpoint="http://endpoint")
    kind = "text" if piece["type"] == "citations_delta" else "odd"
    decoder.decode(json.dumps(start(0, {"type": kind, "text": "", "found": []})))
    for _ in range(400):
        decoder.decode(json.dumps(add(0, piece)))
    assert 400 * 50 < decoder.size < 400 * 100


def test_usage_sums_all_sampling_steps() -> None:
    """The totals leave out the compaction, which is billed too."""
    message: JsonObject = {
        "type": "message",
        "input_tokens": 23_000,
        "output_tokens": 1_000,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 5,
    }
    steps: list[JsonObject] = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        message,
    ]
    odd: list[JsonValue] = [*steps, None, {"type": "message", "output_tokens": -1}]
    totals = {"input_tokens": 23_000, "cache_read_input_tokens": 10}
    events = end(output_tokens=1_000, iterations=odd, **totals)
    found = answer(begin(), *text_block("Hi"), *events, *events)
    assert found.usage == Usage(203_015, 4_500, cache_read_tokens=10, cache_creation_tokens=5)


def test_higher_total_than_steps_counts() -> None:
    steps: list[JsonValue] = [{"type": "message", "input_tokens": 2, "output_tokens": 1}]
    odd: list[JsonObject] = [{"output_tokens": 9, "iterations": steps}, {"iterations": "odd"}]
    for usage, total in zip(odd, (9, 4), strict=True):
        found = answer(begin(), *text_block("Hi"), *end(**usage))
        assert found.usage == Usage(3, total)
