"""The display of a turn in a terminal, built from events. Pure: the caller passes the time.

A view has a *finished* part, which is printed once and scrolls away, and a *live* part, which is
redrawn at the bottom until it is finished. The live part consists of the last block of the
response, the running calls, and a line that shows that the turn is active.
"""

from typing import Final, Literal, TypeAlias

import attrs
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from agent_actors.cli.chat.formatting import (
    RESULT_LINES,
    call_text,
    diff_messages,
    duration,
    result_lines,
    usage_text,
)
from agent_actors.cli.chat.messages import ChatMessage, Kind
from agent_actors.cli.chat.terminal.markdown import Block, blocks, finished_size, shortened
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.safe_text import clean
from agent_actors.domain.events import (
    AnyEvent,
    AssistantDelta,
    AssistantMessage,
    AssistantThinking,
    AttemptRestarted,
    ErrorEvent,
    Notification,
    ResultEvent,
    StreamNotice,
    ToolProgress,
    ToolResult,
    ToolUse,
)
from agent_actors.domain.run import StopReason

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_SECOND: Final = 10
_RUNNING: Final = "●"
_DONE: Final = "✓"
_FAILED: Final = "✗"

# The styles of messages, by kind.
STYLES: Final[dict[Kind, str]] = {
    "plain": "",
    "dim": "dim",
    "error": "red",
    "heading": "bold",
    "added": "green",
    "removed": "red",
}

# Kinds of output; an empty line separates two different kinds.
_Kind: TypeAlias = Literal["text", "thought", "tool", "note"]


@attrs.frozen
class _Call:
    text: str
    since: float
    progress: str = ""


