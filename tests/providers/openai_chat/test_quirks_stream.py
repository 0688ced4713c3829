"""Quirks 32 to 48 of text, thinking, usage and the stream itself; each test has its quirk's number.

For quirk 41 (cumulative text), long texts are recognized automatically. Short texts, and a repeat
of all text at the end, need a dialect that declares the quirk (`ChatDialect.cumulative`). For quirk
40, sending thinking back must be declared too (`ChatDialect.echo_reasoning`).
"""

import json
from typing import TYPE_CHECKING

import pytest

from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import NoticeDelta, UsageDelta
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderConnectError, ProviderProtocolError
from agent_actors.protocol.retry import judge
from agent_actors.providers.openai_chat.response import ChatResponseParser
from agent_actors.providers.response_sink import CUT_SHORT
from tests.providers.openai_chat.answers import (
    DONE,
    ENDPOINT,
    REQUEST,
    answer,
    calls,
    chunk,
    entry,
    made,
    read,
    read_all,
    said,
    shown_text,
    sse,
    text,
)

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject

GRIN = "\N{GRINNING FACE}"
HELLO = (text("Hel"), text("lo"), chunk({}, "stop"))
LONG = "The quick brown fox jumps over the lazy dog, again and again and again."


def protocol_error(body: bytes, content_type: str = "") -> str:
    with pytest.raises(ProviderProtocolError) as caught:
        read_all([body], content_type=content_type)
    return str(caught.value)


# --- the end of a stream --------------------------------------------------------------------------


def test_quirk_32_text_without_end() -> None:
    found = answer(text("Hel"), text("lo"), done=False)
    assert (found.text, found.finish_reason) == ("Hello", "unmarked")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (sse(text("Hel"), done=False), True),
        (sse(*HELLO), False),
        (sse(text("Hel"), chunk({}, "stop"), done=False), False),
    ],
    ids=["no word of the end", "an end mark", "a finish reason"],
)
def test_quirk_32_possible_truncation_is_reported(body: bytes, expected: bool) -> None:
    reader = ChatResponseParser(REQUEST, endpoint=ENDPOINT)
    shown = [*reader.feed(body), *reader.close()]
    assert (NoticeDelta(CUT_SHORT) in shown) == expected


@pytest.mark.feature("OAS-063")
def test_quirk_32_complete_calls_without_end() -> None:
    found = answer(calls(entry(0, "a", "f", '{"x":1}')), done=False)
    assert made(found) == [("a", "f", {"x": 1})]


def test_quirk_32_truncated_call_without_end() -> None:
    found = answer(text("Hi"), calls(entry(0, "a", "f", "")), done=False)
    assert isinstance(found.blocks[1], ToolUseError)


@pytest.mark.parametrize(
    "chunks", [[calls(entry(0, "a", "f", '{"x"'))], [chunk({"reasoning": "Hm"})]]
)
def test_quirk_32_nothing_complete_without_end(chunks: list[object]) -> None:
    with pytest.raises(ProviderConnectError, match="the response is incomplete") as caught:
        answer(*chunks, done=False)
    assert judge(caught.value, now=0).again


def test_quirk_32_done_without_finish_reason() -> None:
    found = answer(chunk({"reasoning": "Hm"}), calls(entry(0, "a", "now", "")))
    assert made(found) == [("a", "now", {})]
    thinking = answer(chunk({"reasoning": "Hm"}))
    assert thinking.blocks == (ThinkingBlock("Hm"),)
    assert thinking.finish_reason == "unknown"


def test_quirk_32_last_event_without_blank_line() -> None:
    assert read(
        sse(*HELLO, done=False) + b'data: {"choices":[{"delta":{"content":"!"}}]}'
    ).text == ("Hello!")


@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b": ping\n\n", DONE, sse(chunk({"role": "assistant"}))]
)
def test_empty_stream_is_no_response(body: bytes) -> None:
    assert "contained neither a response" in protocol_error(body)


