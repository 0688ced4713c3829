"""The events of a run as plain text, written as they arrive.

The response goes to stdout, so that it can be piped. Thinking, calls and notes go to stderr.
"""

import os
import sys
from collections.abc import Iterator
from typing import Final

from agent_actors.cli.chat.formatting import RESULT_LINES, call_text, duration, result_lines
from agent_actors.cli.edits.diffs import LineKind
from agent_actors.cli.edits.previews import EditPreviews
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
_COLOURS: Final[dict[LineKind, bytes]] = {
    "added": b"\x1b[32m",
    "removed": b"\x1b[31m",
    "place": _DIM,
}


class EventPrinter:
    """Prints the events of runs on stdout and stderr.

    Args:
        dim: True to print thinking in dim text and diffs in colour if stderr is a terminal.
        previews: The diffs of calls that write files; None for none.

    Attributes:
        previews: The diffs of calls that write files.
        out: The output for responses.
        notes: The output for everything else.
    """

    def __init__(self, *, dim: bool = False, previews: EditPreviews | None = None) -> None:
        self.previews: EditPreviews = previews or EditPreviews(None)
        self.out: Output = Output(sys.stdout)
        self.notes: Output = Output(sys.stderr)
        self._dim = dim and self.notes.terminal and not os.environ.get("NO_COLOR")
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
            case ToolResult():
                await self._show_result(event)
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

    async def _show_result(self, result: ToolResult) -> None:
        call = self._calls.pop(result.tool_use_id, clean(result.name))
        how = "failed" if result.is_error else "done"
        diff = self.previews.end(result)
        if diff is not None:  # a diff shows the arguments better than the call does
            call = clean(result.name)
        took = f" in {duration(result.duration)}" if result.started_at else ""
        await self.note(f"tool: {call}: {how}{took}")
        if diff is None:
            for line in result_lines(result.content, RESULT_LINES):
                await self.note(f"  {line}")
            return
        await self.note(f"  {diff.summary}")
        for shown in diff.shown:
            await self._note_in_colour(f"  {shown.text}", _COLOURS.get(shown.kind, b""))

    async def _note_in_colour(self, text: str, colour: bytes) -> None:
        if not (self._dim and colour):
            await self.note(text)
            return
        await self.notes.write_bytes(colour)
        await self.notes.write(text)
        await self.notes.write_bytes(_PLAIN + b"\n")
        self.notes.mid_line = False

    async def _think(self, text: str) -> None:
        if not self._dim:
            await self.notes.write(text)
            return
        await self.notes.write_bytes(_DIM)
        await self.notes.write(text)
        await self.notes.write_bytes(_PLAIN)
