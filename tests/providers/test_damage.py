"""Damaged and refused responses in both protocols: which of their calls may run.

The test draws a response as frames of one event each and damages one or more frames. The oracle
knows the response as sent: a call that is read as a `ToolUseBlock` must have exactly the arguments
sent for its id. Damage that leaves another valid JSON object is left out, because no reader can
detect it.
"""

import json
from collections.abc import Sequence
from typing import cast

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_actors.domain.blocks import ThinkingBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import REFUSALS, ModelCompleted, ModelDelta, NoticeDelta
from agent_actors.errors import ProviderError
from agent_actors.testing import strategies
from tests.providers.anthropic import answers as messages
from tests.providers.openai_chat import answers as chat

PROTOCOLS = ("chat", "messages")


@attrs.frozen
class Sent:
    """A response as it was sent, and its calls by id."""

    protocol: str
    frames: tuple[bytes, ...]
    calls: dict[str, tuple[str, dict[str, object]]]


TEXTS = st.text('ab{}"\\:, é', max_size=12)
ARGUMENTS: st.SearchStrategy[dict[str, object]] = st.dictionaries(
    st.sampled_from(["path", "text", "n"]), TEXTS | st.integers(), max_size=3
)


@st.composite
def calls(draw: st.DrawFn, place: int) -> tuple[str, str, dict[str, object], list[str]]:
    """Draw a call: its id, name and arguments, and the fragments of the arguments."""
    arguments = draw(ARGUMENTS)
    spelled = bool(arguments) or draw(st.booleans())
    whole = json.dumps(arguments, ensure_ascii=False) if spelled else ""
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    return f"id-{place}", draw(st.sampled_from(["find", "write"])), arguments, pieces


@st.composite
def responses(draw: st.DrawFn, protocol: str, *, ends: bool = True) -> Sent:
    """Draw a response of text, then calls, which chat completions may interleave."""
    made = [draw(calls(place)) for place in range(draw(st.integers(0, 3)))]
    said = draw(st.sampled_from(["", "Let me see."]))
    if protocol == "chat":
        frames = _chat(said, made, interleaved=draw(st.booleans()), repeats=draw(st.booleans()))
        frames += [chat.sse(chat.chunk({}, "tool_calls"), done=False), chat.DONE] if ends else []
    else:
        frames = _messages(said, made)
        frames += [messages.frame(one) for one in messages.end("tool_use")] if ends else []
    return Sent(protocol, tuple(frames), {one[0]: (one[1], one[2]) for one in made})


def _chat(
    said: str,
    made: Sequence[tuple[str, str, dict[str, object], list[str]]],
    *,
    interleaved: bool,
    repeats: bool,
) -> list[bytes]:
    streams: list[list[dict[str, object]]] = []
    for place, (call_id, name, _, pieces) in enumerate(made):
        first = chat.entry(place, call_id, name, "")
        known_id, known_name = (call_id, name) if repeats else (None, None)
        more = [chat.entry(place, known_id, known_name, piece) for piece in pieces]
        streams.append([first, *more])
    entries = [one for stream in streams for one in stream]
    if interleaved:
        longest = max(map(len, streams), default=0)
        entries = [one[at] for at in range(longest) for one in streams if at < len(one)]
    chunks = [chat.text(said), *(chat.calls(one) for one in entries)]
    return [chat.sse(one, done=False) for one in chunks]


def _messages(
    said: str, made: Sequence[tuple[str, str, dict[str, object], list[str]]]
) -> list[bytes]:
    events = [messages.begin(), *messages.text_block(said)]
    for place, (call_id, name, _, pieces) in enumerate(made, start=1):
        events += messages.call_block(*pieces, call_id=call_id, name=name, index=place)
    return [messages.frame(one) for one in events]


