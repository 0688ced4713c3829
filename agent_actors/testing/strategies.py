"""Hypothesis strategies: what models say, what conversations are, and how bytes are split.

The one module here that needs Hypothesis, which the extra `testing` installs. Everything shrinks
towards what is short and plain.

Example:
    ```python
    @given(turns(), st.data())
    def test_any_split_gives_the_same_blocks(turn: Turn, data: st.DataObject) -> None:
        pieces = data.draw(splits(sent_bytes(turn)))
    ```
"""

import json
from collections.abc import Collection, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    AssistantBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Message, Messages, assistant, system, user
from agent_actors.domain.model import FinishReason, ModelDelta, ToolCallDelta
from agent_actors.testing.conformance import QUIRKS, DistortedTurn
from agent_actors.testing.conformance.quirks import map_calls
from agent_actors.testing.replies import Protocol
from agent_actors.testing.script import (
    Call,
    Interleave,
    Say,
    Step,
    Think,
    call,
    finish,
    interleave,
    play,
    say,
    think,
    usage,
)

# Integers that every JSON reader keeps: those that a double can hold (RFC 8259, section 6).
_SAFE_INTEGER: Final = 2**53 - 1
_NAME_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
# Texts that a reader may take for something else: lines and words of the protocols, JSON in text,
# control tokens, characters that some think end a line or need two units of UTF-16, and repeats.
_NASTY: Final = (
    "data: [DONE]",
    "\n\ndata: {}\n\n",
    "event: error\n",
    "error: {}",
    ": comment",
    '{"a": 1}',
    "{}",
    "}{",
    '"',
    "\\",
    "\\u0000",
    "\\ud83d",
    "<|channel|>commentary",
    "null",
    "\r\n",
    "\r",
    "\u2028\x85\x0b\x00",
    "\ufeff",
    "\U0001f600",
    "e\u0301\u200d",
    "ha",
    "The quick brown fox jumps over the lazy dog.",
)
_REASONS: Final[tuple[FinishReason | None, ...]] = (None, None, "stop", "length", "refusal")
# Enough to tell slots from each other; more only slows the search.
_MOST_CALLS: Final = 4
_MOST_ROUNDS: Final = 2


def texts(*, min_size: int = 0) -> st.SearchStrategy[str]:
    """Text that UTF-8 can hold: any character but lone surrogates."""
    return st.text(st.characters(codec="utf-8"), min_size=min_size, max_size=40)


_PIECES: Final = st.one_of(texts(), st.sampled_from(_NASTY))


def _containers(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    arrays: st.SearchStrategy[JsonValue] = st.lists(inner, max_size=4)
    objects: st.SearchStrategy[JsonValue] = st.dictionaries(texts(), inner, max_size=4)
    return st.one_of(arrays, objects)


def json_values(*, max_leaves: int = 8) -> st.SearchStrategy[JsonValue]:
    """JSON values that survive being written and read back: finite numbers, objects, arrays."""
    scalars: st.SearchStrategy[JsonValue] = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-_SAFE_INTEGER, _SAFE_INTEGER),
        st.floats(allow_nan=False, allow_infinity=False),
        _PIECES,
    )
    return st.recursive(scalars, _containers, max_leaves=max_leaves)


def json_objects(*, max_leaves: int = 8) -> st.SearchStrategy[JsonObject]:
    """JSON objects, as tools take for arguments."""
    return st.dictionaries(_PIECES, json_values(max_leaves=max_leaves), max_size=4)


def tool_names() -> st.SearchStrategy[str]:
    """Names that every endpoint takes for a tool; some come again and again."""
    return st.one_of(
        st.sampled_from(("find", "now", "edit_file")),
        st.text(_NAME_LETTERS, min_size=1, max_size=12),
    )


def call_ids() -> st.SearchStrategy[str]:
    """Ids of tool calls."""
    return tool_names().map("call_{}".format)


