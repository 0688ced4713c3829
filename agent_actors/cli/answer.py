"""`agent-actors run`: one prompt, its answer as it streams.

The answer goes to stdout and nothing else does, so that it can be piped; thoughts, notes and
usage go to stderr. As JSON, every event is a line of stdout.
"""

import sys
from typing import Final

import attrs

from agent_actors import AgentOptions, RunResult, Runtime, Usage, open_runtime
from agent_actors.cli.streams import Output, read_all
from agent_actors.codec.events import encode_event
from agent_actors.domain.events import (
    AnyEvent,
    AssistantDelta,
    AssistantThinking,
    AttemptRestarted,
)
from agent_actors.domain.run import StopReason
from agent_actors.errors import AgentError
from agent_actors.stores.opening import open_store

FROM_STDIN: Final = "-"
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


@attrs.frozen(kw_only=True)
class Shown:
    """What of a run is shown.

    Attributes:
        thinking: The model's chain of thought.
        usage: The tokens, at the end.
        as_json: Every event as a line of JSON, in place of the answer's text.
    """

    thinking: bool = False
    usage: bool = False
    as_json: bool = False


@attrs.frozen
class Place:
    """Where the run's session is kept.

    Attributes:
        session: Its id; None: a new one.
        store: The path of the store; empty: nowhere.
    """

    session: str | None = None
    store: str = ""

    def open(self) -> Runtime:
        """A runtime on that store."""
        return open_runtime(store=open_store(self.store) if self.store else None)


async def answer(
    prompt: str,
    options: AgentOptions,
    shown: Shown,
    place: Place = Place(),
) -> int:
    """Stream the answer to a prompt.

    Args:
        prompt: What the user says; `-`: what stdin says.
        options: The agent.
        shown: What is shown.
        place: Where its session is kept.

    Returns:
        The exit status.

    Raises:
        AgentError: The run failed.
        BrokenPipeError: Whoever reads the answer has gone.

    Cancellation: safe; the connection is closed.
    """
    view = _JsonView() if shown.as_json else _TextView(thinking=shown.thinking)
    if prompt == FROM_STDIN:
        prompt = await read_all(sys.stdin)
    failure: AgentError | None = None
    result: RunResult | None = None
    try:
        async with (
            place.open() as runtime,
            runtime.stream(prompt, options, session_id=place.session) as events,
        ):
            async for event in events:
                await view.show(event)
            result = events.result
    except AgentError as error:
        failure = error
    # The error's line, too, begins on a line of its own.
    await view.end()
    if failure is not None:
        raise failure
    assert result is not None
    await _tell_end(result, usage=shown.usage)
    if place.store and place.session is None:
        await Output(sys.stderr).write(f"note: go on with --session {result.session_id}\n")
    return 0


class _TextView:
    """The answer's text, and beside it thoughts."""

    def __init__(self, *, thinking: bool) -> None:
        self._answer = Output(sys.stdout)
        self._notes = Output(sys.stderr)
        self._thinking = thinking

    async def show(self, event: AnyEvent) -> None:
        match event:
            case AssistantDelta(text=text):
                await self._notes.end_line()
                await self._answer.write(text)
            case AssistantThinking(text=text) if self._thinking:
                await self._answer.end_line()
                await self._think(text)
            case AttemptRestarted(reason=reason):
                await self.end()
                await self._notes.write(f"note: the answer begins anew: {reason}\n")
            case _:
                pass

    async def end(self) -> None:
        """Leave no line unfinished."""
        await self._answer.end_line()
        await self._notes.end_line()

    async def _think(self, text: str) -> None:
        if self._notes.terminal:
            await self._notes.write_bytes(_DIM.encode())
            await self._notes.write(text)
            await self._notes.write_bytes(_PLAIN.encode())
        else:
            await self._notes.write(text)


class _JsonView:
    """Every event, as a line of JSON: UTF-8 whatever the stream's encoding."""

    def __init__(self) -> None:
        self._answer = Output(sys.stdout)

    async def show(self, event: AnyEvent) -> None:
        await self._answer.write_bytes(encode_event(event) + b"\n")

    async def end(self) -> None:
        """Every line is finished."""


async def _tell_end(result: RunResult, *, usage: bool) -> None:
    notes = Output(sys.stderr)
    if result.stop_reason != StopReason.COMPLETED:
        await notes.write(f"note: the answer is not whole: {result.stop_reason}\n")
    if usage:
        await notes.write(f"usage: {_in_words(result.usage)}\n")


def _in_words(usage: Usage) -> str:
    parts = [f"{usage.input_tokens} tokens in", f"{usage.output_tokens} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens} from the cache")
    if usage.reasoning_tokens:
        parts.append(f"{usage.reasoning_tokens} of reasoning")
    if usage.estimated:
        parts.append("estimated")
    return ", ".join(parts)