def reads(sent: Sent, frames: Sequence[bytes], split: Sequence[int]) -> list[bytes]:
    body = b"".join(frames)
    places = sorted({at % (len(body) + 1) for at in split})
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def read(protocol: str, pieces: Sequence[bytes]) -> tuple[list[ModelDelta], ModelCompleted]:
    return chat.read_all(pieces) if protocol == "chat" else messages.read_all(pieces)


def outcome(protocol: str, pieces: Sequence[bytes]) -> tuple[object, ModelCompleted | str]:
    """Return the deltas and the response or its error, to compare splits."""
    try:
        return read(protocol, pieces)
    except ProviderError as error:
        return None, str(error)


# --- damage ---------------------------------------------------------------------------------------

GARBAGE = st.sampled_from([b"\xff", b"\x00\x01", b"<html>", b"}{", b'"', b"\n", b"\r", b"]"])


@st.composite
def damaged(draw: st.DrawFn, frame: bytes) -> bytes:
    """Draw a frame with a part lost or overwritten, so that it is not a valid event."""
    body = frame.rstrip(b"\n")
    start = draw(st.integers(0, len(body) - 1))
    end = draw(st.integers(start + 1, len(body)))
    kind = draw(st.sampled_from(["cut", "overwritten", "inserted", "begin", "end", "line end"]))
    match kind:
        case "cut":
            body = body[:start] + body[end:]
        case "overwritten":
            body = body[:start] + draw(GARBAGE) + body[start + 1 :]
        case "inserted":
            body = body[:start] + draw(GARBAGE) + body[start:]
        case "begin":
            body = body[start:]
        case "end":
            body = body[: start + 1]
        case _:
            return body  # the next frame continues on the same line
    return body + b"\n\n"


def is_seen(before: bytes, after: bytes) -> bool:
    """Return whether a reader can detect the damage: no line is another valid event."""
    if not after.strip():
        return False
    lines = [line for line in after.replace(b"\r", b"\n").split(b"\n") if line]
    data = b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
    if b"[DONE]" in before or not data:
        # The standard ignores a frame that became a comment, and a short field name without JSON.
        return any(line.rstrip().endswith(b"}") and line != data for line in lines)
    try:
        value = json.loads(data)
    except ValueError:
        return True
    return value is not None and not isinstance(value, dict) and value != []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(st.data())
def test_damage_never_changes_a_call(protocol: str, data: st.DataObject) -> None:
    sent = data.draw(responses(protocol))
    frames = list(sent.frames)
    places = data.draw(st.sets(st.integers(0, len(frames) - 1), min_size=1, max_size=2))
    for at in places:
        frames[at] = data.draw(damaged(sent.frames[at]))
        assume(is_seen(sent.frames[at], frames[at]))
    split = data.draw(st.lists(st.integers(0, 10_000), max_size=6))
    found = outcome(protocol, reads(sent, frames, split))
    body = b"".join(frames)
    assert outcome(protocol, [body[at : at + 1] for at in range(len(body))]) == found
    if isinstance(found[1], str):
        return  # the response failed with a typed error, and none of its calls runs
    assert_as_sent(sent, found[1])
    if min(places) + 2 < len(frames):  # otherwise the response was complete before the damage
        assert found[1].damaged_lines
        assert any(isinstance(one, NoticeDelta) for one in cast("list[ModelDelta]", found[0]))


def assert_as_sent(sent: Sent, found: ModelCompleted) -> None:
    for block in found.blocks:
        if isinstance(block, ToolUseBlock):
            assert (block.name, block.input) == sent.calls[block.id]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(st.data())