def calls() -> st.SearchStrategy[Call]:
    """A call with arguments of any kind, in any fragments, without an id of its own."""
    return st.builds(_call, tool_names(), json_objects(), st.lists(st.integers(0, 200), max_size=4))


def turns(*, max_steps: int = 4, finishes: bool = False) -> st.SearchStrategy[list[Step]]:
    """Whole answers of a model: text, thoughts, calls one by one and interleaved, and usage.

    Args:
        max_steps: The most of them.
        finishes: Whether the turn may say why it ended. One that ends at the token limit has no
            call without arguments: nobody could tell whether that is whole.
    """
    if finishes:
        reasons = st.sampled_from(_REASONS)
        return st.tuples(_steps(max_steps), reasons).map(_ended)
    return _steps(max_steps)


@cache  # building it takes longer than drawing from it
def _steps(max_steps: int) -> st.SearchStrategy[list[Step]]:
    pieces = st.lists(_PIECES, min_size=1, max_size=4)
    steps: st.SearchStrategy[Step] = st.one_of(
        pieces.map(_say),
        st.builds(_think, pieces, st.sampled_from(("", "c2VhbA==", "seal \u2028 of it"))),
        calls(),
        st.lists(calls(), min_size=2, max_size=_MOST_CALLS).map(_interleave),
        st.builds(usage, st.integers(0, 9_999), st.integers(0, 9_999)),
    )
    return st.lists(steps, max_size=max_steps)


def chunks() -> st.SearchStrategy[tuple[list[Step], list[ModelDelta]]]:
    """A turn, and the neutral deltas in which it comes: calls in fragments, told apart by index.

    Ids and names come with the first fragment of a call only, as endpoints send them.
    """
    return turns().map(_with_deltas)


# Built once: drawing a conversation draws from them many times.
_SAID: Final = texts(min_size=1).filter(str.strip)
_CALLS: Final = st.lists(st.tuples(tool_names(), json_objects(max_leaves=3)), max_size=_MOST_CALLS)
_CONTENTS: Final[st.SearchStrategy[str | JsonObject | list[JsonValue]]] = st.one_of(
    texts(), json_objects(max_leaves=3), st.lists(json_values(max_leaves=3), max_size=3)
)
_RESULTS: Final = st.tuples(_CONTENTS, st.booleans())


def assistant_blocks(*, ids: st.SearchStrategy[str]) -> st.SearchStrategy[AssistantBlock]:
    """One part of a model's answer; a call takes its id from `ids`."""
    return st.one_of(
        texts(min_size=1).map(TextBlock),
        st.builds(ThinkingBlock, texts(min_size=1), texts()),
        st.builds(_tool_use, ids, tool_names(), json_objects()),
    )


@st.composite
def rounds(draw: st.DrawFn, number: int = 0) -> list[Message]:
    """What follows a prompt: an answer, and if it calls tools, a result for each, in any order.

    Args:
        draw: Hypothesis' own.
        number: Makes the ids of this round's calls unlike those of other rounds.
    """
    text = draw(_SAID)
    named = draw(_CALLS)
    called = [
        _tool_use(f"call_{number}_{slot}", name, arguments)
        for slot, (name, arguments) in enumerate(named)
    ]
    results = [
        Message("tool", (ToolResultBlock(one.id, *draw(_RESULTS), one.name),))
        for one in draw(st.permutations(called))
    ]
    return [assistant(text, called), *results]


@st.composite
def messages(draw: st.DrawFn, *, with_system: bool = True) -> Messages:
    """Valid conversations: each call has its one result before anything else is said.

    Args:
        draw: Hypothesis' own.
        with_system: Whether a system message may stand at the beginning.
    """
    chain: list[Message] = []
    if with_system and draw(st.booleans()):
        chain.append(system(draw(_SAID)))
    for prompt in range(draw(st.integers(0, _MOST_ROUNDS))):
        chain.append(user(draw(_SAID)))
        for turn in range(draw(st.integers(0, _MOST_ROUNDS))):
            chain += draw(rounds(prompt * (_MOST_ROUNDS + 1) + turn))
    return Messages(chain)


