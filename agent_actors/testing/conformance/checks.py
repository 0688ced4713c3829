"""Conformance checks for response parsers: a turn gives the same blocks, however it is sent.

- `assembled` parses a body, and returns its blocks.
- `check_turn` compares the blocks with the turn that the endpoint sent.
- `check_capture` needs no turn: it parses a captured body in one read, byte by byte, cut at every
  position and cut at random positions, and requires the same result every time.

The checks call the parser of the provider directly, without a runtime, a socket or a clock, so that
an example takes about a millisecond. A failed check raises an `AssertionError` with the expected
and the actual result, and the fewest cuts that reproduce it.

Example:
    ```python
    check_capture(Path("answer.sse").read_bytes(), dialect=ChatDialect(cumulative=True))
    check_turn("Hello!", Path("hello.sse").read_bytes())
    ```
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final

import attrs

from agent_actors.domain.blocks import (
    AssistantBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    FinishReason,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ThinkingDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderError
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.providers.anthropic.response import MessageResponseParser
from agent_actors.providers.openai_chat.response import ChatResponseParser
from agent_actors.testing.conformance.chat_call_quirks import KNOWN_CALL_ID
from agent_actors.testing.conformance.quirks import ERROR_MESSAGE, Hidden, QuirkBook, Traits
from agent_actors.testing.conformance.quirks_chat import CHAT_QUIRKS
from agent_actors.testing.conformance.quirks_messages import MESSAGES_QUIRKS
from agent_actors.testing.replies import Protocol
from agent_actors.testing.script import (
    Call,
    Interleave,
    Say,
    Step,
    Think,
    Turn,
    Used,
    finished,
    steps_of,
)

QUIRKS: Final[dict[Protocol, QuirkBook]] = {"chat": CHAT_QUIRKS, "messages": MESSAGES_QUIRKS}
"""The quirks of each protocol."""

ENDPOINT: Final = "captured"
"""The name of the endpoint in error messages."""

EVERY_POSITION_BYTES: Final = 4096
"""A capture of at most this many bytes is cut at every position, which takes about a second."""

RANDOM_SPLITS: Final = 50
"""The number of random splits of a capture to try, in addition to the others."""

_CONTEXT: Final = 24
"""The number of bytes that error messages show on each side of a cut."""

# Maximum number of cuts in a random split.
_MAX_CUTS: Final = 16
_DEFAULT_DIALECT: Final = ChatDialect()
_REQUEST: Final = ModelRequest(Messages().user("Hello?"), ModelSettings("scripted"))
# Every turn is parsed as if an earlier turn contained a call with this id.
_LATER_REQUEST: Final = attrs.evolve(_REQUEST, known_call_ids=frozenset({KNOWN_CALL_ID}))


@attrs.frozen
class Reading:
    """The result of parsing a body.

    Attributes:
        blocks: The blocks of the response; none if it failed.
        finish_reason: The reason why the response ended.
        usage: The tokens that the response used.
        text: The text that was streamed.
        thinking: The thinking that was streamed.
        error: The name and the message of the error; empty if there was none.
    """

    blocks: tuple[AssistantBlock, ...] = ()
    finish_reason: FinishReason = "unknown"
    usage: Usage = Usage()
    text: str = ""
    thinking: str = ""
    error: str = ""


def split_body(body: bytes, split: Iterable[int]) -> list[bytes]:
    """Cut a body into the chunks in which it is read.

    Args:
        body: The body.
        split: The positions of the cuts, in bytes from the beginning, in any order.

    Raises:
        ValueError: A position is not inside the body.
    """
    positions = sorted(set(split))
    if positions and not 0 <= positions[0] <= positions[-1] <= len(body):
        raise ValueError(
            f"a body of {len(body)} bytes cannot be cut at {positions}; "
            "every position must be inside the body"
        )
    return [body[start:end] for start, end in pairwise([0, *positions, len(body)])]


def read_body(
    body: bytes,
    *,
    protocol: Protocol = "chat",
    dialect: ChatDialect | None = None,
    split: Iterable[int] = (),
) -> Reading:
    """Parse a response; a failed response gives a result with an error.

    Args:
        body: The body of a response with status 200.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        dialect: The dialect of the endpoint; for `chat` only.
        split: The positions where the body is cut, in bytes from its beginning.

    Raises:
        ValueError: A position is not inside the body.
    """
    return _reading(body, split, _reader(protocol, dialect))


def assembled(
    body: bytes,
    *,
    protocol: Protocol = "chat",
    dialect: ChatDialect | None = None,
    split: Iterable[int] = (),
) -> tuple[AssistantBlock, ...]:
    """Parse a response, and return its blocks as they would be in the history of a session.

    Args:
        body: The body of a response with status 200.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        dialect: The dialect of the endpoint; for `chat` only.
        split: The positions where the body is cut, in bytes from its beginning.

    Raises:
        ProviderError: The body is not a response, or contains an error.
        ValueError: A position is not inside the body.
    """
    return _read(_reader(protocol, dialect), split_body(body, split), []).blocks


def check_turn(
    turn: Turn,
    body: bytes,
    split: Iterable[int] = (),
    *,
    protocol: Protocol = "chat",
    dialect: ChatDialect | None = None,
    quirks: Iterable[str] = (),
) -> None:
    """Check that a response contains a turn.

    Compares the blocks, the streamed text and thinking, the finish reason, the usage (if the turn
    has one), and the ids of the calls (if the turn sets them). All ids must differ from each other
    and from those of earlier turns.

    Args:
        turn: The turn that the endpoint sent, as a script of `agent_actors.testing`.
        body: The body of the response.
        split: The positions where the body is cut, in bytes from its beginning.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        dialect: The dialect of the endpoint; for `chat` only. None: the dialect for the quirks.
        quirks: Names of the quirks of the response. Information that they hide is not compared. The
            error or the invalid call that they cause is required.

    Raises:
        AssertionError: The response differs from the turn; the message shows the fewest of these
            cuts that reproduce it.
        ValueError: A quirk is unknown, a position is not inside the body, or the turn never ends.
    """
    chosen = frozenset(quirks)
    traits = QUIRKS[protocol].traits(chosen)
    expected = _expected(turn, protocol, traits)

    def difference(positions: Iterable[int]) -> str:
        reader = _reader(protocol, dialect or traits.dialect, _LATER_REQUEST)
        return expected.difference(_reading(body, positions, reader))

    positions = sorted(set(split))
    if difference(positions):
        fewest = _fewest(positions, lambda some: bool(difference(some)))
        with_quirks = f" with {', '.join(sorted(chosen))}" if chosen else ""
        raise AssertionError(
            f"the response{with_quirks} differs from the turn: {difference(fewest)}\n"
            f"{_describe_cuts(body, fewest)}"
        )


check_law = check_turn
"""The former name of `check_turn`."""


def check_capture(
    body: bytes,
    *,
    protocol: Protocol = "chat",
    dialect: ChatDialect | None = None,
    random_splits: int = RANDOM_SPLITS,
    seed: int = 0,
) -> Reading:
    """Parse a captured response under many splits, and check that the result is always the same.

    The body is parsed in one read, byte by byte, cut in two at every position, and cut at random
    positions. A body of more than `EVERY_POSITION_BYTES` is cut in two at only that many positions,
    evenly spaced. Blocks, finish reason, usage and streamed text must always be equal. If parsing
    fails, the error must always be equal; the text that was streamed before it may differ.

    Args:
        body: The body of a response with status 200, as it was received.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        dialect: The dialect of the endpoint; for `chat` only.
        random_splits: The number of random splits to try.
        seed: The seed for the random splits.

    Returns:
        The result of parsing. Check it: this function cannot detect a response that is always
        parsed in the same wrong way.

    Raises:
        AssertionError: Two splits differ; the message shows both results and the fewest cuts.
    """

    def read(split: Iterable[int]) -> Reading:
        reading = _reading(body, split, _reader(protocol, dialect))
        return Reading(error=reading.error) if reading.error else reading

    uncut = read(())
    for positions in _splits(len(body), random_splits, seed):
        if read(positions) != uncut:
            fewest = _fewest(positions, lambda some: read(some) != uncut)
            raise AssertionError(
                f"the split changes the response: expected {uncut}, got {read(fewest)}\n"
                f"{_describe_cuts(body, fewest)}"
            )
    return uncut


# ---- parsing ----


def _reader(
    protocol: Protocol, dialect: ChatDialect | None, request: ModelRequest = _REQUEST
) -> ChatResponseParser | MessageResponseParser:
    if protocol == "messages":
        return MessageResponseParser(request, endpoint=ENDPOINT)
    return ChatResponseParser(request, endpoint=ENDPOINT, dialect=dialect or _DEFAULT_DIALECT)


def _reading(
    body: bytes, split: Iterable[int], reader: ChatResponseParser | MessageResponseParser
) -> Reading:
    deltas: list[ModelDelta] = []
    chunks = split_body(body, split)
    error = ""
    response = ModelCompleted((), "unknown")
    try:
        response = _read(reader, chunks, deltas)
    except ProviderError as failure:
        error = f"{type(failure).__name__}: {failure}"
    return Reading(
        response.blocks,
        response.finish_reason,
        response.usage,
        "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)),
        "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta)),
        error,
    )


def _read(
    reader: ChatResponseParser | MessageResponseParser,
    chunks: Iterable[bytes],
    deltas: list[ModelDelta],
) -> ModelCompleted:
    for chunk in chunks:
        deltas += reader.feed(chunk)
        if reader.done:
            break
    deltas += reader.close()
    return reader.finish()


# ---- the expected result ----


@attrs.frozen
class _Expected:
    """The result that a response must have; see `check_turn`."""

    blocks: list[object]
    reason: FinishReason
    usage: Usage
    text: str
    thinking: str
    traits: Traits
    ids: tuple[str | None, ...]

    def difference(self, reading: Reading) -> str:
        """Describe how a result differs; empty if it does not differ."""
        if self.traits.outcome == "error":
            return self._error_difference(reading)
        if not self.blocks and "reason" in self.traits.hides:
            return ""  # parsers may treat an empty response without an end as an error
        if reading.error:
            return f"parsing failed: {reading.error}"
        blocks = [_comparable(block, self.traits.hides) for block in reading.blocks]
        pairs: list[tuple[str, object, object]] = [
            ("blocks", self.blocks, blocks),
            ("streamed text", self.text, reading.text),
            ("streamed thinking", self.thinking, reading.thinking),
        ]
        if "reason" not in self.traits.hides:
            pairs.append(("reason", self.reason, reading.finish_reason))
        # Parsers estimate the usage if an endpoint reports no output tokens.
        if "usage" not in self.traits.hides and self.usage.output_tokens:
            pairs.append(("usage", self.usage, reading.usage))
        different = [f"{name}: expected {a!r}, got {b!r}" for name, a, b in pairs if a != b]
        return "; ".join(different) or self._id_difference(reading.blocks)

    def _error_difference(self, reading: Reading) -> str:
        if "ProviderInBandError" not in reading.error or ERROR_MESSAGE not in reading.error:
            return f"expected the endpoint's error, got {reading.error or reading!r}"
        if not (self.text.startswith(reading.text) and self.thinking.startswith(reading.thinking)):
            return f"the text or thinking before the error differs from the turn: {reading!r}"
        return ""

    def _id_difference(self, blocks: Iterable[AssistantBlock]) -> str:
        ids = [block.id for block in blocks if isinstance(block, ToolUseBlock | ToolUseError)]
        if len(set(ids)) < len(ids) or not all(ids) or KNOWN_CALL_ID in ids:
            return f"ids of calls must be unique and not empty, got {ids}"
        if "ids" in self.traits.hides:
            return ""
        equal = all(want in {None, "", got} for want, got in zip(self.ids, ids, strict=True))
        return "" if equal else f"ids: expected {list(self.ids)}, got {ids}"


def _expected(turn: Turn, protocol: Protocol, traits: Traits) -> _Expected:
    steps = steps_of(turn)
    response = finished(steps, call_id="call_{}".format)
    blocks = list(response.blocks)
    if protocol == "chat":
        blocks = _joined(blocks)
    calls = [block for block in blocks if isinstance(block, ToolUseBlock | ToolUseError)]
    comparable = [_comparable(block, traits.hides, traits.extra) for block in blocks]
    # None of the calls of a refused response may run. Without a reason, the refusal is unknown.
    if response.refused and "reason" not in traits.hides:
        comparable = [
            ("fault", block.name) if isinstance(block, ToolUseBlock) else one
            for block, one in zip(blocks, comparable, strict=True)
        ]
    if traits.outcome == "fault" and calls:
        comparable[blocks.index(calls[-1])] = ("fault", calls[-1].name)
    reason = response.finish_reason
    if reason in {"stop", "tool_calls"}:
        reason = "tool_calls" if calls else "stop"
    used = any(isinstance(step, Used) for step in steps)
    return _Expected(
        comparable,
        reason,
        response.usage if used else Usage(),
        "".join(step.text for step in steps if isinstance(step, Say)),
        "".join(step.text for step in steps if isinstance(step, Think)),
        traits,
        tuple(_ids_of(steps)),
    )


def _joined(blocks: Iterable[AssistantBlock]) -> list[AssistantBlock]:
    """Return the blocks as chat completions send them.

    That protocol has no signatures for thinking, and adjacent thinking blocks are merged.
    """
    joined: list[AssistantBlock] = []
    for block in blocks:
        if not isinstance(block, ThinkingBlock):
            joined.append(block)
            continue
        last = joined[-1] if joined else None
        if isinstance(last, ThinkingBlock):
            joined[-1] = ThinkingBlock(last.thinking + block.thinking)
        else:
            joined.append(ThinkingBlock(block.thinking))
    return joined


def _ids_of(steps: Iterable[Step]) -> Iterator[str | None]:
    for step in steps:
        if isinstance(step, Call):
            yield step.id
        elif isinstance(step, Interleave):
            yield from (call.id for call in step.calls)


def _comparable(
    block: AssistantBlock,
    hides: AbstractSet[Hidden],
    extra: Mapping[str, JsonValue] | None = None,
) -> object:
    """Return the parts of a block to compare; calls get `extra`, unless it is empty."""
    if isinstance(block, ToolUseBlock):
        raw = "" if "raw" in hides else block.raw_arguments
        return ("call", block.name, block.input, raw, dict(extra or block.extra))
    if isinstance(block, ToolUseError):
        return ("fault", block.name)
    if isinstance(block, ThinkingBlock):  # its extra fields repeat the text in another form
        return attrs.evolve(block, extra={})
    return block


# ---- splits ----


def _splits(size: int, random_splits: int, seed: int) -> Iterator[Sequence[int]]:
    step = max(1, -(-size // EVERY_POSITION_BYTES))
    yield from ([position] for position in range(1, size, step))
    yield range(1, size)
    source = random.Random(seed)
    for _ in range(random_splits if size > 1 else 0):
        yield sorted(source.sample(range(1, size), min(size - 1, source.randint(2, _MAX_CUTS))))


def _fewest(positions: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> Sequence[int]:
    """Remove cuts as long as the check still fails: first in halves, then one by one."""
    fewest = list(positions)
    size = len(fewest)
    while size:
        index = 0
        while index < len(fewest):
            fewer = [*fewest[:index], *fewest[index + size :]]
            if fails(fewer):
                fewest = fewer
            else:
                index += size
        size //= 2
    return fewest


def _describe_cuts(body: bytes, positions: Sequence[int]) -> str:
    """Describe the cuts, with the bytes on both sides."""
    if not positions:
        return f"({len(body)} bytes, in one read)"
    cuts = [
        f"{at}: {body[max(at - _CONTEXT, 0) : at]!r} | {body[at : at + _CONTEXT]!r}"
        for at in positions
    ]
    return f"({len(body)} bytes, cut at {'; '.join(cuts)})"
