"""What a session's records say to whoever chats in it: the conversation, and where one can go back.

Pure: it is given the records as their store exports them, which can be done at any time.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from agent_actors.cli.chat.formatting import call_text, clean, result_lines
from agent_actors.cli.chat.messages import Said
from agent_actors.codec.events import loads_event
from agent_actors.domain.blocks import ToolResultBlock
from agent_actors.domain.events import SessionRewind, UserMessage
from agent_actors.domain.messages import Message, Messages
from agent_actors.sessions import SessionState
from agent_actors.sessions.rewind_index import Trail

# Lines of a tool's result in a history.
_RESULT_LINES: Final = 3


@attrs.frozen
class SessionLook:
    """A session as its records have it.

    Attributes:
        state: What they add up to.
        prompts: What the user said that still counts, in order, with its `seq`.
    """

    state: SessionState
    prompts: tuple[UserMessage, ...]


def look(lines: Iterable[bytes]) -> SessionLook:
    """Read a session's records.

    Args:
        lines: Each as its line of JSON, in order.

    Raises:
        EventError: A line is no event.
    """
    state = SessionState()
    trail: Trail[UserMessage] = Trail()
    for line in lines:
        event = loads_event(line)
        state.apply(event)
        if isinstance(event, UserMessage):
            trail.add(state.last_seq, event)
        elif isinstance(event, SessionRewind):
            trail.go_back(state.last_seq, event.to_seq)
    return SessionLook(state, tuple(trail.counting()))


def told(messages: Messages, most: int | None = None) -> Iterator[Said]:
    """A conversation, to be shown.

    Args:
        messages: The conversation.
        most: The most messages, the last ones; None: all.
    """
    shown = list(messages)
    if most is not None and len(shown) > most:
        yield Said(f"... ({len(shown) - most:,} messages before)", "dim")
        shown = shown[-most:]
    for message in shown:
        yield from _told(message)


def _told(message: Message) -> Iterator[Said]:
    if message.role == "tool":
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                lines = result_lines(block.content, _RESULT_LINES)
                yield Said("\n".join(f"  {line}" for line in lines), "dim")
        return
    yield Said("you:" if message.role == "user" else "model:", "heading")
    if message.content:
        yield Said(message.content, "plain" if message.role == "user" else "markdown")
    for block in message.blocks:
        if block.type in ("image", "file"):
            yield Said(f"({block.type})", "dim")
    for call in message.tool_calls:
        yield Said(f"call: {call_text(call.name, call.input)}", "dim")


def as_markdown(messages: Messages) -> str:
    """A conversation as a Markdown document."""
    parts: list[str] = []
    for message in messages:
        if message.role == "user":
            parts.append(f"## You\n\n{message.content}")
        elif message.role == "assistant":
            calls = [f"- call: `{call_text(c.name, c.input)}`" for c in message.tool_calls]
            said = [message.content] if message.content else []
            parts.append("\n\n".join(["## Model", *said, *(["\n".join(calls)] if calls else [])]))
        else:
            parts += [_result_as_code(b) for b in message.blocks if isinstance(b, ToolResultBlock)]
    return clean("\n\n".join(parts)) + "\n"


def _result_as_code(result: ToolResultBlock) -> str:
    # Indented: no fence is safe from what a tool gives.
    lines = result_lines(result.content, 10_000)
    return "\n".join([f"- result of `{result.name}`:", "", *(f"      {line}" for line in lines)])
