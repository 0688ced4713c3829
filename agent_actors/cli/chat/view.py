"""How a turn looks in a terminal: events in, things to print out. Pure: it is told the time.

A view holds what is *finished*, which is printed once and scrolls away, and what is *live*, which
is drawn anew at the bottom until it is finished: the last block of the answer, the calls that run,
and a line that shows that the turn is alive.
"""

from typing import Final, Literal, TypeAlias

import attrs
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from agent_actors.cli.chat.formatting import (
    RESULT_LINES,
    call_text,
    clean,
    duration,
    result_lines,
    usage_text,
)
from agent_actors.cli.chat.terminal.markdown import Block, blocks, finished_size, shortened
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

# Kinds of what is printed; between two kinds stands an empty line.
_Kind: TypeAlias = Literal["text", "thought", "tool", "note"]


@attrs.frozen
class _Call:
    text: str
    since: float
    progress: str = ""


@attrs.define(eq=False)
class TurnView:
    """One turn.

    Args:
        thinking: Whether the model's thoughts are shown.
        since: When it began, by the clock of `feed` and `live`.
    """

    thinking: bool
    since: float
    # What of the answer, and of a thought, is not finished.
    _answer: str = attrs.field(default="", init=False)
    _thought: str = attrs.field(default="", init=False)
    _thinks: bool = attrs.field(default=False, init=False)
    # Whether the answer under way was shown as it came: where hooks withhold it, it comes whole.
    _streamed: bool = attrs.field(default=False, init=False)
    _calls: dict[str, _Call] = attrs.field(factory=dict[str, _Call], init=False)
    _finished: list[RenderableType] = attrs.field(factory=list[RenderableType], init=False)
    _last: "_Kind | None" = attrs.field(default=None, init=False)

    def feed(self, event: AnyEvent, now: float) -> None:
        """Take an event; those that nobody needs to see are passed over."""
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
                told = next(iter(result_lines([progress], 1)))[1:-1]
                self._calls[call_id] = attrs.evolve(self._calls[call_id], progress=told)
            case ToolResult():
                self._take_result(event)
            case AttemptRestarted(reason=reason):
                self._answer = self._thought = ""
                self.note(f"the answer begins anew: {reason}")
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
        """Say something beside the answer."""
        self.flush()
        self._print("note", Text(f"note: {clean(text)}", style="dim"))

    def flush(self) -> None:
        """What is live of the answer is finished as it is."""
        if self._thought:
            self._print_thought(self._thought)
            self._thought = ""
        self._thinks = False
        self._print_text(self._answer)
        self._answer = ""

    def take(self) -> list[RenderableType]:
        """What was finished since the last look."""
        finished, self._finished = self._finished, []
        return finished

    def live(self, now: float, *, height: int) -> list[RenderableType]:
        """What is drawn at the bottom until it is finished.

        Args:
            now: The time, by the clock of `feed`.
            height: How many lines there is room for; a little more than is shown may come.
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
        line.append(clean(result.name) if call is None else call.text)
        if result.started_at:
            line.append(f"  {duration(result.duration)}", style="dim")
        self._print("tool", line)
        style = "red" if result.is_error else "dim"
        told = "\n".join(result_lines(result.content, RESULT_LINES))
        if told.strip():
            self._finished.append(Padding(Text(told, style=style), (0, 0, 0, 2)))

    def _take_end(self, result: ResultEvent) -> None:
        self.flush()
        self._calls.clear()
        if result.stop_reason == StopReason.INTERRUPTED:
            self.note("interrupted; what was finished is kept, and Ctrl-C again leaves")
        elif result.stop_reason != StopReason.COMPLETED:
            self.note(f"the answer is not whole: {result.stop_reason}")
        told = f"{duration(result.duration)}, {usage_text(result.usage)}"
        self._finished += [Text(), Text(told, style="dim"), Text()]

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
        # Between two blocks of an answer, too; the lines of one thought follow each other.
        return [] if kind == self._last and kind != "text" else [Text()]


def _thought(text: str) -> Text:
    return Text(text, style="dim italic")