def test_no_call_that_lost_a_line_runs(protocol: str, data: st.DataObject) -> None:
    """If a line between the fragments of a call is lost, the rest may look complete."""
    sent = data.draw(responses(protocol).filter(lambda one: bool(one.calls)))
    mark = b"tool_calls" if protocol == "chat" else b"input_json_delta"
    inside = [at for at, frame in enumerate(sent.frames) if mark in frame and b"id-" not in frame]
    inside = [
        at for at in inside if b'finish_reason": null' in sent.frames[at] or protocol != "chat"
    ]
    assume(inside)
    at = data.draw(st.sampled_from(inside))
    frames = [*sent.frames[:at], b"data: {damaged\n\n", *sent.frames[at + 1 :]]
    _, found = read(protocol, frames)
    lost = json.loads(sent.frames[at].split(b"data: ")[1])
    place = _place_of(lost, protocol)
    (block,) = [one for one in _calls_of(found) if one.id == f"id-{place}"]
    assert isinstance(block, ToolUseError)
    assert "lost or damaged" in block.error
    assert_as_sent(sent, found)


def _place_of(event: dict[str, object], protocol: str) -> int:
    if protocol == "messages":
        return cast(int, event["index"]) - 1
    choices = cast("list[dict[str, dict[str, list[dict[str, int]]]]]", event["choices"])
    return choices[0]["delta"]["tool_calls"][0]["index"]


def _calls_of(found: ModelCompleted) -> list[ToolUseBlock | ToolUseError]:
    return [one for one in found.blocks if isinstance(one, ToolUseBlock | ToolUseError)]


DAMAGE = b"data: {damaged\n\n"
A = '{"q": "A"}'


def chat_frames(*parts: object) -> list[bytes]:
    return [one if isinstance(one, bytes) else chat.sse(one, done=False) for one in parts]


@pytest.mark.parametrize(
    ("parts", "runs"),
    [
        pytest.param(
            [chat.calls(chat.entry(0, "a", "f", A)), DAMAGE], [], id="after the last call"
        ),
        pytest.param(
            [
                chat.calls(chat.entry(0, "a", "f", A)),
                chat.calls(chat.entry(1, "b", "f", "")),
                DAMAGE,
                chat.calls(chat.entry(1, None, None, A)),
            ],
            ["a"],
            id="in the second call",
        ),
        pytest.param([DAMAGE, chat.calls(chat.entry(0, "a", "f", A))], ["a"], id="before the call"),
        pytest.param(
            [DAMAGE, chat.calls(chat.entry(0, "a", "f", ""))], [], id="before no arguments"
        ),
        pytest.param(
            [
                chat.calls(chat.entry(0, "a", "f", "{}")),
                chat.calls(chat.entry(1, "b", "f", A)),
                DAMAGE,
                chat.calls(chat.entry(2, "c", "f", A)),
            ],
            ["c"],
            id="after an empty object",
        ),
        pytest.param(
            [
                chat.calls(chat.entry(0, "a", "f", A)),
                chat.calls(chat.entry(1, "b", "f", A)),
                DAMAGE,
                chat.calls(chat.entry(0, "a", None, " ")),
            ],
            [],
            id="more of a call that was complete",
        ),
        pytest.param(
            [
                DAMAGE,
                chat.calls(chat.entry(1, "b", "f", "")),
                chat.calls(chat.entry(0, None, None, A)),
            ],
            [],
            id="arguments of a call whose beginning is lost",
        ),
    ],
)
def test_chat_damage_spares_complete_calls(parts: list[object], runs: list[str]) -> None:
    _, found = read("chat", chat_frames(*parts, chat.chunk({}, "tool_calls"), chat.DONE))
    assert [one.id for one in found.blocks if isinstance(one, ToolUseBlock)] == runs


