"""The language in which tests say what a model answers.

A *turn* is one answer of a model: a text, one step, or a sequence of steps. Steps are made by the
functions below (`say`, `call`, `pause`, `fail` …) and are values, so that one turn can be played
any number of times. `ScriptedModel` plays turns in memory, `ScriptedEndpoint` plays them over
HTTP; both see a turn as `play` spells it out: neutral deltas, and the things that happen between
them. `finished` tells what the whole answer of a turn is, without assembling any fragment: an
oracle for those who assemble.

Example:
    `[say("Let me look.", chunks=3), call("get_weather", {"city": "Paris"}), usage(12, 7)]`
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import TypeAlias, assert_never, cast

import attrs
import trio

from agent_actors.domain.blocks import (
    AssistantBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import (
    AnswerDelta,
    FinishDelta,
    FinishReason,
    ModelCompleted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage, estimate_tokens


@attrs.frozen
class Say:
    """Text of the answer, in the pieces in which it comes; made by `say`."""

    pieces: tuple[str, ...]
    every: float = 0.0

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)


@attrs.frozen
class Think:
    """Chain of thought, in the pieces in which it comes; made by `think`."""

    pieces: tuple[str, ...]
    every: float = 0.0
    signature: str = ""

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)


@attrs.frozen
class Call:
    """A tool call, its arguments in the pieces in which they come; made by `call`."""

    name: str
    pieces: tuple[str, ...]
    id: str | None = None
    every: float = 0.0

    @property
    def arguments(self) -> str:
        """The arguments' whole text."""
        return "".join(self.pieces)


@attrs.frozen
class Interleave:
    """Calls whose fragments come in turns; made by `interleave`."""

    calls: tuple[Call, ...]


@attrs.frozen
class Pause:
    """Nothing comes for a while; made by `pause`."""

    seconds: float


@attrs.frozen
class Wait:
    """Nothing comes until an event is set; made by `wait`."""

    event: trio.Event


@attrs.frozen
class Do:
    """The test's own code runs at this place; made by `do`."""

    action: Callable[[], object]


@attrs.frozen
class Hang:
    """Nothing comes any more, and the answer does not end; made by `hang`."""


@attrs.frozen
class Fail:
    """The answer breaks off with an error; made by `fail`."""

    error: Exception


@attrs.frozen
class Used:
    """The tokens that the answer used; made by `usage`."""

    usage: Usage


@attrs.frozen
class Finish:
    """The reason that the endpoint gives for the end; made by `finish`."""

    reason: FinishReason


Step: TypeAlias = Say | Think | Call | Interleave | Pause | Wait | Do | Hang | Fail | Used | Finish
Turn: TypeAlias = str | Step | Sequence[Step]

# What `play` makes of a turn: pieces of the answer, and what happens between them.
Happening: TypeAlias = Pause | Wait | Do | Hang | Fail
Action: TypeAlias = AnswerDelta | Happening


def say(*pieces: str, chunks: int = 0, every: float = 0.0) -> Say:
    """The model says a text.

    Args:
        pieces: The text, a delta for each argument.
        chunks: Send the whole text in this many deltas of about the same size instead.
        every: Seconds to pause before each delta.

    Raises:
        ValueError: `chunks` is less than 0.
    """
    return Say(_cut(pieces, chunks), every)


def think(*pieces: str, chunks: int = 0, every: float = 0.0, signature: str = "") -> Think:
    """The model thinks aloud; arguments as for `say`.

    Args:
        pieces: The text, a delta for each argument.
        chunks: Send the whole text in this many deltas of about the same size instead.
        every: Seconds to pause before each delta.
        signature: The seal of the block; it comes with the last delta, and never over an
            OpenAI-compatible wire, which has no place for it.

    Raises:
        ValueError: `chunks` is less than 0.
    """
    return Think(_cut(pieces, chunks), every, signature)


