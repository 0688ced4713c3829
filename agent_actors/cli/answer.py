"""`agent-actors run`: send one prompt, and write the response as it streams.

Only the response goes to stdout, so that it can be piped; thinking, notes and usage go to stderr.
With `--json`, every event is a line on stdout.
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
class OutputOptions:
    """The parts of a run to output.

    Attributes:
        thinking: True: output the model's thinking.
        usage: True: output the token usage at the end.
        as_json: True: output every event as a line of JSON instead of the response's text.
    """

    thinking: bool = False
    usage: bool = False
    as_json: bool = False


@attrs.frozen
class SessionLocation:
    """The session of a run, and the store of the session.

    Attributes:
        session: The id of the session; None: a new one.
        store: The path of the store; empty: memory.
    """

    session: str | None = None
    store: str = ""

    def open(self) -> Runtime:
        """Return a runtime with that store."""
        return open_runtime(store=open_store(self.store) if self.store else None)


async def answer(
    prompt: str,
    options: AgentOptions,
    output: OutputOptions,
    location: SessionLocation = SessionLocation(),
) -> int:
    """Stream the response to a prompt.

    Args:
        prompt: The prompt; `-`: read it from stdin.
        options: The agent.
        output: The parts of the run to output.
        location: The session and its store.

    Returns:
        The exit status.

    Raises:
        AgentError: The run failed.
        BrokenPipeError: The reader of the output has closed it.

    Cancellation: safe; the connection is closed.
    """
    view = _JsonView() if output.as_json else _TextView(thinking=output.thinking)
    if prompt == FROM_STDIN:
        prompt = await read_all(sys.stdin)
    failure: AgentError | None = None
    result: RunResult | None = None
    try:
        async with (
            location.open() as runtime,
            runtime.stream(prompt, options, session_id=location.session) as events,
        ):
            async for event in events:
                await view.show(event)
            result = events.result
    except AgentError as error:
        failure = error
    # The line of the error must also begin on a line of its own.
    await view.end()
    if failure is not None:
        raise failure
    assert result is not None
    await _write_end(result, usage=output.usage)
    if location.store and location.session is None:
        await Output(sys.stderr).write(f"note: continue with --session {result.session_id}\n")
    return 0


class _TextView:
    """Writes the text of the response to stdout, and thinking to stderr."""

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
                await self._notes.write(f"note: the response was restarted: {reason}\n")
            case _:
                pass

    async def end(self) -> None:
        """End unfinished lines."""
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
    """Writes every event as a line of JSON, in UTF-8 regardless of the stream's encoding."""

    def __init__(self) -> None:
        self._answer = Output(sys.stdout)

    async def show(self, event: AnyEvent) -> None:
        await self._answer.write_bytes(encode_event(event) + b"\n")

    async def end(self) -> None:
        """Do nothing: every line is complete."""


async def _write_end(result: RunResult, *, usage: bool) -> None:
    notes = Output(sys.stderr)
    if result.stop_reason != StopReason.COMPLETED:
        await notes.write(f"note: the response is incomplete: {result.stop_reason}\n")
    if usage:
        await notes.write(f"usage: {_usage_text(result.usage)}\n")


def _usage_text(usage: Usage) -> str:
    parts = [f"{usage.input_tokens} tokens in", f"{usage.output_tokens} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens} from the cache")
    if usage.reasoning_tokens:
        parts.append(f"{usage.reasoning_tokens} of reasoning")
    if usage.estimated:
        parts.append("estimated")
    return ", ".join(parts)
