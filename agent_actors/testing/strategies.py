"""Hypothesis strategies for turns of models, conversations, and splits of bytes.

This is the only module of the package that needs Hypothesis, which the extra `testing` installs.
Examples shrink towards short and simple ones.

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
from agent_actors.testing.conformance import QUIRKS
from agent_actors.testing.conformance import DistortedTurn as DistortedTurn  # noqa: PLC0414 - public here
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

# Integers that every JSON parser preserves: those that a double can hold (RFC 8259, section 6).
_SAFE_INTEGER: Final = 2**53 - 1
_NAME_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
# Texts that a parser may misinterpret: lines and words of the protocols, JSON in text, control
# tokens, characters that some parsers treat as line ends, characters of two UTF-16 units, and
# repetitions.
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
# Enough calls to distinguish slots; more calls only slow down the search.
_MOST_CALLS: Final = 4
_MOST_ROUNDS: Final = 2


def texts(*, min_size: int = 0) -> st.SearchStrategy[str]:
    """Generate text that UTF-8 can encode: any character except lone surrogates."""
    return st.text(st.characters(codec="utf-8"), min_size=min_size, max_size=40)


_PIECES: Final = st.one_of(texts(), st.sampled_from(_NASTY))


def _containers(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    arrays: st.SearchStrategy[JsonValue] = st.lists(inner, max_size=4)
    objects: st.SearchStrategy[JsonValue] = st.dictionaries(texts(), inner, max_size=4)
    return st.one_of(arrays, objects)


def json_values(*, max_leaves: int = 8) -> st.SearchStrategy[JsonValue]:
    """Generate JSON values that survive encoding and decoding: finite numbers, objects, arrays."""
    scalars: st.SearchStrategy[JsonValue] = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-_SAFE_INTEGER, _SAFE_INTEGER),
        st.floats(allow_nan=False, allow_infinity=False),
        _PIECES,
    )
    return st.recursive(scalars, _containers, max_leaves=max_leaves)


def json_objects(*, max_leaves: int = 8) -> st.SearchStrategy[JsonObject]:
    """Generate JSON objects, as tools take them as arguments."""
    return st.dictionaries(_PIECES, json_values(max_leaves=max_leaves), max_size=4)


def tool_names() -> st.SearchStrategy[str]:
    """Generate tool names that every endpoint accepts; some names are repeated often."""
    return st.one_of(
        st.sampled_from(("find", "now", "edit_file")),
        st.text(_NAME_LETTERS, min_size=1, max_size=12),
    )


def call_ids() -> st.SearchStrategy[str]:
    """Generate ids of tool calls."""
    return tool_names().map("call_{}".format)


def calls() -> st.SearchStrategy[Call]:
    """Generate calls with arbitrary arguments, split arbitrarily into fragments, without an id."""
    return st.builds(_call, tool_names(), json_objects(), st.lists(st.integers(0, 200), max_size=4))


def turns(*, max_steps: int = 4, finishes: bool = False) -> st.SearchStrategy[list[Step]]:
    """Generate turns: text, thinking, separate and interleaved calls, and usage.

    Args:
        max_steps: The maximum number of steps.
        finishes: True if a turn may set its finish reason. A turn that ends at the token limit has
            no call without arguments, because a parser could not tell whether the arguments are
            complete.
    """
    if finishes:
        reasons = st.sampled_from(_REASONS)
        return st.tuples(_steps(max_steps), reasons).map(_ended)
    return _steps(max_steps)


@cache  # building the strategy takes longer than drawing from it
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
    """Generate a turn and its neutral deltas, whose call fragments are identified by an index.

    Only the first fragment of a call has the id and the name, as endpoints send them.
    """
    return turns().map(_with_deltas)


# Created once, because generating a conversation draws from these strategies many times.
_SAID: Final = texts(min_size=1).filter(str.strip)
_CALLS: Final = st.lists(st.tuples(tool_names(), json_objects(max_leaves=3)), max_size=_MOST_CALLS)
_CONTENTS: Final[st.SearchStrategy[str | JsonObject | list[JsonValue]]] = st.one_of(
    texts(), json_objects(max_leaves=3), st.lists(json_values(max_leaves=3), max_size=3)
)
_RESULTS: Final = st.tuples(_CONTENTS, st.booleans())


def assistant_blocks(*, ids: st.SearchStrategy[str]) -> st.SearchStrategy[AssistantBlock]:
    """Generate one block of a model's response; the ids of calls are drawn from `ids`."""
    return st.one_of(
        texts(min_size=1).map(TextBlock),
        st.builds(ThinkingBlock, texts(min_size=1), texts()),
        st.builds(_tool_use, ids, tool_names(), json_objects()),
    )


@st.composite
def rounds(draw: st.DrawFn, number: int = 0) -> list[Message]:
    """Generate the messages after a prompt: a response, and a result for each call, in any order.

    Args:
        draw: Provided by Hypothesis.
        number: Included in the ids of this round's calls, so that rounds have different ids.
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
    """Generate valid conversations: each call has exactly one result before the next message.

    Args:
        draw: Provided by Hypothesis.
        with_system: True if a conversation may begin with a system message.
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
    """Split `data` into pieces, as a network may deliver it.

    Args:
        draw: Provided by Hypothesis.
        data: The bytes to split.
        empty: True if pieces may be empty.
    """
    inner = st.integers(0 if empty else 1, len(data) if empty else max(len(data) - 1, 1))
    places = draw(st.lists(inner, max_size=12, unique=not empty)) if len(data) > 1 else []
    return [data[a:b] for a, b in pairwise([0, *sorted(places), len(data)])]


def mixes(
    quirks: Collection[str] | None = None, *, protocol: Protocol = "chat", max_quirks: int = 6
) -> st.SearchStrategy[frozenset[str]]:
    """Generate sets of quirks that can be combined, by name, for `QuirkBook.distorted`.

    Args:
        quirks: The quirks to choose from; None: all quirks of the protocol.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        max_quirks: The maximum number of quirks in a set. Quirks that cannot be combined with the
            others are left out.
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
    """Generate turns as endpoints with quirks send them, with any combination of quirks.

    Args:
        draw: Provided by Hypothesis.
        quirks: The quirks to choose from; None: all quirks of the protocol.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        max_quirks: The maximum number of quirks in a set. Quirks that cannot be combined with the
            others are left out.
    """
    mix = draw(mixes(quirks, protocol=protocol, max_quirks=max_quirks))
    return QUIRKS[protocol].distorted(draw(turns(finishes=True)), mix)


@st.composite
def cuts(draw: st.DrawFn, body: bytes, *, most: int = 12) -> list[int]:
    """Generate positions where a body is cut, for `check_turn`.

    Args:
        draw: Provided by Hypothesis.
        body: The body to cut.
        most: The maximum number of positions.
    """
    return draw(st.lists(st.integers(0, len(body)), max_size=most))


def _call(name: str, arguments: JsonObject, places: Sequence[int]) -> Call:
    complete_call = call(name, arguments)
    size = len(complete_call.arguments)
    return call(name, arguments, split=sorted(place for place in places if place <= size))


def _say(pieces: Sequence[str]) -> Say:
    return say(*pieces)


def _think(pieces: Sequence[str], signature: str) -> Think:
    # Parsers keep a signature without thinking, but no step can send one.
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