def test_damage_after_the_chat_reason_spares_calls() -> None:
    one = chat.calls(chat.entry(0, "a", "f", A), finish="tool_calls")
    _, found = read("chat", chat_frames(one, DAMAGE, chat.DONE))
    assert (len(_calls_of(found)), found.damaged_lines) == (1, 1)
    assert isinstance(found.blocks[0], ToolUseBlock)
    more = chat.calls(chat.entry(1, "b", "f", A), finish="tool_calls")
    _, found = read("chat", chat_frames(one, DAMAGE, more, chat.DONE))
    # More calls follow, so the reason was not the end, and the first call may be damaged too.
    assert [type(block) for block in found.blocks] == [ToolUseError, ToolUseBlock]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_damage_without_a_reason_voids_every_call(protocol: str) -> None:
    """The lost line may have been the refusal of the response."""
    if protocol == "chat":
        one = chat.calls(chat.entry(0, "a", "f", A), chat.entry(1, "b", "f", A))
        frames = chat_frames(one, DAMAGE, chat.DONE)
    else:
        events = [messages.begin(), *messages.call_block(A, index=0)]
        stop = messages.frame({"type": "message_stop"})
        frames = [*map(messages.frame, events), DAMAGE, stop]
    _, found = read(protocol, frames)
    assert {type(block) for block in found.blocks} == {ToolUseError}


MESSAGE_FAULTS = [
    pytest.param(b"event: content_block_delta\n\n", id="no data"),
    pytest.param(b'data: {"type": "content_block_delta", "index": 0, "delta": 3}\n\n', id="delta"),
    pytest.param(b'data: {"type": "content_block_delto", "index": 0, "delta": {}}\n\n', id="type"),
    pytest.param(b'dbta: {"type": "content_block_delta"}\n\n', id="field"),
    pytest.param(b': "index": 0, "delta": {}}\n\n', id="beginning"),
    pytest.param(b"event: content_blodata: {}\n\n", id="line end"),
    pytest.param(b'data: "text"\n\n', id="text"),
    pytest.param(
        b'data: {"type": "content_block_delta", "index": "x", "delta": {}}\n\n', id="index"
    ),
    pytest.param(
        b'data: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"input_json_delto","partial_json":"x"}}\n\n',
        id="delta type",
    ),
    pytest.param(
        b'data: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"input_json_delta","partial_json":"\xff"}}\n\n',
        id="bytes",
    ),
]


@pytest.mark.parametrize("line", MESSAGE_FAULTS)
def test_messages_fault_voids_the_open_call(line: bytes) -> None:
    done = messages.call_block(A, call_id="done", index=1)
    open_call = [messages.start(0, messages.tool_use("open")), messages.arguments('{"q": "')]
    rest = [messages.arguments('"}'), messages.stop(0), *messages.end("tool_use")]
    frames = [messages.frame(one) for one in (messages.begin(), *done, *open_call)]
    _, found = read("messages", [*frames, line, *map(messages.frame, rest)])
    runs = [one.id for one in found.blocks if isinstance(one, ToolUseBlock)]
    assert (runs, found.damaged_lines) == (["done"], 1)


CHAT_FAULTS = [
    pytest.param(b'data: {"choices": 5}\n\n', id="choices"),
    pytest.param(b'data: {"choices": [{"delta": "x"}]}\n\n', id="delta"),
    pytest.param(b'data: {"choices": [{"delta": {"tool_calls": 5}}]}\n\n', id="tool_calls"),
    pytest.param(b'data: {"choices": [{"delta": {"tool_calls": ["x"]}}]}\n\n', id="call"),
    pytest.param(
        b'data: {"choices": [{"delta": {"tool_calls": [{"function": "x"}]}}]}\n\n', id="function"
    ),
    pytest.param(b'data: {"choices": [{"delta": {}, "finish_reason": {"a": 1}}]}\n\n', id="reason"),
    pytest.param(b"data: 17\n\n", id="number"),
    pytest.param(b"data: [1]\n\n", id="array"),
    pytest.param(b'da ta: {"choices": []}\n\n', id="field"),
    pytest.param(
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":1,'
        b'"function":{"arguments":"\xff"}}]}}]}\n\n',
        id="bytes",
    ),
]


