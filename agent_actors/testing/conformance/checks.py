"""The law of decoding: the same turn in, the same blocks out, whatever the quirks and the split.

Owns the check that this library's readers of answers are held to, for anybody's turns and captures:

- `assembled` reads a body and gives its blocks;
- `check_law` holds them against the turn that was said;
- `check_capture` needs no turn: it reads a captured body whole, cut at every single place, byte by
  byte and in random pieces, and wants the same every time.

It drives the reader of the provider itself, without a runtime, a socket or a clock, so that an
example costs about a millisecond. What is wrong is an `AssertionError` that says what was expected,
what came, and the fewest cuts that show it.

Example:
    ```python
    check_capture(Path("answer.sse").read_bytes(), dialect=ChatDialect(cumulative=True))
    check_law("Hello!", Path("hello.sse").read_bytes())
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
from agent_actors.providers.anthropic.response import AnswerReader as MessagesReader
from agent_actors.providers.openai_chat.response import AnswerReader as ChatReader
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
"""What errors call the endpoint."""

EVERY_PLACE_BYTES: Final = 4096
"""Bytes up to which a capture is cut at every single place: the readings take a second or so."""

RANDOM_SPLITS: Final = 50
"""Random splits that a capture is read under, beside the others."""

_CONTEXT: Final = 24
"""Bytes that are shown on each side of a cut."""

_MOST_CUTS: Final = 16
_PLAIN: Final = ChatDialect()
_REQUEST: Final = ModelRequest(Messages().user("Hello?"), ModelSettings("scripted"))
# Every turn is read as if an earlier one had a call of this id.
_LATER_REQUEST: Final = attrs.evolve(_REQUEST, known_call_ids=frozenset({KNOWN_CALL_ID}))


@attrs.frozen
class Reading:
    """What a body came to.

    Attributes:
        blocks: The blocks of the answer; none if it failed.
        finish_reason: How it ended.
        usage: What it used.
        text: The text that a reader saw.
        thinking: The thoughts that a reader saw.
        error: What failed, as the name of the error and its message; empty if nothing did.
    """

    blocks: tuple[AssistantBlock, ...] = ()
    finish_reason: FinishReason = "unknown"
    usage: Usage = Usage()
    text: str = ""
    thinking: str = ""
    error: str = ""


def pieces(body: bytes, split: Iterable[int]) -> list[bytes]:
    """The body as the reads in which it comes.

    Args:
        body: The body.
        split: The places where it is cut, in bytes from its beginning, in any order.

    Raises:
        ValueError: A place is not inside the body.
    """
    places = sorted(set(split))
    if places and not 0 <= places[0] <= places[-1] <= len(body):
        raise ValueError(f"a body of {len(body)} bytes cannot be cut at {places}")
    return [body[a:b] for a, b in pairwise([0, *places, len(body)])]


def read_body(
    body: bytes,
    *,
    protocol: Protocol = "chat",
    dialect: ChatDialect | None = None,
    split: Iterable[int] = (),
) -> Reading:
    """Read an answer, failed or not.

    Args:
        body: The body of an answer with status 200.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        dialect: The ways of the endpoint; for `chat` only.
        split: The places where the body is cut, in bytes from its beginning.

    Raises:
        ValueError: A place is not inside the body.
    """
    return _reading(body, split, _reader(protocol, dialect))


def assembled(
    body: bytes,
    *,
    protocol: Protocol = "chat",
    dialect: ChatDialect | None = None,
    split: Iterable[int] = (),
) -> tuple[AssistantBlock, ...]:
    """The blocks of an answer, as a session's history would hold them.

    Args:
        body: The body of an answer with status 200.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        dialect: The ways of the endpoint; for `chat` only.
        split: The places where the body is cut, in bytes from its beginning.

    Raises:
        ProviderError: It is no answer, or tells of an error.
        ValueError: A place is not inside the body.
    """
    return _read(_reader(protocol, dialect), pieces(body, split), []).blocks


def check_law(
    turn: Turn,
    body: bytes,
    split: Iterable[int] = (),
    *,
    protocol: Protocol = "chat",
    dialect: ChatDialect | None = None,
    quirks: Iterable[str] = (),
) -> None:
    """Hold an answer against the turn that was said.

    Compared are the blocks; what a reader saw of text and thoughts; the reason for the end; the
    counts, if the turn tells any; and the ids of the calls to which the turn gives one. All ids
    must differ from each other and from those of earlier turns.

    Args:
        turn: What was said, as `agent_actors.testing` puts it.
        body: The body of the answer.
        split: The places where the body is cut, in bytes from its beginning.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        dialect: The ways of the endpoint; for `chat` only. None: what the quirks want.
        quirks: Names of quirks: what they hide is not compared, and the error or the fault that
            they make is demanded.

    Raises:
        AssertionError: The law does not hold; the message shows the fewest of these cuts with which
            it does not.
        ValueError: A quirk is unknown, a place is not inside the body, or the turn never ends.
    """
    chosen = frozenset(quirks)
    traits = QUIRKS[protocol].traits(chosen)
    expected = _expected(turn, protocol, traits)

    def wrong(places: Iterable[int]) -> str:
        reader = _reader(protocol, dialect or traits.dialect, _LATER_REQUEST)
        return expected.against(_reading(body, places, reader))

    places = sorted(set(split))
    if wrong(places):
        fewest = _fewest(places, lambda some: bool(wrong(some)))
        which = f" with {', '.join(sorted(chosen))}" if chosen else ""
        raise AssertionError(
            f"the answer{which} is not what was said: {wrong(fewest)}\n{_cuts(body, fewest)}"
        )


def check_capture(
    body: bytes,
    *,
    protocol: Protocol = "chat",
    dialect: ChatDialect | None = None,
    random_splits: int = RANDOM_SPLITS,
    seed: int = 0,
) -> Reading:
    """Read a captured answer under many splits, and want the same of each.

    It is read whole, byte by byte, cut in two at every place (of a body of more than
    `EVERY_PLACE_BYTES`: at that many places, evenly), and in random pieces. The same blocks,
    reason, counts and shown texts must come, or the same error. What was shown before an error may
    differ.

    Args:
        body: The body of an answer with status 200, as it came.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        dialect: The ways of the endpoint; for `chat` only.
        random_splits: How many random splits to try.
        seed: Makes them: the same seed, the same splits.

    Returns:
        What the body came to: look at it, since an answer that is always misread the same way is
        none that this function can find.

    Raises:
        AssertionError: Two splits differ; the message shows both results and the fewest cuts.
    """

    def read(split: Iterable[int]) -> Reading:
        found = _reading(body, split, _reader(protocol, dialect))
        return Reading(error=found.error) if found.error else found

    whole = read(())
    for places in _splits(len(body), random_splits, seed):
        if read(places) != whole:
            fewest = _fewest(places, lambda some: read(some) != whole)
            raise AssertionError(
                f"how the answer is split changes it: whole it is {whole}, but {read(fewest)}\n"
                f"{_cuts(body, fewest)}"
            )
    return whole


# ---- reading ----


def _reader(
    protocol: Protocol, dialect: ChatDialect | None, request: ModelRequest = _REQUEST
) -> ChatReader | MessagesReader:
    if protocol == "messages":
        return MessagesReader(request, endpoint=ENDPOINT)
    return ChatReader(request, endpoint=ENDPOINT, dialect=dialect or _PLAIN)


def _reading(body: bytes, split: Iterable[int], reader: ChatReader | MessagesReader) -> Reading:
    shown: list[ModelDelta] = []
    reads = pieces(body, split)
    error = ""
    answer = ModelCompleted((), "unknown")
    try:
        answer = _read(reader, reads, shown)
    except ProviderError as failure:
        error = f"{type(failure).__name__}: {failure}"
    return Reading(
        answer.blocks,
        answer.finish_reason,
        answer.usage,
        "".join(delta.text for delta in shown if isinstance(delta, TextDelta)),
        "".join(delta.text for delta in shown if isinstance(delta, ThinkingDelta)),
        error,
    )


def _read(
    reader: ChatReader | MessagesReader, reads: Iterable[bytes], shown: list[ModelDelta]
) -> ModelCompleted:
    for data in reads:
        shown += reader.feed(data)
        if reader.done:
            break
    shown += reader.close()
    return reader.finish()


# ---- what is expected ----


@attrs.frozen
class _Expected:
    """What an answer must come to; see `check_law`."""

    blocks: list[object]
    reason: FinishReason
    usage: Usage
    text: str
    thinking: str
    traits: Traits
    ids: tuple[str | None, ...]

    def against(self, reading: Reading) -> str:
        """What is wrong; empty if nothing is."""
        if self.traits.outcome == "error":
            return self._failed(reading)
        if not self.blocks and "reason" in self.traits.hides:
            return ""  # nothing at all was said, not even that it ended: an error, or nothing
        if reading.error:
            return f"it failed: {reading.error}"
        found: list[tuple[str, object, object]] = [
            ("blocks", self.blocks, [_told(one, self.traits.hides) for one in reading.blocks]),
            ("shown text", self.text, reading.text),
            ("shown thoughts", self.thinking, reading.thinking),
        ]
        if "reason" not in self.traits.hides:
            found.append(("reason", self.reason, reading.finish_reason))
        if "usage" not in self.traits.hides and self.usage.total_tokens:
            found.append(("usage", self.usage, reading.usage))
        wrong = [f"{what}: expected {a!r}, got {b!r}" for what, a, b in found if a != b]
        return "; ".join(wrong) or self._ids(reading.blocks)

    def _failed(self, reading: Reading) -> str:
        if "ProviderInBandError" not in reading.error or ERROR_MESSAGE not in reading.error:
            return f"expected the endpoint's error, got {reading.error or reading!r}"
        if not (self.text.startswith(reading.text) and self.thinking.startswith(reading.thinking)):
            return f"what was shown before the error was never said: {reading!r}"
        return ""

    def _ids(self, blocks: Iterable[AssistantBlock]) -> str:
        ids = [one.id for one in blocks if isinstance(one, ToolUseBlock | ToolUseError)]
        if len(set(ids)) < len(ids) or not all(ids) or KNOWN_CALL_ID in ids:
            return f"ids of calls must be there, and not be used before, got {ids}"
        if "ids" in self.traits.hides:
            return ""
        kept = all(want in {None, "", got} for want, got in zip(self.ids, ids, strict=True))
        return "" if kept else f"ids: expected {list(self.ids)}, got {ids}"


def _expected(turn: Turn, protocol: Protocol, traits: Traits) -> _Expected:
    steps = steps_of(turn)
    answer = finished(steps, call_id="call_{}".format)
    blocks = list(answer.blocks)
    if protocol == "chat":
        blocks = _joined(blocks)
    calls = [one for one in blocks if isinstance(one, ToolUseBlock | ToolUseError)]
    told = [_told(one, traits.hides, traits.extra) for one in blocks]
    if answer.refused:  # none of its calls may run
        told = [
            ("fault", block.name) if isinstance(block, ToolUseBlock) else one
            for block, one in zip(blocks, told, strict=True)
        ]
    if traits.outcome == "fault" and calls:
        at = blocks.index(calls[-1])
        told[at] = ("fault", calls[-1].name)
    reason = answer.finish_reason
    if reason in {"stop", "tool_calls"}:
        reason = "tool_calls" if calls else "stop"
    used = any(isinstance(step, Used) for step in steps)
    return _Expected(
        told,
        reason,
        answer.usage if used else Usage(),
        "".join(step.text for step in steps if isinstance(step, Say)),
        "".join(step.text for step in steps if isinstance(step, Think)),
        traits,
        tuple(_ids_of(steps)),
    )


def _joined(blocks: Iterable[AssistantBlock]) -> list[AssistantBlock]:
    """The blocks as they can be told over chat completions: no seals, thoughts in a row are one."""
    found: list[AssistantBlock] = []
    for block in blocks:
        if not isinstance(block, ThinkingBlock):
            found.append(block)
            continue
        last = found[-1] if found else None
        if isinstance(last, ThinkingBlock):
            found[-1] = ThinkingBlock(last.thinking + block.thinking)
        else:
            found.append(ThinkingBlock(block.thinking))
    return found


def _ids_of(steps: Iterable[Step]) -> Iterator[str | None]:
    for step in steps:
        if isinstance(step, Call):
            yield step.id
        elif isinstance(step, Interleave):
            yield from (call.id for call in step.calls)


def _told(
    block: AssistantBlock,
    hides: AbstractSet[Hidden],
    extra: Mapping[str, JsonValue] | None = None,
) -> object:
    """A block without what cannot be compared; calls get this `extra` if it is given."""
    if isinstance(block, ToolUseBlock):
        raw = "" if "raw" in hides else block.raw_arguments
        return ("call", block.name, block.input, raw, dict(extra or block.extra))
    if isinstance(block, ToolUseError):
        return ("fault", block.name)
    return block


# ---- splits ----


def _splits(size: int, random_splits: int, seed: int) -> Iterator[Sequence[int]]:
    step = max(1, -(-size // EVERY_PLACE_BYTES))
    yield from ([place] for place in range(1, size, step))
    yield range(1, size)
    source = random.Random(seed)
    for _ in range(random_splits if size > 1 else 0):
        yield sorted(source.sample(range(1, size), min(size - 1, source.randint(2, _MOST_CUTS))))


def _fewest(places: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> Sequence[int]:
    """As few of these places as still fail: halves first, then one by one."""
    kept = list(places)
    size = len(kept)
    while size:
        at = 0
        while at < len(kept):
            fewer = [*kept[:at], *kept[at + size :]]
            if fails(fewer):
                kept = fewer
            else:
                at += size
        size //= 2
    return kept


def _cuts(body: bytes, places: Sequence[int]) -> str:
    """The cuts, with what stands on both sides."""
    if not places:
        return f"({len(body)} bytes, in one read)"
    shown = [
        f"{place}: {body[max(place - _CONTEXT, 0) : place]!r} | {body[place : place + _CONTEXT]!r}"
        for place in places
    ]
    return f"({len(body)} bytes, cut at {'; '.join(shown)})"