@attrs.define(eq=False)
class TurnView:
    """The display of one turn.

    Args:
        previews: The diffs of calls that write files.
        thinking: True to show the model's thinking.
        since: The time when the turn began, on the same clock as the times for `feed` and `live`.
    """

    _previews: EditPreviews
    thinking: bool = attrs.field(kw_only=True)
    since: float = attrs.field(kw_only=True)
    # The unfinished part of the response, and of the thinking.
    _answer: str = attrs.field(default="", init=False)
    _thought: str = attrs.field(default="", init=False)
    _thinks: bool = attrs.field(default=False, init=False)
    # True if the current response was streamed. A response that hooks withhold arrives complete.
    _streamed: bool = attrs.field(default=False, init=False)
    _calls: dict[str, _Call] = attrs.field(factory=dict[str, _Call], init=False)
    _finished: list[RenderableType] = attrs.field(factory=list[RenderableType], init=False)
    _last: "_Kind | None" = attrs.field(default=None, init=False)

    def feed(self, event: AnyEvent, now: float) -> None:
        """Process an event; events that need no display are ignored."""
        match event:
            case AssistantDelta(text=text):
                self._take_text(text)
            case AssistantThinking(text=text):
                self._take_thought(text)
            case AssistantMessage():
                self._take_message(event)
            case ToolUse(tool_use_id=call_id, name=name):
                self.flush()
                self._calls[call_id] = _Call(call_text(name, event.input), now)
            case ToolProgress(tool_use_id=call_id, progress=progress) if call_id in self._calls:
                shown = next(iter(result_lines([progress], 1)))[1:-1]
                self._calls[call_id] = attrs.evolve(self._calls[call_id], progress=shown)
            case ToolResult():
                self._take_result(event)
            case AttemptRestarted(reason=reason):
                self._answer = self._thought = ""
                self.note(f"the response was restarted: {reason}")
            case StreamNotice(text=text) | Notification(text=text):
                self.note(text)
            case ResultEvent():
                self._take_end(event)
            case ErrorEvent():
                self.flush()
                self._calls.clear()
            case _:
                pass

    def note(self, text: str) -> None:
        """Print a note, separate from the response."""
        self.flush()
        self._print("note", Text(f"note: {clean(text)}", style="dim"))

    def flush(self) -> None:
        """Print the live part of the response as it is."""
        if self._thought:
            self._print_thought(self._thought)
            self._thought = ""
        self._thinks = False
        self._print_text(self._answer)
        self._answer = ""

    def take(self) -> list[RenderableType]:
        """Return the output that was finished since the previous call."""
        finished, self._finished = self._finished, []
        return finished

    def live(self, now: float, *, height: int) -> list[RenderableType]:
        """Return the live part, to be drawn at the bottom.

        Args:
            now: The current time, on the same clock as the times for `feed`.
            height: The number of available lines; the result may have a few more.
        """
        shown: list[RenderableType] = []
        if self._thought:
            shown += [*self._gap("thought"), _thought(self._thought)]
        if self._answer.strip():
            shown += self._gap("text") if not shown else [Text()]
            for block in blocks(self._answer):
                shown += [Block(shortened(block, height)), Text()]
            shown.pop()
        if self._calls:
            shown += self._gap("tool") if not shown else [Text()]
            shown += [self._running(call, now) for call in self._calls.values()]
        frame = _FRAMES[int(now * _FRAMES_PER_SECOND) % len(_FRAMES)]
        doing = "thinking " if self._thinks and not self.thinking else ""
        waited = f"{frame} {doing}{now - self.since:.0f} s, Ctrl-C interrupts"
        return [*shown, Text(), Text(waited, style="dim")]

    def _running(self, call: _Call, now: float) -> Text:
        line = Text()
        line.append(f"{_RUNNING} ", style="yellow").append(call.text)
        line.append(f"  {now - call.since:.0f} s", style="dim")
        return line.append(f"  {call.progress}" if call.progress else "", style="dim")

    def _take_text(self, text: str) -> None:
        if self._thinks:
            self.flush()
        self._streamed = True
        self._answer += clean(text)
        size = finished_size(self._answer) if "\n" in text else 0
        if size:
            self._print_text(self._answer[:size])
            self._answer = self._answer[size:]

    def _take_thought(self, text: str) -> None:
        if not self._thinks:
            self.flush()
            self._thinks = True
        if not self.thinking:
            return
        whole, line_end, rest = (self._thought + clean(text)).rpartition("\n")
        if line_end:
            self._print_thought(whole)
        self._thought = rest

    def _take_message(self, message: AssistantMessage) -> None:
        if not self._streamed:
            self._answer += clean(message.text)
        self._streamed = False
        self.flush()

    def _take_result(self, result: ToolResult) -> None:
        self.flush()
        call = self._calls.pop(result.tool_use_id, None)
        line = Text()
        if result.is_error:
            line.append(f"{_FAILED} ", style="red")
        else:
            line.append(f"{_DONE} ", style="green")
        diff = self._previews.end(result)
        # A diff shows the arguments better than the call does.
        line.append(clean(result.name) if call is None or diff is not None else call.text)
        if result.started_at:
            line.append(f"  {duration(result.duration)}", style="dim")
        self._print("tool", line)
        if diff is not None:
            shown = [ChatMessage(f"  {diff.summary}", "dim"), *diff_messages(diff)]
            self._finished += [Text(one.text, style=STYLES[one.kind]) for one in shown]
            return
        style = "red" if result.is_error else "dim"
        text = "\n".join(result_lines(result.content, RESULT_LINES))
        if text.strip():
            self._finished.append(Padding(Text(text, style=style), (0, 0, 0, 2)))

    def _take_end(self, result: ResultEvent) -> None:
        self.flush()
        self._calls.clear()
        if result.stop_reason == StopReason.INTERRUPTED:
            self.note("interrupted; finished parts are kept; press Ctrl-C again to leave")
        elif result.stop_reason != StopReason.COMPLETED:
            self.note(f"the response is incomplete: {result.stop_reason}")
        summary = f"{duration(result.duration)}, {usage_text(result.usage)}"
        self._finished += [Text(), Text(summary, style="dim"), Text()]

    def _print_thought(self, text: str) -> None:
        self._print("thought", _thought(text))

    def _print_text(self, text: str) -> None:
        for block in blocks(text):
            if block.strip():
                self._print("text", Block(block))

    def _print(self, kind: _Kind, shown: RenderableType) -> None:
        self._finished += [*self._gap(kind), shown]
        self._last = kind

    def _gap(self, kind: _Kind) -> list[RenderableType]:
        # An empty line also separates two blocks of a response, but not the lines of one thought.
        return [] if kind == self._last and kind != "text" else [Text()]


def _thought(text: str) -> Text:
    return Text(text, style="dim italic")