def call(
    name: str,
    arguments: Mapping[str, JsonValue] | str | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the wire's own name of the field
    split: Sequence[int] = (),
    chunks: int = 0,
    every: float = 0.0,
) -> Call:
    """The model calls a tool.

    Args:
        name: The tool's name.
        arguments: An object; or a text, sent as it is even if it is no JSON; None is `{}`.
        id: The call's id; None: one is made up, unlike any other of the session; empty: none is
            sent over a wire.
        split: Positions, in characters, at which the arguments' text is cut into fragments.
        chunks: Cut it into this many fragments of about the same size instead.
        every: Seconds to pause before each fragment.

    Raises:
        ValueError: `split` is not ascending or not inside the text, or given beside `chunks`, or
            `chunks` is less than 0.
    """
    text = (
        arguments
        if isinstance(arguments, str)
        else json.dumps(dict(arguments or {}), ensure_ascii=False, separators=(",", ":"))
    )
    if not split:
        return Call(name, _cut((text,), chunks), id, every)
    if chunks:
        raise ValueError(f"call({name!r}): split and chunks both say where to cut; give one")
    places = [0, *split, len(text)]
    if places != sorted(places):
        raise ValueError(
            f"call({name!r}): split must ascend within 0..{len(text)}, got {list(split)}"
        )
    pieces = tuple(text[a:b] for a, b in pairwise(places))
    return Call(name, pieces, id, every)


def interleave(*calls: Call) -> Interleave:
    """Several calls at once: a fragment of each in turns, as endpoints with parallel decoding.

    Their longest `every` is paused before each round of fragments.
    """
    return Interleave(calls)


def pause(seconds: float) -> Pause:
    """Nothing comes for this many seconds."""
    return Pause(seconds)


def wait(event: trio.Event) -> Wait:
    """Nothing comes until the event is set."""
    return Wait(event)


def do(action: Callable[[], object]) -> Do:
    """Call a function when the answer has come this far; `do(event.set)` tells a test of it."""
    return Do(action)


def hang() -> Hang:
    """Nothing comes any more and the answer does not end: only a deadline or a cancel helps."""
    return Hang()


def fail(error: Exception) -> Fail:
    """The answer breaks off with this error, usually a `ProviderError`; `ScriptedModel` only."""
    return Fail(error)


def usage(
    input_tokens: int, output_tokens: int, *, cache_read_tokens: int = 0, reasoning_tokens: int = 0
) -> Used:
    """The tokens that the answer used; a turn without it has them estimated."""
    return Used(
        Usage(
            input_tokens,
            output_tokens,
            cache_read_tokens=cache_read_tokens,
            reasoning_tokens=reasoning_tokens,
        )
    )


def finish(reason: FinishReason) -> Finish:
    """The reason that the endpoint gives for the end, told after the rest of the turn.

    A turn without it ends with `tool_calls` if it has calls, else with `stop`.
    """
    return Finish(reason)


def steps_of(turn: Turn) -> tuple[Step, ...]:
    """The turn as a tuple of steps."""
    if isinstance(turn, str):
        return (say(turn),)
    return (turn,) if isinstance(turn, Step) else tuple(turn)


@attrs.define(eq=False)
class Player:
    """Spells one turn out, step by step; `play` does it for a whole turn.

    Args:
        call_id: Makes the id of a call that has none, from its slot (counted from 0).
        input_tokens: The estimate of the request's tokens.

    Attributes:
        ended: True once a step has hung or failed: nothing follows it.
    """

    call_id: Callable[[int], str]
    input_tokens: int = 0
    ended: bool = attrs.field(default=False, init=False)
    _slots: int = attrs.field(default=0, init=False)
    _characters: int = attrs.field(default=0, init=False)
    _used: Usage | None = attrs.field(default=None, init=False)
    _reason: FinishReason | None = attrs.field(default=None, init=False)

    def actions(self, step: Step) -> Sequence[Action]:
        """What one step comes to; nothing once the turn has ended."""
        if self.ended:
            return ()
        match step:
            case Say():
                self._characters += len(step.text)
                return _paced(step.every, [TextDelta(piece) for piece in step.pieces])
            case Think():
                self._characters += len(step.text)
                return _paced(step.every, _thoughts(step))
            case Call():
                return _paced(step.every, self._fragments(step))
            case Interleave():
                return list(self._in_turns(step.calls))
            case Pause() | Wait() | Do():
                return (step,)
            case Hang() | Fail():
                self.ended = True
                return (step,)
            case Used():
                self._used = step.usage
            case Finish():
                self._reason = step.reason
            case _:
                assert_never(step)
        return ()

    def ending(self) -> Sequence[Action]:
        """The finish and the usage; nothing once the turn has ended."""
        if self.ended:
            return ()
        tokens = estimate_tokens(self._characters)
        used = self._used or Usage(self.input_tokens, tokens, estimated=True)
        reason = self._reason or ("tool_calls" if self._slots else "stop")
        return (FinishDelta(reason), UsageDelta(used))

    def _fragments(self, call: Call) -> list[AnswerDelta]:
        slot = self._slots
        self._slots += 1
        self._characters += len(call.arguments)
        id_ = self.call_id(slot) if call.id is None else call.id
        return [ToolCallDelta(slot, id_, call.name, piece) for piece in call.pieces]

    def _in_turns(self, calls: Sequence[Call]) -> Iterator[Action]:
        every = max((call.every for call in calls), default=0.0)
        for row in zip_longest(*[self._fragments(call) for call in calls]):
            if every:
                yield Pause(every)
            yield from (delta for delta in row if delta is not None)


