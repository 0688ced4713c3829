"""`agent-actors run`: send one prompt, and write the response as it streams.

Only the response goes to stdout, so that it can be piped; thinking, calls, notes and usage go to
stderr. With `--json`, every event is a line on stdout. Piped input is appended to the prompt.
"""

import sys
from typing import Final

import attrs
import trio

from agent_actors import AgentOptions, RunResult, Runtime, open_runtime
from agent_actors.cli.chat.formatting import usage_text
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.event_printer import EventPrinter
from agent_actors.cli.parameters import FROM_STDIN
from agent_actors.cli.streams import Output, is_piped, read_all, wait_input
from agent_actors.codec.events import dumps_event
from agent_actors.domain.run import StopReason
from agent_actors.errors import AgentError
from agent_actors.stores.opening import open_store

# The maximum time, in seconds, to wait for the first byte of stdin. Services and test runners may
# leave a pipe open that no program ever writes to.
_PATIENCE: Final = 3.0


@attrs.frozen(kw_only=True)
class OutputOptions:
    """The parts of a run that the command writes.

    Attributes:
        thinking: True to write the model's thinking.
        usage: True to write the token usage at the end.
        as_json: True to write every event as a line of JSON instead of the response's text.
    """

    thinking: bool = False
    usage: bool = False
    as_json: bool = False


@attrs.frozen
class SessionLocation:
    """The session of a run, and the store that keeps the session.

    Attributes:
        session: The id of the session; None: a new one.
        store: The path of the store; empty: memory.
    """

    session: str | None = None
    store: str = ""

    def open(self) -> Runtime:
        """Return a runtime that uses this store."""
        return open_runtime(store=open_store(self.store) if self.store else None)


async def run_prompt(
    prompt: str,
    options: AgentOptions,
    output: OutputOptions,
    location: SessionLocation = SessionLocation(),
    previews: EditPreviews | None = None,
) -> int:
    """Stream the response to a prompt.

    Args:
        prompt: The prompt; `-` reads it from stdin. If stdin is a pipe, a file or a socket, its
            text is appended to any other prompt.
        options: The agent.
        output: The parts of the run to write.
        location: The session and its store.
        previews: The diffs of calls that write files, whose hook is among the options; None for
            none.

    Returns:
        The exit status.

    Raises:
        AgentError: The run failed.
        BrokenPipeError: The reader of the output has closed it.

    Cancellation: safe; the connection is closed.
    """
    previews = previews or EditPreviews(None)
    printer = EventPrinter(dim=True, previews=previews)
    printer.begin_run(thinking=output.thinking)
    prompt = await _with_piped(prompt)
    failure: AgentError | None = None
    result: RunResult | None = None
    try:
        async with (
            previews,
            location.open() as runtime,
            runtime.stream(prompt, options, session_id=location.session) as events,
        ):
            async for event in events:
                if output.as_json:
                    await printer.out.write_json(dumps_event(event))
                else:
                    await printer.show(event)
            result = events.result
    except AgentError as error:
        failure = error
    # An error message must begin on a new line, too.
    await printer.end_lines()
    if failure is not None:
        raise failure
    assert result is not None
    if output.as_json and result.stop_reason != StopReason.COMPLETED:
        await printer.note(f"note: the response is incomplete: {result.stop_reason}")
    if output.usage:
        await printer.note(f"usage: {usage_text(result.usage)}")
    if location.store and location.session is None:
        await printer.note(f"note: to continue, pass --session {result.session_id}")
    return 0


async def _with_piped(prompt: str) -> str:
    """Return the prompt, followed by the piped text."""
    if prompt == FROM_STDIN:
        return await read_all(sys.stdin)
    if not is_piped(sys.stdin):
        return prompt
    with trio.move_on_after(_PATIENCE) as waiting:
        await wait_input(sys.stdin)
    if waiting.cancelled_caught:
        await Output(sys.stderr).write(
            f"note: no input arrived on stdin within {_PATIENCE:g} s, so only the prompt is sent; "
            "to skip the wait, redirect stdin from /dev/null\n"
        )
        return prompt
    text = await read_all(sys.stdin)
    return f"{prompt}\n\n{text}" if text.strip() else prompt