def test_intentionally_empty_response_is_valid() -> None:
    assert answer(chunk({"content": ""}, "stop")).blocks == ()


@pytest.mark.feature("OAGS-038")
def test_done_ends_the_stream() -> None:
    reader = ChatResponseParser(REQUEST, endpoint=ENDPOINT)
    reader.feed(sse(*HELLO) + b'data: {"error":{"message":"late"}}\n\n' + sse(text("more")))
    assert reader.done
    reader.close()
    assert reader.finish().text == "Hello"


def test_done_with_blanks_ends_stream() -> None:
    assert read(sse(*HELLO, done=False) + b"data:  [DONE] \n\n").text == "Hello"


# --- odd chunks -----------------------------------------------------------------------------------


def test_quirk_33_first_chunk_without_choices() -> None:
    first: JsonObject = {
        "id": "",
        "choices": [],
        "created": 0,
        "model": "",
        "object": "",
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
    }
    found = answer(first, *HELLO)
    assert (found.text, found.model, found.response_id) == ("Hello", "m-1", "r")


def test_quirk_34_null_delta_and_chunk() -> None:
    absent = {"choices": [{"index": 0, "finish_reason": None}]}
    found = answer(None, chunk(None), absent, *HELLO, {"choices": None}, 7, {"choices": [None]})
    assert found.text == "Hello"


def test_invalid_json_line_is_skipped() -> None:
    assert read(b"data: not json\n\n" + sse(*HELLO)).text == "Hello"


def test_only_invalid_lines_are_reported() -> None:
    message = protocol_error(b"data: not json\n\ndata: \xff{\n\n" + DONE)
    assert "2 data line(s) that are not JSON; the first is 'not json'" in message


def test_chunk_array_is_read_one_by_one() -> None:
    assert answer([text("Hel"), text("lo")], [chunk({}, "stop")]).text == "Hello"


def test_odd_ids_keep_the_text() -> None:
    odd = {**text("Hello"), "id": 12, "model": ["m"], "usage": "none"}
    found = answer(odd, chunk({}, "stop"))
    assert (found.text, found.response_id, found.model) == ("Hello", "12", "m-1")


# --- usage ----------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}


@pytest.mark.feature("OAS-115")
def test_quirk_35_usage_in_own_chunk() -> None:
    assert answer(*HELLO, {"choices": [], "usage": USAGE}).usage == Usage(12, 3)


def test_quirk_35_usage_in_every_chunk() -> None:
    shown, found = read_all(
        [
            sse(
                {**text("Hel"), "usage": {"prompt_tokens": 12, "completion_tokens": 1}},
                {**text("lo"), "usage": {"prompt_tokens": 12, "completion_tokens": 2}},
                {**chunk({}, "stop"), "usage": USAGE},
            )
        ]
    )
    assert found.usage == Usage(12, 3)
    assert shown[-1] == UsageDelta(Usage(12, 3))


def test_quirk_35_usage_then_empty_usage() -> None:
    zero = {"prompt_tokens": 0, "completion_tokens": 0}
    found = answer(
        *HELLO, {"choices": [], "usage": USAGE}, {"choices": [], "usage": None}, {"usage": zero}
    )
    assert found.usage == Usage(12, 3)


def test_quirk_36_usage_inside_the_choice() -> None:
    last = chunk({}, "stop")
    last["choices"] = [{"delta": {}, "finish_reason": "stop", "usage": USAGE}]
    assert answer(text("Hi"), last).usage == Usage(12, 3)