def play(turn: Turn, *, call_id: Callable[[int], str], input_tokens: int = 0) -> list[Action]:
    """Spell a turn out, delta by delta.

    Every fragment of a call carries its slot as `index`, and its id and name: a wire that sends
    them but once leaves them out. The finish and the usage stand at the end; usage is marked as
    estimated if the turn does not tell it. Nothing follows a `hang` or a `fail`.

    Args:
        turn: What to play.
        call_id: Makes the id of a call that has none, from its slot (counted from 0).
        input_tokens: The estimate of the request's tokens.
    """
    player = Player(call_id, input_tokens)
    actions = [action for step in steps_of(turn) for action in player.actions(step)]
    return [*actions, *player.ending()]


def finished(
    turn: Turn,
    *,
    call_id: Callable[[int], str],
    input_tokens: int = 0,
    model: str = "",
    response_id: str = "",
) -> ModelCompleted:
    """The whole answer of a turn, as whoever assembles its fragments must give it.

    Text that is not parted by something else is one block. A call whose arguments are no JSON
    object is a `ToolUseError`. Arguments as for `play`.

    Raises:
        ValueError: The turn hangs or fails.
    """
    blocks: list[AssistantBlock] = []
    slot = 0
    for step in steps_of(turn):
        match step:
            case Say() if step.text:
                _add_text(blocks, step.text)
            case Think() if step.text:
                blocks.append(ThinkingBlock(step.text, step.signature))
            case Call() | Interleave():
                for one in step.calls if isinstance(step, Interleave) else (step,):
                    blocks.append(_use(one, call_id(slot) if one.id is None else one.id))
                    slot += 1
            case _:
                pass
    *_, finish_delta, usage_delta = play(turn, call_id=call_id, input_tokens=input_tokens)
    if not (isinstance(finish_delta, FinishDelta) and isinstance(usage_delta, UsageDelta)):
        raise ValueError("a turn that hangs or fails has no whole answer")
    return ModelCompleted(tuple(blocks), finish_delta.reason, usage_delta.usage, model, response_id)


def _use(call: Call, id_: str) -> AssistantBlock:
    if not call.arguments.strip():
        return ToolUseBlock(id_, call.name, {})
    try:
        arguments: object = json.loads(call.arguments)
    except ValueError as error:
        return ToolUseError(f"the arguments are no JSON: {error}", call.arguments, id_, call.name)
    if not isinstance(arguments, dict):
        return ToolUseError("the arguments are no JSON object", call.arguments, id_, call.name)
    return ToolUseBlock(id_, call.name, cast(JsonObject, arguments), call.arguments)


def _add_text(blocks: list[AssistantBlock], text: str) -> None:
    if blocks and isinstance(last := blocks[-1], TextBlock):
        blocks[-1] = TextBlock(last.text + text)
    else:
        blocks.append(TextBlock(text))


def _thoughts(step: Think) -> list[AnswerDelta]:
    *first, last = step.pieces or ("",)
    return [*(ThinkingDelta(piece) for piece in first), ThinkingDelta(last, step.signature)]


def _paced(every: float, deltas: Sequence[AnswerDelta]) -> list[Action]:
    if not every:
        return list(deltas)
    return [action for delta in deltas for action in (Pause(every), delta)]


def _cut(pieces: Sequence[str], chunks: int) -> tuple[str, ...]:
    if chunks < 0:
        raise ValueError(f"chunks must not be negative, got {chunks}")
    if not chunks:
        return tuple(pieces) or ("",)
    text = "".join(pieces)
    places = [len(text) * number // chunks for number in range(chunks + 1)]
    return tuple(text[a:b] for a, b in pairwise(places))
