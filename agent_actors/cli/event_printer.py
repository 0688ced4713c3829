"""The events of a run as plain text, written as they arrive.

The response goes to stdout, so that it can be piped. Thinking, calls and notes go to stderr.
"""

import sys
from collections.abc import Iterator
from typing import Final

from agent_actors.cli.chat.formatting import RESULT_LINES, call_text, duration, result_lines
from agent_actors.cli.safe_text import clean
from agent_actors.cli.streams import Output
from agent_actors.domain.events import (
    AnyEvent,
    AssistantDelta,
    AssistantMessage,
    AssistantThinking,
    AttemptRestarted,
    Notification,
    ResultEvent,
    StreamNotice,
    ToolResult,
    ToolUse,
)
from agent_actors.domain.run import StopReason

_DIM: Final = b"\x1b[2m"
_PLAIN: Final = b"\x1b[0m"


class EventPrinter:
    """Prints the events of runs on stdout and stderr.

    Args:
        dim: True to print thinking in dim text if stderr is a terminal.

    Attributes:
        out: The output for responses.
        notes: The output for everything else.
    """

    def __init__(self, *, dim: bool = False) -> None:
        self.out: Output = Output(sys.stdout)
        self.notes: Output = Output(sys.stderr)
        self._dim = dim and self.notes.terminal
        self._thinking = False
        self._streamed = False
        self._calls: dict[str, str] = {}

    def begin_run(self, *, thinking: bool) -> None:
        """Begin a run.

        Args:
            thinking: True to print the model's thinking.
        """
        self._thinking = thinking
        self._streamed = False
        self._calls.clear()

    async def show(self, event: AnyEvent) -> None:
        """Print an event; events that need no display are ignored.

        Raises:
            OSError: An output was closed.

        Cancellation: at any byte.
        """
        match event:
            case AssistantDelta(text=text):
                await self.notes.end_line()
                await self.out.write(text)
                self._streamed = True
            case AssistantMessage():
                if not self._streamed:  # hooks withheld the deltas
                    await self.out.write(event.text)
                self._streamed = False
                await self.end_lines()
            case AssistantThinking(text=text) if self._thinking:
                await self.out.end_line()
                await self._think(text)
            case ToolUse(tool_use_id=call_id, name=name):
                self._calls[call_id] = call_text(name, event.input)
            case _:
                for line in self._lines_about(event):
                    await self.note(line)

    async def note(self, text: str) -> None:
        """Print lines on stderr."""
        await self.end_lines()
        await self.notes.write(f"{text}\n")

    async def end_lines(self) -> None:
        """End unfinished lines."""
        await self.out.end_line()
        await self.notes.end_line()

    def _lines_about(self, event: AnyEvent) -> Iterator[str]:
        match event:
            case ToolResult():
                call = self._calls.pop(event.tool_use_id, clean(event.name))
                how = "failed" if event.is_error else "done"
                took = f" in {duration(event.duration)}" if event.started_at else ""
                yield f"tool: {call}: {how}{took}"
                yield from (f"  {line}" for line in result_lines(event.content, RESULT_LINES))
            case AttemptRestarted(reason=reason):
                yield f"note: the response was restarted: {reason}"
            case StreamNotice(text=text) | Notification(text=text):
                yield f"note: {text}"
            case ResultEvent(stop_reason=StopReason.INTERRUPTED):
                yield "note: interrupted; finished parts are kept"
            case ResultEvent(stop_reason=reason) if reason != StopReason.COMPLETED:
                yield f"note: the response is incomplete: {reason}"
            case _:
                pass

    async def _think(self, text: str) -> None:
        if not self._dim:
            await self.notes.write(text)
            return
        await self.notes.write_bytes(_DIM)
        await self.notes.write(text)
        await self.notes.write_bytes(_PLAIN)
