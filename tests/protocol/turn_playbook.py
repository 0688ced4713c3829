"""Helpers for tests of the turn machine that read like a transcript of events and commands."""

from collections.abc import Sequence

from agent_actors.domain.blocks import AssistantBlock, TextBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.json import JsonValue
from agent_actors.domain.model import FinishReason, ModelCompleted
from agent_actors.domain.run import ToolCallResult
from agent_actors.protocol.turn import (
    AnswerEntry,
    Append,
    CallEntry,
    CallModel,
    CheckOutput,
    Command,
    Compact,
    Entry,
    Finish,
    ResultEntry,
    StartTool,
    ToolFinished,
    TurnEvent,
    TurnMachine,
    UserEntry,
)


def use(call_id: str, **arguments: JsonValue) -> ToolUseBlock:
    """Return a tool call."""
    return ToolUseBlock(call_id, "tool", dict(arguments))


def answer(*blocks: AssistantBlock | str, finish: FinishReason = "stop") -> ModelCompleted:
    """Return a model's response."""
    return ModelCompleted(
        tuple(TextBlock(b) if isinstance(b, str) else b for b in blocks), finish_reason=finish
    )


def result(call_id: str, text: str = "fine") -> ToolFinished:
    """Return the end of a call."""
    return ToolFinished(ToolCallResult(call_id, "tool", {}, text))


def brief(command: Command) -> str:
    """Return a command as one or two words."""
    match command:
        case Append(entries=entries):
            return "append " + " ".join(_entry(entry) for entry in entries)
        case CallModel(iteration=iteration):
            return f"model {iteration}"
        case Compact(trigger=trigger):
            return f"compact {trigger}"
        case StartTool(call=call):
            return f"start {call.id}"
        case CheckOutput(text=text):
            return f"check {text}"
        case Finish(stop_reason=stop_reason):
            return f"finish {stop_reason}"


def _entry(entry: Entry) -> str:
    match entry:
        case UserEntry(text=text):
            return f"user:{text}"
        case AnswerEntry():
            return "answer"
        case CallEntry(call=call):
            return f"call:{call.id}"
        case ResultEntry(result=one, synthetic=synthetic):
            return f"{'synthetic' if synthetic else 'result'}:{one.id}"


def play(machine: TurnMachine, *script: TurnEvent | Sequence[str]) -> None:
    """Feed each event and expect the commands that follow it."""
    for event, expected in zip(script[::2], script[1::2], strict=True):
        assert not isinstance(event, Sequence)
        assert [brief(command) for command in machine.feed(event)] == expected


__all__ = ["ToolUseError", "answer", "brief", "play", "result", "use"]
