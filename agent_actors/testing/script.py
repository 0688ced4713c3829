"""Scripts of model responses, for tests.

A *turn* is one response of a model: a text, one step, or a sequence of steps. The functions below
(`say`, `call`, `pause`, `fail` …) make steps. Steps are values, so the same turn can be played any
number of times. `ScriptedModel` plays turns in memory, and `ScriptedEndpoint` plays them over HTTP.
Both use `play`, which expands a turn into neutral deltas and the actions between them. `finished`
computes the complete response of a turn without assembling fragments, so it serves as an oracle for
code that assembles them.

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
    """Text of the response, one delta per piece; made by `say`."""

    pieces: tuple[str, ...]
    every: float = 0.0

    @property
    def text(self) -> str:
        """The complete text."""
        return "".join(self.pieces)


@attrs.frozen
class Think:
    """Thinking of the response, one delta per piece; made by `think`."""

    pieces: tuple[str, ...]
    every: float = 0.0
    signature: str = ""

    @property
    def text(self) -> str:
        """The complete text."""
        return "".join(self.pieces)


@attrs.frozen
class Call:
    """A tool call, one delta per piece of its arguments; made by `call`."""

    name: str
    pieces: tuple[str, ...]
    id: str | None = None
    every: float = 0.0

    @property
    def arguments(self) -> str:
        """The complete text of the arguments."""
        return "".join(self.pieces)


@attrs.frozen
class Interleave:
    """Calls whose fragments alternate; made by `interleave`."""

    calls: tuple[Call, ...]


@attrs.frozen
class Pause:
    """A pause before the next step; made by `pause`."""

    seconds: float


@attrs.frozen
class Wait:
    """A pause until an event is set; made by `wait`."""

    event: trio.Event


@attrs.frozen
class Do:
    """A call to a function of the test; made by `do`."""

    action: Callable[[], object]


@attrs.frozen
class Hang:
    """A response that stops here without ending; made by `hang`."""


@attrs.frozen
class Fail:
    """An error that aborts the response; made by `fail`."""

    error: Exception


@attrs.frozen
class Used:
    """The token usage of the response; made by `usage`."""

    usage: Usage


@attrs.frozen
class Finish:
    """The finish reason that the endpoint reports; made by `finish`."""

    reason: FinishReason


Step: TypeAlias = Say | Think | Call | Interleave | Pause | Wait | Do | Hang | Fail | Used | Finish
Turn: TypeAlias = str | Step | Sequence[Step]

# The results of `play`: deltas of the response, and the actions between them.
Happening: TypeAlias = Pause | Wait | Do | Hang | Fail
Action: TypeAlias = AnswerDelta | Happening


def say(*pieces: str, chunks: int = 0, every: float = 0.0) -> Say:
    """Send text.

    Args:
        pieces: The text, one delta per argument.
        chunks: Join the pieces, and send them in this many deltas of about the same size instead.
        every: Seconds to pause before each delta.

    Raises:
        ValueError: `chunks` is negative.
    """
    return Say(_cut(pieces, chunks), every)


def think(*pieces: str, chunks: int = 0, every: float = 0.0, signature: str = "") -> Think:
    """Send thinking.

    Args:
        pieces: The text, one delta per argument.
        chunks: Join the pieces, and send them in this many deltas of about the same size instead.
        every: Seconds to pause before each delta.
        signature: The signature of the thinking block. The last delta carries it. Chat completions
            have no field for it, so it is not sent over that protocol.

    Raises:
        ValueError: `chunks` is negative.
    """
    return Think(_cut(pieces, chunks), every, signature)


def call(
    name: str,
    arguments: Mapping[str, JsonValue] | str | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the name of the field in the protocol
    split: Sequence[int] = (),
    chunks: int = 0,
    every: float = 0.0,
) -> Call:
    """Call a tool.

    Args:
        name: The tool's name.
        arguments: An object, or a text that is sent unchanged even if it is not JSON. None means
            `{}`.
        id: The call's id. None: an id is generated that no other call of the session has. Empty:
            no id is sent over HTTP.
        split: Positions, in characters, where the text of the arguments is cut into fragments.
        chunks: Cut the text into this many fragments of about the same size instead.
        every: Seconds to pause before each fragment.

    Raises:
        ValueError: `split` is not ascending, contains a position outside the text, or is combined
            with `chunks`; or `chunks` is negative.
    """
    text = (
        arguments
        if isinstance(arguments, str)
        else json.dumps(dict(arguments or {}), ensure_ascii=False, separators=(",", ":"))
    )
    if not split:
        return Call(name, _cut((text,), chunks), id, every)
    if chunks:
        raise ValueError(
            f"call({name!r}): split cannot be combined with chunks; pass one or the other"
        )
    places = [0, *split, len(text)]
    if places != sorted(places):
        raise ValueError(
            f"call({name!r}): positions in split must be ascending and between 0 and "
            f"{len(text)}, got {list(split)}"
        )
    pieces = tuple(text[a:b] for a, b in pairwise(places))
    return Call(name, pieces, id, every)


def interleave(*calls: Call) -> Interleave:
    """Send several calls at once with alternating fragments, as parallel decoding does.

    The pause before each round of fragments is the longest `every` of the calls.
    """
    return Interleave(calls)


def pause(seconds: float) -> Pause:
    """Send nothing for this many seconds."""
    return Pause(seconds)


def wait(event: trio.Event) -> Wait:
    """Send nothing until the event is set."""
    return Wait(event)


def do(action: Callable[[], object]) -> Do:
    """Call a function at this point of the response, for example `do(event.set)`."""
    return Do(action)


def hang() -> Hang:
    """Send nothing more and never end the response; only a deadline or a cancellation ends it."""
    return Hang()


def fail(error: Exception) -> Fail:
    """Abort the response with this error, usually a `ProviderError`; for `ScriptedModel` only."""
    return Fail(error)


def usage(
    input_tokens: int, output_tokens: int, *, cache_read_tokens: int = 0, reasoning_tokens: int = 0
) -> Used:
    """Report the token usage of the response; without this step, the usage is an estimate."""
    return Used(
        Usage(
            input_tokens,
            output_tokens,
            cache_read_tokens=cache_read_tokens,
            reasoning_tokens=reasoning_tokens,
        )
    )


def finish(reason: FinishReason) -> Finish:
    """Report this finish reason after the rest of the turn.

    Without this step, the reason is `tool_calls` if the turn has calls, otherwise `stop`.
    """
    return Finish(reason)


def steps_of(turn: Turn) -> tuple[Step, ...]:
    """Return the turn as a tuple of steps."""
    if isinstance(turn, str):
        return (say(turn),)
    return (turn,) if isinstance(turn, Step) else tuple(turn)


@attrs.define(eq=False)
class Player:
    """Expands one turn, step by step; `play` expands a complete turn.

    Args:
        call_id: Returns the id of a call that has none, given its slot (counted from 0).
        input_tokens: The estimate of the request's tokens.

    Attributes:
        ended: True after a `hang` or `fail` step; nothing follows it.
    """

    call_id: Callable[[int], str]
    input_tokens: int = 0
    ended: bool = attrs.field(default=False, init=False)
    _slots: int = attrs.field(default=0, init=False)
    _characters: int = attrs.field(default=0, init=False)
    _used: Usage | None = attrs.field(default=None, init=False)
    _reason: FinishReason | None = attrs.field(default=None, init=False)

    def actions(self, step: Step) -> Sequence[Action]:
        """Return the actions of one step; none after the turn has ended."""
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
        """Return the finish reason and the usage; nothing after the turn has ended."""
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
    """Expand a turn, delta by delta.

    Every fragment of a call carries its slot as `index`, its id and its name; a protocol that sends
    id and name only once must omit them from later fragments. The finish reason and the usage come
    last; the usage is marked as estimated if the turn does not set it. Nothing follows a `hang` or
    a `fail`.

    Args:
        turn: The turn to play.
        call_id: Returns the id of a call that has none, given its slot (counted from 0).
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
    """Return the complete response of a turn, computed without assembling fragments.

    Code that assembles the fragments of the turn must produce the same response. Adjacent
    texts form one block. A call whose arguments are not a JSON object is a `ToolUseError`.

    Args:
        turn: The turn.
        call_id: Returns the id of a call that has none, given its slot (counted from 0).
        input_tokens: The estimate of the request's tokens.
        model: The model's name in the response.
        response_id: The id of the response.

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
        raise ValueError("a turn that hangs or fails has no complete response")
    return ModelCompleted(tuple(blocks), finish_delta.reason, usage_delta.usage, model, response_id)


def _use(call: Call, id_: str) -> AssistantBlock:
    if not call.arguments.strip():
        return ToolUseBlock(id_, call.name, {})
    try:
        arguments: object = json.loads(call.arguments)
    except ValueError as error:
        return ToolUseError(f"the arguments are not JSON: {error}", call.arguments, id_, call.name)
    if not isinstance(arguments, dict):
        return ToolUseError("the arguments are not a JSON object", call.arguments, id_, call.name)
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
