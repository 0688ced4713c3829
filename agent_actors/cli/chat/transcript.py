"""The conversation of a session as text, and the prompts that it can be rewound to. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from agent_actors.cli.chat.formatting import call_text, result_lines
from agent_actors.cli.chat.messages import ChatMessage
from agent_actors.cli.safe_text import clean
from agent_actors.codec.events import loads_event
from agent_actors.domain.blocks import ToolResultBlock
from agent_actors.domain.events import SessionRewind, UserMessage
from agent_actors.domain.messages import Message, Messages
from agent_actors.sessions import SessionState
from agent_actors.sessions.rewind_index import RewindIndex

# Maximum number of lines of a tool's result in the history.
_RESULT_LINES: Final = 3


@attrs.frozen
class SessionTranscript:
    """The state of a session, and its prompts.

    Attributes:
        state: The state after all records.
        prompts: The prompts that were not rewound, in order, with their `seq`.
    """

    state: SessionState
    prompts: tuple[UserMessage, ...]


def read_transcript(lines: Iterable[bytes]) -> SessionTranscript:
    """Read a session's records.

    Args:
        lines: The records as lines of JSON, in order.

    Raises:
        EventError: A line is not an event.
    """
    state = SessionState()
    trail: RewindIndex[UserMessage] = RewindIndex()
    for line in lines:
        event = loads_event(line)
        state.apply(event)
        if isinstance(event, UserMessage):
            trail.add(state.last_seq, event)
        elif isinstance(event, SessionRewind):
            trail.go_back(state.last_seq, event.to_seq)
    return SessionTranscript(state, tuple(trail.counting()))


def transcript_messages(messages: Messages, most: int | None = None) -> Iterator[ChatMessage]:
    """Convert a conversation to messages of the chat.

    Args:
        messages: The conversation.
        most: The maximum number of messages, counted from the end; None: all.
    """
    shown = list(messages)
    if most is not None and len(shown) > most:
        yield ChatMessage(f"... ({len(shown) - most:,} messages before)", "dim")
        shown = shown[-most:]
    for message in shown:
        yield from _message_texts(message)


def _message_texts(message: Message) -> Iterator[ChatMessage]:
    if message.role == "tool":
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                lines = result_lines(block.content, _RESULT_LINES)
                yield ChatMessage("\n".join(f"  {line}" for line in lines), "dim")
        return
    yield ChatMessage("you:" if message.role == "user" else "model:", "heading")
    if message.content:
        yield ChatMessage(message.content, "plain" if message.role == "user" else "markdown")
    for block in message.blocks:
        if block.type in ("image", "file"):
            yield ChatMessage(f"({block.type})", "dim")
    for call in message.tool_calls:
        yield ChatMessage(f"call: {call_text(call.name, call.input)}", "dim")


def as_markdown(messages: Messages) -> str:
    """Return a conversation as a Markdown document."""
    parts: list[str] = []
    for message in messages:
        if message.role == "user":
            parts.append(f"## You\n\n{message.content}")
        elif message.role == "assistant":
            calls = [f"- call: `{call_text(c.name, c.input)}`" for c in message.tool_calls]
            paragraphs = [message.content] if message.content else []
            parts.append(
                "\n\n".join(["## Model", *paragraphs, *(["\n".join(calls)] if calls else [])])
            )
        else:
            parts += [_result_as_code(b) for b in message.blocks if isinstance(b, ToolResultBlock)]
    return clean("\n\n".join(parts)) + "\n"


def _result_as_code(result: ToolResultBlock) -> str:
    # Indented, because a fence could end early: a tool's result may contain any fence.
    lines = result_lines(result.content, 10_000)
    return "\n".join([f"- result of `{result.name}`:", "", *(f"      {line}" for line in lines)])