@st.composite
def splits(draw: st.DrawFn, data: bytes, *, empty: bool = False) -> list[bytes]:
    """Pieces that join to `data`, as a network may deliver it.

    Args:
        draw: Hypothesis' own.
        data: What is split.
        empty: Whether pieces may be empty.
    """
    inner = st.integers(0 if empty else 1, len(data) if empty else max(len(data) - 1, 1))
    places = draw(st.lists(inner, max_size=12, unique=not empty)) if len(data) > 1 else []
    return [data[a:b] for a, b in pairwise([0, *sorted(places), len(data)])]


def mixes(
    quirks: Collection[str] | None = None, *, protocol: Protocol = "chat", max_quirks: int = 6
) -> st.SearchStrategy[frozenset[str]]:
    """Names of quirks that go together, for `QuirkBook.distorted`.

    Args:
        quirks: The quirks to mix; None: all of the protocol.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        max_quirks: The most of one mix; those that do not go together are left out of it.
    """
    book = QUIRKS[protocol]
    names = st.sampled_from(tuple(book.quirks) if quirks is None else sorted(quirks))
    return st.lists(names, max_size=max_quirks).map(book.compatible)


@st.composite
def distorted_turns(
    draw: st.DrawFn,
    quirks: Collection[str] | None = None,
    *,
    protocol: Protocol = "chat",
    max_quirks: int = 6,
) -> DistortedTurn:
    """Turns as odd endpoints send them, in any mix of quirks.

    Args:
        draw: Hypothesis' own.
        quirks: The quirks to mix; None: all of the protocol.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        max_quirks: The most of one mix; those that do not go together are left out of it.
    """
    mix = draw(mixes(quirks, protocol=protocol, max_quirks=max_quirks))
    return QUIRKS[protocol].distorted(draw(turns(finishes=True)), mix)


@st.composite
def cuts(draw: st.DrawFn, body: bytes, *, most: int = 12) -> list[int]:
    """Places at which a body is cut, as `check_turn` takes them.

    Args:
        draw: Hypothesis' own.
        body: What is cut.
        most: The most places.
    """
    return draw(st.lists(st.integers(0, len(body)), max_size=most))


def _call(name: str, arguments: JsonObject, places: Sequence[int]) -> Call:
    whole = call(name, arguments)
    size = len(whole.arguments)
    return call(name, arguments, split=sorted(place for place in places if place <= size))


def _say(pieces: Sequence[str]) -> Say:
    return say(*pieces)


def _think(pieces: Sequence[str], signature: str) -> Think:
    # A seal without a thought is kept, but no step says so.
    return think(*pieces, signature=signature if any(pieces) else "")


def _ended(drawn: tuple[list[Step], FinishReason | None]) -> list[Step]:
    steps, reason = drawn
    if reason is None:
        return steps
    if reason in {"length", "refusal"}:
        steps = list(map_calls(tuple(steps), _with_arguments))
    return [*steps, finish(reason)]


def _with_arguments(_place: int, one: Call) -> Call:
    return call(one.name, {"q": 1}) if one.arguments == "{}" else one


def _interleave(several: Sequence[Call]) -> Interleave:
    return interleave(*several)


def _tool_use(id_: str, name: str, arguments: JsonObject) -> ToolUseBlock:
    return ToolUseBlock(id_, name, arguments, json.dumps(arguments, ensure_ascii=False))


def _with_deltas(turn: list[Step]) -> tuple[list[Step], list[ModelDelta]]:
    begun: set[int | None] = set()
    deltas: list[ModelDelta] = []
    played = play(turn, call_id="call_0_{}".format)
    for action in (one for one in played if isinstance(one, ModelDelta)):
        if isinstance(action, ToolCallDelta) and action.index in begun:
            deltas.append(ToolCallDelta(action.index, arguments=action.arguments))
            continue
        deltas.append(action)
        if isinstance(action, ToolCallDelta):
            begun.add(action.index)
    return turn, deltas