@pytest.mark.parametrize("line", CHAT_FAULTS)
def test_chat_fault_voids_the_open_call(line: bytes) -> None:
    done = chat.calls(chat.entry(0, "done", "f", A))
    begun = chat.calls(chat.entry(1, "open", "f", '{"q": "'))
    rest = [chat.calls(chat.entry(1, None, None, '"}')), chat.chunk({}, "tool_calls"), chat.DONE]
    frames = chat_frames(done, begun, line, *rest)
    _, found = read("chat", frames)
    runs = [one.id for one in found.blocks if isinstance(one, ToolUseBlock)]
    assert (runs, found.damaged_lines) == (["done"], 1)


def test_foreign_fragments_void_a_numbered_call() -> None:
    """Fragments with the index of an unknown block may belong to a call whose start was lost."""
    pieces = [messages.arguments('{"q": "'), messages.arguments('"}', index=7)]
    events = [messages.begin(), messages.start(0, messages.tool_use()), *pieces]
    found = messages.answer(*events, messages.stop(0), *messages.end("tool_use"))
    assert [type(block) for block in found.blocks] == [ToolUseError]


def test_damaged_thoughts_lose_their_signature() -> None:
    """If thinking and signature do not match, the endpoint rejects every later request."""
    begun = messages.start(0, {"type": "thinking", "thinking": "", "signature": ""})
    rest = [messages.seal("s"), messages.stop(0), *messages.text_block("Hi", index=1)]
    frames = [messages.frame(one) for one in (messages.begin(), begun, messages.thought("Hm"))]
    after = [messages.frame(one) for one in (*rest, *messages.end())]
    _, found = read("messages", [*frames, DAMAGE, *after])
    assert found.blocks[0] == ThinkingBlock("Hm")


# --- refusals -------------------------------------------------------------------------------------

CHAT_REFUSALS: list[dict[str, object]] = [
    chat.chunk({}, "content_filter"),
    chat.chunk({}, "SAFETY"),
    chat.chunk({"refusal": "I can't."}),
    {"choices": [{"delta": {}, "content_filter_results": {"violence": {"filtered": True}}}]},
]
MESSAGE_REFUSALS: list[dict[str, object]] = [
    {
        "type": "message_delta",
        "delta": {
            "stop_reason": "refusal",
            "stop_details": {"type": "refusal", "category": "cyber", "explanation": "No."},
        },
    },
    {"type": "message_delta", "delta": {"stop_reason": "content_filter"}},
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(st.data())
def test_no_call_of_a_refused_response_runs(protocol: str, data: st.DataObject) -> None:
    sent = data.draw(responses(protocol, ends=data.draw(st.booleans())))
    refusals = CHAT_REFUSALS if protocol == "chat" else MESSAGE_REFUSALS
    refusal = data.draw(st.sampled_from(refusals))
    frame = chat.sse(refusal, done=False) if protocol == "chat" else messages.frame(refusal)
    ended = sum(b"message_stop" in one or b"[DONE]" in one for one in sent.frames)
    at = data.draw(st.integers(0, len(sent.frames) - ended))
    frames = [*sent.frames[:at], frame, *sent.frames[at:]]
    pieces = data.draw(strategies.splits(b"".join(frames)))
    _, found = read(protocol, pieces)
    assert not any(isinstance(block, ToolUseBlock) for block in found.blocks)
    assert found.finish_reason in REFUSALS
    assert found.stop_details is not None


def test_stop_details_say_what_the_endpoint_said() -> None:
    details = messages.answer(messages.begin(), MESSAGE_REFUSALS[0]).stop_details
    assert details is not None
    assert (details.type, details.category, details.explanation) == ("refusal", "cyber", "No.")
    filtered = chat.answer(CHAT_REFUSALS[3]).stop_details
    assert filtered is not None
    assert (filtered.type, filtered.category) == ("content_filter", "violence")
    details = chat.answer(CHAT_REFUSALS[2], chat.chunk({}, "stop")).stop_details
    assert details is not None
    assert (details.type, details.explanation) == ("refusal", "I can't.")
