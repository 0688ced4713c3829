"""Messages from the chat to the user, and the protocol that both user interfaces implement."""

from typing import Literal, Protocol, TypeAlias

import attrs

from agent_actors.cli.chat.input_result import InputResult
from agent_actors.domain.events import AnyEvent

Kind: TypeAlias = Literal["plain", "dim", "error", "heading", "markdown", "added", "removed"]


@attrs.frozen
class ChatMessage:
    """A message from the chat itself, not from the model.

    Attributes:
        text: The text, one or more lines.
        kind: The kind of message, which determines its style.
    """

    text: str
    kind: Kind = "plain"


class ChatUI(Protocol):
    """The user interface of a chat: a terminal, or plain streams.

    Every method that writes raises OSError if the output was closed.
    """

    @property
    def can_ask(self) -> bool:
        """True if there is a person to answer questions."""
        ...

    async def read(self, default: str = "") -> InputResult:
        """Read the next input; `default` is the initial text of the line."""
        ...

    async def answer(self, prompt: str) -> InputResult:
        """Read the answer to a question. May be called during a turn."""
        ...

    def interrupt(self) -> bool:
        """Handle Ctrl-C from a signal: cancel reading; return False if nothing is being read."""
        ...

    async def write(self, *messages: ChatMessage) -> None:
        """Write messages. May be called during a turn."""
        ...

    def begin_turn(self, *, thinking: bool) -> None:
        """Begin a turn: a response is expected."""
        ...

    async def show(self, event: AnyEvent) -> None:
        """Show an event of the turn."""
        ...

    async def draw(self) -> None:
        """Draw the turn until `end_turn`; run in a task of its own."""
        ...

    async def pause_drawing(self) -> None:
        """Pause drawing until `resume_drawing`, while the user answers a question."""
        ...

    def resume_drawing(self) -> None:
        """Resume drawing."""
        ...

    def end_turn(self) -> None:
        """End the turn."""
        ...
