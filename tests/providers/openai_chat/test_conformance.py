"""Decoding conformance: a turn gives the same blocks for every combination of quirks and splits.

The test draws a turn and a dialect, with one choice for each kind of quirk. The turn is encoded in
the dialect and split into reads at random places, and must give the blocks of the turn. Dialects
that lose information are left out, for example calls with neither index nor id, or no end mark
after a call without arguments. `possible` lists them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import AssistantBlock, TextBlock, ThinkingBlock, ToolUseBlock
from agent_actors.domain.json import JsonObject
from agent_actors.domain.model import ModelCompleted, ModelDelta, TextDelta, ThinkingDelta
from tests.providers.openai_chat.answers import read_all

Entry = dict[str, object]


@attrs.frozen
class Turn:
    thinking: str
    text: str
    calls: tuple[tuple[str, JsonObject], ...]


@attrs.frozen
class Dialect:
    index: str
    ids: str
    head: str
    interleaved: bool
    arguments: str
    name_late: bool
    text: str
    thinking: str
    finish: str
    done: bool
    usage: str
    noise: bytes
    newline: bytes
    size: int


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("{}")
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES | st.lists(VALUES, max_size=2), max_size=3)
NAMES = st.sampled_from(["find", "now", "edit_existing_file", "a"])
TURNS = st.builds(
    Turn,
    thinking=st.text(max_size=20),
    text=st.text(max_size=90),
    calls=st.lists(st.tuples(NAMES, OBJECTS), max_size=4).map(tuple),
)
DIALECTS = st.builds(
    Dialect,
    index=st.sampled_from(["plain", "plain", "none", "zero", "negative", "from_one", "text"]),
    ids=st.sampled_from(["once", "empty_after", "null_after", "repeated", "never"]),
    head=st.sampled_from(["once", "name_repeated", "nulls"]),
    interleaved=st.booleans(),
    arguments=st.sampled_from(["text", "with_head", "object", "twice", "empty_first", "again"]),
    name_late=st.booleans(),
    text=st.sampled_from(["plain", "parts", "cumulative", "beside_message"]),
    thinking=st.sampled_from(["reasoning_content", "reasoning", "both", "object", "parts"]),
    finish=st.sampled_from(["stop", "tool_calls", "", "null", "twice", "none", "with_last"]),
    done=st.booleans(),
    usage=st.sampled_from(["none", "own", "every", "choice"]),
    noise=st.sampled_from([b"", b": ping\n\n", b"data: null\n\n", b"event: x\n\n", b"\n\n"]),
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    size=st.integers(1, 9),
)


def possible(turn: Turn, dialect: Dialect) -> Dialect:
    """Return the nearest dialect that does not lose information about the turn."""
    unnumbered = dialect.index in {"none", "zero", "negative"}
    if unnumbered and dialect.ids == "never":
        dialect = attrs.evolve(dialect, ids="once")
    if dialect.interleaved and (unnumbered or dialect.arguments in {"empty_first", "again"}):
        dialect = attrs.evolve(dialect, ids="repeated")
    if dialect.ids == "never" and dialect.name_late and dialect.arguments != "text":
        dialect = attrs.evolve(dialect, name_late=False)
    without_arguments = any(not value for _, value in turn.calls)
    if dialect.ids == "never" and (dialect.interleaved or without_arguments):
        dialect = attrs.evolve(dialect, name_late=False)
    if dialect.finish in {"", "null", "none"}:
        dialect = attrs.evolve(dialect, done=True)
    return dialect


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def fragments(place: int, name: str, value: JsonObject, dialect: Dialect) -> Iterator[Entry]:
    """Yield the fragments of one call in this dialect."""
    whole = json.dumps(value) if value else ""
    pieces: list[object] = list(cut(whole, dialect.size))
    if dialect.arguments == "object" or not value:
        pieces = [value] if dialect.arguments == "object" else [None]
    elif dialect.arguments == "twice":
        pieces = list(cut(json.dumps(whole), dialect.size))
    elif dialect.arguments == "empty_first":
        pieces = ["{}", *pieces]
    elif dialect.arguments == "again":
        pieces = [*pieces, whole]
    if dialect.arguments != "with_head":
        pieces = ["", *pieces]
    if dialect.name_late:
        pieces = [*pieces, ""]
    for number, piece in enumerate(pieces):
        first = number == 0
        named = number == len(pieces) - 1 if dialect.name_late else first
        yield entry_of(place, name, piece, dialect, first=first, named=named)


def entry_of(
    place: int, name: str, piece: object, dialect: Dialect, *, first: bool, named: bool
) -> Entry:
    function: Entry = {"arguments": piece}
    if named or (dialect.head == "name_repeated" and not dialect.name_late):
        function["name"] = name
    elif dialect.head == "nulls":
        function["name"] = None
    found: Entry = {"type": "function", "function": function}
    numbers: Mapping[str, object] = {
        "plain": place,
        "from_one": 3 * place + 1,
        "zero": 0,
        "negative": -1,
        "text": str(place),
    }
    if dialect.index in numbers:
        found["index"] = numbers[dialect.index]
    later: Mapping[str, object] = {"repeated": f"id-{place}", "empty_after": "", "null_after": None}
    if first and dialect.ids != "never":
        found["id"] = f"id-{place}"
    elif dialect.ids in later:
        found["id"] = later[dialect.ids]
    return found


def deltas_of(turn: Turn, dialect: Dialect) -> Iterator[Entry]:
    for piece in cut(turn.thinking, dialect.size):
        yield thought(piece, dialect.thinking)
    yield from text_deltas(turn.text, dialect)
    streams = [fragments(at, *call, dialect) for at, call in enumerate(turn.calls)]
    entries = (
        [one for group in zip_longest(*streams) for one in group if one is not None]
        if dialect.interleaved
        else [one for stream in streams for one in stream]
    )
    for one in entries:
        yield {"content": None, "tool_calls": [one]}


def thought(piece: str, form: str) -> Entry:
    if form == "both":
        return {"reasoning_content": piece, "reasoning": piece, "content": ""}
    if form == "object":
        return {"reasoning_content": {"text": piece}}
    if form == "parts":
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}
    return {form: piece, "content": ""}


def text_deltas(text: str, dialect: Dialect) -> Iterator[Entry]:
    pieces = cut(text, dialect.size)
    # Text is recognized as cumulative after two chunks have extended 32 characters.
    if dialect.text == "cumulative" and len(text) >= 32 + 3 * dialect.size:
        pieces = [text[:end] for end in range(dialect.size, len(text), dialect.size)] + [text]
    for piece in pieces:
        if dialect.text == "parts":
            yield {"content": [{"type": "text", "text": piece}]}
        else:
            yield {"role": "assistant", "content": piece, "tool_calls": None}


def chunks_of(turn: Turn, dialect: Dialect) -> list[Entry]:
    choices: list[Entry] = [{"index": 0, "delta": delta} for delta in deltas_of(turn, dialect)]
    choices = choices or [{"delta": {"content": ""}}]
    if dialect.finish in {"", "null"}:
        for choice in choices:
            choice["finish_reason"] = dialect.finish
    elif dialect.finish in {"with_last", "twice"}:
        for choice in choices[-2 if dialect.finish == "twice" else -1 :]:
            choice["finish_reason"] = "stop"
    elif dialect.finish != "none":
        choices.append({"delta": {}, "finish_reason": dialect.finish})
    if dialect.text == "beside_message":
        for choice in choices:
            choice["message"] = {"role": "assistant", "content": turn.text}
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    if dialect.usage == "choice":
        choices[-1]["usage"] = usage
    chunks: list[Entry] = [{"id": "r", "model": "m", "choices": [choice]} for choice in choices]
    if dialect.usage == "every":
        chunks = [{**chunk, "usage": usage} for chunk in chunks]
    if dialect.usage == "own":
        chunks.append({"choices": [], "usage": usage})
    return chunks


def body_of(turn: Turn, dialect: Dialect) -> bytes:
    lines = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks_of(turn, dialect)]
    body = (
        dialect.noise + dialect.noise.join(lines) + (b"data: [DONE]\n\n" if dialect.done else b"")
    )
    return body.replace(b"\n", dialect.newline)


def reads_of(body: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({at % (len(body) + 1) for at in cuts})
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def brief(answer: ModelCompleted) -> list[object]:
    """Return the blocks without ids and the text of arguments, which a quirk may change."""
    return [bare(block) for block in answer.blocks]


def bare(block: AssistantBlock) -> object:
    return (block.name, block.input) if isinstance(block, ToolUseBlock) else block


def shown_of(deltas: Sequence[ModelDelta]) -> tuple[str, str]:
    texts = "".join(d.text for d in deltas if isinstance(d, TextDelta))
    return texts, "".join(d.text for d in deltas if isinstance(d, ThinkingDelta))


def expected(turn: Turn) -> list[object]:
    thinking = [ThinkingBlock(turn.thinking)] if turn.thinking else []
    text = [TextBlock(turn.text)] if turn.text else []
    return [*thinking, *text, *turn.calls]


@given(TURNS, DIALECTS, st.lists(st.integers(0, 10_000), max_size=6))
def test_quirks_and_splits_change_no_block(turn: Turn, dialect: Dialect, cuts: list[int]) -> None:
    dialect = possible(turn, dialect)
    body = body_of(turn, dialect)
    if not expected(turn) and dialect.finish in {"", "null", "none"}:
        return  # the stream contains nothing, not even an end mark
    shown, answer = read_all(reads_of(body, cuts))
    assert brief(answer) == expected(turn)
    assert shown_of(shown) == (turn.text, turn.thinking)
    ids = [block.id for block in answer.blocks if isinstance(block, ToolUseBlock)]
    prefix = "call_1_" if dialect.ids == "never" else "id-"
    assert ids == [f"{prefix}{place}" for place in range(len(turn.calls))]
    if dialect.usage != "none":
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 4)


@pytest.mark.no_cover
@given(TURNS, DIALECTS)
def test_splits_change_nothing(turn: Turn, dialect: Dialect) -> None:
    dialect = attrs.evolve(possible(turn, dialect), done=True, finish="stop")
    body = body_of(turn, dialect)
    whole = read_all([body])
    assert read_all([body[at : at + 1] for at in range(len(body))]) == whole
