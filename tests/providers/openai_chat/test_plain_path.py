"""The fast path for chunks that only add text gives the same results as the tolerant path.

The tolerant path is the same parser, prevented from reading several plain events in one step. The
tests compare all results: the deltas of each read, the response, and the error.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_actors.domain.blocks import AssistantBlock, TextBlock, ThinkingBlock
from agent_actors.domain.model import ModelCompleted, ModelDelta, TextDelta, ThinkingDelta
from agent_actors.errors import ProviderError
from agent_actors.providers.openai_chat import wire
from agent_actors.providers.openai_chat.response import ChatResponseParser
from agent_actors.providers.openai_chat.wire import PlainField, read_plain
from tests.providers.openai_chat.answers import (
    DONE,
    ENDPOINT,
    REQUEST,
    Careful,
    chunk,
    read_all,
    sse,
    text,
)

Json = object
Outcome = tuple[list[Sequence[ModelDelta]], ModelCompleted | str]

CALL = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 4}
HALVES = ("\ud83d", "\ude00")
THOUGHTS: Sequence[Json] = ("", "t", "th", *HALVES, None, {"text": "o"}, ["p"], 7)
PLAIN: list[dict[str, Json]] = [
    {"content": "a"},
    {"role": "assistant", "content": "bc"},
    {"content": "é"},
    {"content": ""},
    {"reasoning_content": "t"},
    {"reasoning": "t", "content": ""},
    {"reasoning": ""},
    {"reasoning_content": "t", "reasoning": "u"},
    {"reasoning_content": "", "reasoning": "u"},
]
# Values that may occur in a chunk, in its choice, and in the choice's delta.
ODD: Mapping[str, Mapping[str, Sequence[Json]]] = {
    "chunk": {
        "id": ["", None, "other", 3],
        "model": ["", None, "other", 3],
        "choices": [None, [], {"delta": {"content": "x"}}, [{"delta": {"content": "x"}}] * 2, "x"],
        "usage": [None, USAGE, {}, 3],
        "error": [None, "", {}, "broken"],
        "message": [None, "", "broken"],
        "detail": [None, "", "broken"],
        "x_groq": [None, {}, {"usage": USAGE}, {"error": "broken"}, "x"],
    },
    "choice": {
        "index": [1, None],
        "delta": [None, "x", {}],
        "message": [None, {"content": "whole"}, "x"],
        "finish_reason": ["", "null", "None", "stop", "length", "error", 3],
        "error": [None, "", {}, "broken"],
        "usage": [None, USAGE, {}, "x"],
    },
    "delta": {
        "role": ["assistant", "", None, 3],
        "content": ["x", "", *HALVES, None, 5, ["p"], [{"type": "text", "text": "p"}]],
        "reasoning_content": THOUGHTS,
        "reasoning": THOUGHTS,
        "refusal": ["", None, "no", 1],
        "tool_calls": [[], None, [CALL], CALL, "x"],
        "function_call": [None, {}, {"name": "f", "arguments": "{}"}],
        "extra_content": [None, {}, {"google": 1}, "x"],
        "annotations": [[], ["x"]],
        "reasoning_details": [[], None, [{"type": "reasoning.text", "text": "t"}], "x"],
        "images": [[], None, ["x"], "x"],
        "audio": [None, {}, {"transcript": "t"}, "x"],
    },
}
ODDITIES = [
    (level, key, value) for level, keys in ODD.items() for key in keys for value in keys[key]
]


def line(delta: dict[str, Json], odd: Sequence[tuple[str, str, Json]]) -> bytes:
    """Return a chunk with these unusual values, as a data line."""
    delta = {**delta, **{key: value for level, key, value in odd if level == "delta"}}
    choice = {"delta": delta, **{key: value for level, key, value in odd if level == "choice"}}
    whole = {"id": "r", "model": "m", "choices": [choice]}
    return json.dumps(
        {**whole, **{key: value for level, key, value in odd if level == "chunk"}}
    ).encode()


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def flow(delta: dict[str, Json]) -> bytes:
    """Return the beginning of a stream, after which the parser uses the fast path."""
    return event(line({"content": "text"}, ())) + event(line(delta, ())) * 3


ODD_EVENTS = st.builds(
    line, st.sampled_from(PLAIN), st.lists(st.sampled_from(ODDITIES), min_size=1, max_size=3)
).map(event)
LINES = [b"[DONE]", b" [DONE]", b"null", b"[]", b"{", b"[" * 2000, b"\xff"]
PIECES = [
    *(
        b": ping\n\n",
        b"\n",
        b"id: 7\nretry: 3\n",
        b"data: {}\r\n\r\n",
        b"data: \r\n\n",
        b"err",
        b"error",
    ),
    *(
        b"event: error\ndata: bad\n\n",
        b'error: {"message": "bad"}\n\n',
        b"data: two\ndata: lines\n\n",
    ),
]


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw a stream in which most chunks have the same form."""
    habit = draw(st.sampled_from(PLAIN))
    plain = event(line(habit, ()))
    others = st.one_of(ODD_EVENTS, st.sampled_from([*map(event, LINES), *PIECES]))
    events = st.one_of(st.just(plain), st.just(plain), ODD_EVENTS, others)
    body = flow(habit) + b"".join(draw(st.lists(events, max_size=8)))
    bom = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    newline = draw(st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"]))
    return bom + body.replace(b"\n", newline)


def outcome(reader: ChatResponseParser, reads: Sequence[bytes]) -> Outcome:
    """Return all results of these reads."""
    shown: list[Sequence[ModelDelta]] = []
    try:
        shown += [list(reader.feed(data)) for data in reads]
        shown.append(list(reader.close()))
        return shown, reader.finish()
    except ProviderError as error:
        return shown, str(error)


def same(reads: Sequence[bytes]) -> Outcome:
    """Return the results of these reads; check that both paths agree."""
    quick = outcome(ChatResponseParser(REQUEST, endpoint=ENDPOINT), reads)
    assert quick == outcome(Careful(REQUEST, endpoint=ENDPOINT), reads)
    return quick


def cut(body: bytes, cuts: Sequence[int]) -> list[bytes]:
    return [body[a:b] for a, b in pairwise([0, *sorted(at % len(body) for at in cuts), len(body)])]


@pytest.mark.parametrize("delta", PLAIN, ids=str)
def test_fast_path_misses_nothing(delta: dict[str, Json]) -> None:
    for oddity in ODDITIES:
        for first in (flow(delta), b""):
            odd = event(line(delta, [oddity]))
            same([first + odd + event(line(delta, ())), DONE])


@given(bodies(), st.lists(st.integers(0, 5000), max_size=5))
@example(b"data: [DONE]\r\n\r\n" + sse(text("late")), [16])
@example(b"data: [DONE]\n\n" + sse(text("late")), [16])
@example(sse(text("\ud83d"), text("\ude00"), text("c")), [])
@example(sse(text("a"), text("b"), done=False) + b"error: x\n\n", [-5])
def test_fast_and_tolerant_paths_agree(body: bytes, cuts: list[int]) -> None:
    same([body])
    same(cut(body, cuts))


@given(bodies(), st.integers(0, 5000), st.binary(min_size=1, max_size=2))
def test_invalid_utf8_keeps_paths_equal(body: bytes, at: int, odd: bytes) -> None:
    at %= len(body)
    same([body[:at] + odd + body[at:]])


def test_invalid_utf8_in_skipped_field_is_damage() -> None:
    line = sse(text("a"), text("b"), text("c"))
    _, answer = same([line.replace(b'"model": "m-1"', b'"model": "m\x80"')])
    assert isinstance(answer, ModelCompleted)
    assert answer.damaged_lines == 3


@pytest.mark.parametrize("late", ["id", "model"])
def test_late_name_is_accepted(late: str) -> None:
    found: list[dict[str, Json]] = [text("a"), text("b"), text("c"), chunk({}, "stop")]
    for one in (found[0], found[1], found[3]):
        del one[late]
    _, answer = same([sse(*found)])
    assert isinstance(answer, ModelCompleted)
    assert (answer.response_id, answer.model, answer.text) == ("r", "m-1", "abc")


FLOWS: dict[PlainField, tuple[ModelDelta, AssistantBlock]] = {
    "content": (TextDelta("piece "), TextBlock("first other piece piece piece ")),
    "reasoning_content": (ThinkingDelta("piece "), ThinkingBlock("first other piece piece piece ")),
    "reasoning": (ThinkingDelta("piece "), ThinkingBlock("first other piece piece piece ")),
}


@pytest.mark.parametrize("field", FLOWS)
@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"role": "assistant", "tool_calls": [], "refusal": None, "annotations": []},
        {"function_call": None, "extra_content": None, "refusal": ""},
    ],
)
@pytest.mark.parametrize("finish", [None, ""])
def test_flowing_text_uses_fast_path_only(
    field: PlainField, extra: dict[str, Json], finish: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece, block = FLOWS[field]
    flow = sse(*[chunk({field: "piece ", **extra}, finish)] * 3, done=False)
    reader = ChatResponseParser(REQUEST, endpoint=ENDPOINT)
    reader.feed(sse(chunk({field: "first "}), chunk({field: "other "}), done=False))
    with monkeypatch.context() as quick_only:
        quick_only.delattr(wire, "_DECODER")
        assert list(reader.feed(flow)) == [piece] * 3
    reader.feed(DONE)
    assert not reader.close()
    assert reader.finish().blocks == (block,)


@pytest.mark.parametrize(
    ("field", "delta"),
    [
        ("content", {"content": "a", "reasoning": "b"}),
        ("content", {"content": "a", "refusal": "b"}),
        ("content", {"content": "a", "tool_calls": [CALL]}),
        ("content", {"content": "a", "extra_content": {"x": 1}}),
        ("content", {"content": None}),
        ("content", {"content": "\ud83d"}),
        ("reasoning_content", {"reasoning_content": "a", "content": "b"}),
        ("reasoning_content", {"reasoning_content": "", "reasoning": "b"}),
        ("reasoning", {"reasoning": "a", "content": "b"}),
        ("reasoning", {"reasoning": "a", "reasoning_content": "b"}),
    ],
)
def test_complex_line_ends_the_fast_path(field: PlainField, delta: dict[str, Json]) -> None:
    plain, other = (json.dumps(chunk(one)).encode() for one in ({field: "p"}, delta))
    assert read_plain(field, [plain, plain, other, plain]) == ["p", "p"]


def test_finish_and_usage_use_careful_path() -> None:
    plain = json.dumps(text("p")).encode()
    finished = json.dumps(text("p", "stop")).encode()
    counted = json.dumps(chunk({"content": "p"}, usage=USAGE)).encode()
    failed = json.dumps(chunk({"content": "p"}, error={"message": "x"})).encode()
    for other in (finished, counted, failed, b"[DONE]", b"{", b"\xff"):
        assert read_plain("content", [plain, other]) == ["p"]


def test_alternating_text_and_thinking_keep_order() -> None:
    chunks = [chunk({"reasoning": "t"})] * 3 + [text("a")] * 3 + [chunk({"reasoning": "u"})] * 3
    shown, answer = read_all([sse(*chunks)])
    assert answer.blocks == (ThinkingBlock("ttt"), TextBlock("aaa"), ThinkingBlock("uuu"))
    assert shown == [*[ThinkingDelta("t")] * 3, *[TextDelta("a")] * 3, *[ThinkingDelta("u")] * 3]
