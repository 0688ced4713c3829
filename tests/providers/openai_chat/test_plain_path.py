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
from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.errors import ProviderError
from agent_actors.providers.openai_chat import wire
from agent_actors.providers.openai_chat.response import ChatResponseParser
from agent_actors.providers.openai_chat.wire import PlainField, read_fragments, read_plain
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


FRAGMENT: dict[str, Json] = {"index": 0, "function": {"arguments": '{"a": 1'}}
ODD_FRAGMENT: Mapping[str, Sequence[Json]] = {
    "index": [None, 1, -1, "0", True],
    "id": ["", None, "c", "d", 3],
    "extra_content": [None, {}, {"google": 1}],
    "type": ["function", None],
    "function": [
        None,
        {},
        *({"arguments": value} for value in ("", None, {}, {"b": 2}, "é", *HALVES, 5, "}")),
        *({"arguments": "x", "name": name} for name in ("", None, "f", "g")),
    ],
}


def fragment_event(calls: Json, odd: Sequence[tuple[str, str, Json]] = ()) -> bytes:
    return event(line({"tool_calls": calls}, odd))


def begin_event(index: int | None, call_id: str, name: str) -> bytes:
    return fragment_event([{"index": index, "id": call_id, "function": {"name": name}}])


def piece_event(index: int, arguments: str) -> bytes:
    return fragment_event([{"index": index, "function": {"arguments": arguments}}])


BEGINNINGS = st.builds(
    begin_event, st.sampled_from([0, 1, None]), st.sampled_from(["c", "d", ""]), st.just("f")
)
# Fragments for the fast path: some of them complete an object, and some belong to another call.
PIECES_OF_CALLS = st.builds(
    piece_event, st.sampled_from([0, 0, 0, 1]), st.sampled_from(['{"a": 1', "}", "2", '{"b": 3}'])
)
ODD_CALLS = st.lists(
    st.sampled_from([(key, odd) for key, odds in ODD_FRAGMENT.items() for odd in odds]), max_size=2
).map(lambda odd: [FRAGMENT | dict(odd)])
ODD_PIECES = st.builds(fragment_event, ODD_CALLS, st.lists(st.sampled_from(ODDITIES), max_size=1))


@st.composite
def call_bodies(draw: st.DrawFn) -> bytes:
    """Draw a stream in which most chunks add arguments to a call."""
    others = st.one_of(ODD_PIECES, ODD_EVENTS, st.sampled_from([*map(event, LINES[2:]), *PIECES]))
    events = st.one_of(PIECES_OF_CALLS, PIECES_OF_CALLS, BEGINNINGS, others)
    return draw(BEGINNINGS) + b"".join(draw(st.lists(events, max_size=12)))


BEGUN = begin_event(0, "c", "f")
PROSE = event(line({"content": "p"}, ()))
FINISHED = sse(chunk({}, "stop"), done=False)


@given(call_bodies(), st.lists(st.integers(0, 5000), max_size=5))
@example(BEGUN + piece_event(0, '{"a": 1}') + piece_event(1, "{}") + piece_event(0, "}"), [])
@example(
    BEGUN + begin_event(1, "d", "g") + piece_event(0, '{"a"') + piece_event(1, "{}") * 2, [150]
)
@example(BEGUN + piece_event(0, '{"a"') + event(b"{") + piece_event(0, ": 1}") + DONE, [])
@example(BEGUN + piece_event(0, '{"a": 1}') + sse(chunk({}, "stop"), done=False) + BEGUN, [])
@example(begin_event(0, "", "f") + piece_event(0, "{") + begin_event(0, "c", "") + DONE, [])
@example(BEGUN + piece_event(0, '{"a"') + FINISHED + event(b"{") + piece_event(0, ": 1}") * 2, [])
@example(
    BEGUN + piece_event(0, "{}") + PROSE * 3 + FINISHED + PROSE * 3 + event(b"{") + DONE,
    [],
)
def test_fast_and_tolerant_fragments_agree(body: bytes, cuts: list[int]) -> None:
    same([body])
    same(cut(body, cuts))


def test_flowing_arguments_use_fast_path_only(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ChatResponseParser(REQUEST, endpoint=ENDPOINT)
    reader.feed(sse(chunk({"tool_calls": [{**CALL, "function": {"name": "f"}}]}), done=False))
    fragments = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]})] * 3
    with monkeypatch.context() as quick_only:
        quick_only.delattr(wire, "_DECODER")
        shown = list(reader.feed(sse(*fragments, done=False)))
    assert shown == [ToolCallDelta(0, "c", "f", "1")] * 3


def test_deeply_nested_fragment_ends_fast_path() -> None:
    plain = json.dumps(chunk({"tool_calls": [FRAGMENT]})).encode()
    deep = plain[:-1] + b', "x": ' + b"[" * 300 + b"]" * 300 + b"}"
    assert read_fragments(0, [plain, deep, plain]) == ['{"a": 1']


def contents(deltas: Sequence[ModelDelta]) -> list[tuple[object, ...]]:
    """Return the content of deltas, in which neighbours of the same kind are joined."""
    joined: list[tuple[object, ...]] = []
    for one in deltas:
        match one:
            case TextDelta(text=text) | ThinkingDelta(text=text):
                kind: tuple[object, ...] = (type(one),)
            case ToolCallDelta(index, call_id, name, str(text)):
                kind = (index, call_id, name)
            case _:
                kind, text = (one,), ""
        if joined and joined[-1][:-1] == kind:
            text = f"{joined.pop()[-1]}{text}"
        joined.append((*kind, text))
    return joined


@given(st.one_of(bodies(), call_bodies()), st.lists(st.integers(0, 5000), max_size=5))
@example(BEGUN + piece_event(0, '{"a"') + piece_event(0, ": [") + piece_event(0, "]}") + DONE, [])
def test_unseen_deltas_are_joined_without_loss(body: bytes, cuts: list[int]) -> None:
    reads = cut(body, cuts)
    unseen = ChatResponseParser(REQUEST, endpoint=ENDPOINT, sees_text=False, sees_arguments=False)
    shown, answer = outcome(unseen, reads)
    expected, response = outcome(ChatResponseParser(REQUEST, endpoint=ENDPOINT), reads)
    assert answer == response
    assert [contents(read) for read in shown] == [contents(read) for read in expected]


@pytest.mark.parametrize(
    ("first", "more"),
    [
        ({"content": "a"}, {"content": "b"}),
        ({"tool_calls": [CALL]}, {"tool_calls": [FRAGMENT]}),
    ],
)
def test_unseen_read_has_one_delta(first: dict[str, Json], more: dict[str, Json]) -> None:
    unseen = ChatResponseParser(REQUEST, endpoint=ENDPOINT, sees_text=False, sees_arguments=False)
    unseen.feed(event(line(first, ())) + event(line(more, ())))
    assert len(unseen.feed(event(line(more, ())) * 50)) == 1


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