@pytest.mark.feature("ASDK-016", "OAS-115")
@pytest.mark.parametrize(
    "details",
    [
        {
            "prompt_tokens_details": {"cached_tokens": 8, "cache_creation_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
        {
            "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
            "output_tokens_details": {"reasoning_tokens": 1.0},
        },
        {"prompt_cache_hit_tokens": 8, "cache_creation_input_tokens": 2, "reasoning_tokens": 1},
        {
            "prompt_tokens_details": None,
            "cache_read_input_tokens": 8,
            "cache_creation_input_tokens": 2,
            "reasoning_tokens": 1,
        },
    ],
)
def test_usage_has_cached_created_and_reasoning_tokens(details: dict[str, object]) -> None:
    found = answer(*HELLO, {"choices": [], "usage": {**USAGE, **details}})
    assert found.usage == Usage(12, 3, 8, 2, 1)


@pytest.mark.feature("ASDK-024")
def test_missing_usage_is_estimated() -> None:
    assert answer(*HELLO).usage == Usage(1, 1, estimated=True)


def test_invalid_counts_are_ignored() -> None:
    odd = {
        "prompt_tokens": "12",
        "completion_tokens": True,
        "reasoning_tokens": -1,
        "cached_tokens": 4,
    }
    assert answer(*HELLO, {"usage": odd}).usage == Usage(1, 1, cache_read_tokens=4, estimated=True)


@pytest.mark.feature("ASDK-024")
@pytest.mark.parametrize(
    ("expected", "usage"),
    [
        ({"completion_tokens": 3}, Usage(1, 3, estimated=True)),
        ({"prompt_tokens": 12}, Usage(12, 1, estimated=True)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(1, 1, estimated=True)),
    ],
)
def test_uncounted_tokens_are_estimated(expected: dict[str, int], usage: Usage) -> None:
    assert answer(*HELLO, {"choices": [], "usage": expected}).usage == usage


def test_empty_response_estimates_no_tokens() -> None:
    nothing = answer(chunk({}, "stop"), {"choices": [], "usage": {"prompt_tokens": 12}})
    assert nothing.usage == Usage(12, 0, estimated=True)


def test_reported_zero_count_is_kept() -> None:
    counts = {"prompt_tokens": 0, "completion_tokens": 3}
    assert answer(*HELLO, {"choices": [], "usage": counts}).usage == Usage(0, 3)


# --- thinking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_quirk_37_reasoning_under_either_name(field: str) -> None:
    found = answer(chunk({field: "H", "content": ""}), chunk({field: "m", "content": ""}), *HELLO)
    assert found.blocks == (ThinkingBlock("Hm"), TextBlock("Hello"))


def test_quirk_37_both_names_count_once() -> None:
    both = chunk({"reasoning_content": "Hm", "reasoning": "Hm"})
    assert answer(both, *HELLO).blocks == (ThinkingBlock("Hm"), TextBlock("Hello"))


def test_quirk_38_reasoning_as_an_object() -> None:
    odd = chunk({"reasoning_content": {"text": "Hm", "signature": "seal"}})
    empty = chunk({"reasoning_content": {"redacted": "x"}})
    assert answer(odd, empty, *HELLO).blocks[0] == ThinkingBlock("Hm", "seal")


def test_quirk_39_content_in_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "'s a "}, "greeting", 3]}
    found = answer(
        text([thinking]),
        text([{"type": "text", "text": "Hel"}, "l", 7, "", {"type": "reference", "ids": [1]}]),
        text({"type": "text", "text": "o"}),
        chunk({"reasoning": ["", "?"]}),
        chunk({}, "stop"),
    )
    assert found.blocks == (
        ThinkingBlock("'s a greeting"),
        TextBlock("Hello"),
        ThinkingBlock("?"),
    )


def test_quirk_40_echoes_stay_with_part() -> None:
    seal: JsonObject = {"google": {"thought_signature": "s1"}}
    of_call = {**entry(0, "a", "f", "{}"), "extra_content": seal}
    found = answer(
        chunk({"content": "Hi", "extra_content": seal}), calls(of_call), chunk({}, "stop")
    )
    assert found.blocks == (
        TextBlock("Hi", extra={"extra_content": seal}),
        ToolUseBlock("a", "f", {}, "{}", extra={"extra_content": seal}),
    )
    bare = {"index": 0, "extra_content": seal}
    late = answer(calls(entry(0, "a", "f", "{}")), calls(bare), chunk({}, "stop"))
    assert late.blocks[0].extra == {"extra_content": seal}


