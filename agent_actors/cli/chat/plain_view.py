"""A chat without colours and cursor movement: one line in, one response out.

Responses and the output of commands go to stdout, so that they can be piped. Calls, thinking, notes
and errors go to stderr. If stdin is not a terminal, no person can be asked.
"""

import sys
from typing import Final

import trio

from agent_actors.cli.chat.input_result import End, InputResult, Interrupted, Typed
from agent_actors.cli.chat.messages import ChatMessage
from agent_actors.cli.chat.terminal.modes import forget_typed
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.event_printer import EventPrinter
from agent_actors.cli.streams import Input
from agent_actors.domain.events import AnyEvent

_PROMPT: Final = "> "
_MORE: Final = ". "
_GOES_ON: Final = "\\"


class PlainUI:
    """The user interface on the standard streams.

    Args:
        previews: The diffs of calls that write files.
    """

    def __init__(self, previews: EditPreviews) -> None:
        self._input = Input(sys.stdin)
        self._printer = EventPrinter(previews=previews)
        self.can_ask: bool = sys.stdin.isatty()
        self._prompts = self.can_ask and self._printer.out.terminal
        self._reading: trio.CancelScope | None = None

    async def read(self, default: str = "") -> InputResult:
        """See `ChatUI`; at a terminal, a backslash at the end of a line continues the input."""
        del default  # plain input cannot show text to edit
        lines: list[str] = []
        while True:
            reading = await self._line(_MORE if lines else _PROMPT)
            if not isinstance(reading, Typed):
                return Interrupted(dropped=bool(lines)) if lines else reading
            goes_on = self.can_ask and reading.text.endswith(_GOES_ON)
            lines.append(reading.text.removesuffix(_GOES_ON) if goes_on else reading.text)
            if not goes_on:
                return Typed("\n".join(lines))

    async def answer(self, prompt: str) -> InputResult:
        """See `ChatUI`."""
        forget_typed()
        return await self._line(f"{prompt}{_PROMPT}")

    def interrupt(self) -> bool:
        """See `ChatUI`."""
        if self._reading is None:
            return False
        self._reading.cancel("Ctrl-C")
        return True

    async def write(self, *messages: ChatMessage) -> None:
        """See `ChatUI`."""
        for one in messages:
            if one.kind in ("plain", "heading", "markdown"):
                await self._printer.notes.end_line()
                await self._printer.out.write(f"{one.text}\n")
            else:
                await self._printer.note(f"error: {one.text}" if one.kind == "error" else one.text)

    def begin_turn(self, *, thinking: bool) -> None:
        """See `ChatUI`."""
        self._printer.begin_run(thinking=thinking)

    async def show(self, event: AnyEvent) -> None:
        """See `ChatUI`."""
        await self._printer.show(event)

    async def draw(self) -> None:
        """See `ChatUI`; events are shown at once."""

    async def pause_drawing(self) -> None:
        """See `ChatUI`."""
        await self._printer.end_lines()

    def resume_drawing(self) -> None:
        """See `ChatUI`."""

    def end_turn(self) -> None:
        """See `ChatUI`."""

    async def _line(self, prompt: str) -> InputResult:
        await self._printer.end_lines()
        if self._prompts:
            await self._printer.out.write(prompt)
        found: str | None = None
        with trio.CancelScope() as self._reading:
            found = await self._input.line()
        interrupted, self._reading = self._reading.cancelled_caught, None
        if self._prompts:
            # The terminal echoes typed lines with their line end; after Ctrl-C and Ctrl-D, there is
            # no line end.
            self._printer.out.mid_line = found is None
        if interrupted:
            return Interrupted()
        return End() if found is None else Typed(found)