# --- repeated text --------------------------------------------------------------------------------


@pytest.mark.feature("OAS-060")
def test_quirk_41_cumulative_content() -> None:
    growing = [text(LONG[:end]) for end in range(4, len(LONG) + 1)]
    assert said(answer(*growing, chunk({}, "stop"))) == [LONG]
    assert shown_text(*growing, chunk({}, "stop")) == LONG


def test_quirk_41_growing_message_alongside_deltas() -> None:
    chunks = [text(word) for word in ("Hel", "lo")]
    for at, one in enumerate(chunks):
        one["choices"] = [
            {"delta": {"content": ("Hel", "lo")[at]}, "message": {"content": ("Hel", "Hello")[at]}}
        ]
    assert answer(*chunks, chunk({}, "stop")).text == "Hello"


@pytest.mark.feature("OAS-060")
def test_short_repeat_of_stream_survives() -> None:
    assert answer(text("ha"), text("ha"), text("!"), chunk({}, "stop")).text == "haha!"


# --- the format of the stream ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise", [b": OPENROUTER PROCESSING\n\n", b": keep-alive\n", b":\n\n", b"\n", b": ping\n\n\n"]
)
def test_quirk_42_comments_and_blank_lines(noise: bytes) -> None:
    body = noise + b"".join(sse(one, done=False) + noise for one in HELLO) + DONE
    assert read(body).text == "Hello"


def test_quirk_43_no_space_and_named_events() -> None:
    body = sse(*HELLO).replace(b"data: ", b"event:message\ndata:")
    assert read(body).text == "Hello"


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
@pytest.mark.feature("OAGS-037")
def test_quirk_44_other_line_ends(end: bytes) -> None:
    assert read(sse(*HELLO).replace(b"\n", end)).text == "Hello"


@pytest.mark.feature("OAGS-037")
def test_data_in_several_lines_is_joined() -> None:
    body = json.dumps(text("Hello"), indent=1).encode()
    assert read(b"data: " + body.replace(b"\n", b"\ndata: ") + b"\n\n" + DONE).text == "Hello"


# --- characters -----------------------------------------------------------------------------------


def test_quirk_48_utf8_split_across_reads() -> None:
    body = b'data: {"choices":[{"delta":{"content":"' + f"a{GRIN}é".encode() + b'"}}]}\n\n' + DONE
    assert read(body).text == f"a{GRIN}é"


def test_quirk_48_surrogates_split_across_deltas() -> None:
    found = answer(text("a\ud83d"), text("\ude00b\ud83d"), chunk({}, "stop"))
    assert found.text == f"a{GRIN}b\ufffd"
    found.text.encode()


def test_quirk_48_surrogates_split_across_arguments() -> None:
    found = answer(
        calls(entry(0, "a", "f", '{"x":"\ud83d')), calls(entry(0, None, None, '\ude00"}'))
    )
    assert made(found) == [("a", "f", {"x": GRIN})]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("refusal", "refusal"),
        ("stop", "stop"),
        ("something_new", "unknown"),
    ],
)
def test_finish_reasons_are_normalized(finish: str, reason: str) -> None:
    assert answer(text("Hi"), chunk({}, finish)).finish_reason == reason


def test_refusal_is_text_with_its_reason() -> None:
    found = answer(chunk({"refusal": "I ca"}), chunk({"refusal": "n't."}), chunk({}, "stop"))
    assert (found.text, found.finish_reason) == ("I can't.", "refusal")


@pytest.mark.parametrize("more", [{}, {"usage": None}])
def test_token_counts_of_groq_are_read(more: dict[str, object]) -> None:
    counts = {"prompt_tokens": 12, "completion_tokens": 3}
    last = chunk({}, "stop", x_groq={"id": "req_1", "usage": counts}, **more)
    assert answer(text("Hi"), last).usage == Usage(12, 3)
    assert answer(text("Hi"), chunk({}, "stop", x_groq={"usage": "odd"})).usage.estimated
