"""What a chat tells beside the answers, and the two faces' common shape."""

from typing import Literal, Protocol, TypeAlias

import attrs

from agent_actors.cli.chat.input_result import Reading
from agent_actors.domain.events import AnyEvent

Kind: TypeAlias = Literal["plain", "dim", "error", "heading", "markdown"]


@attrs.frozen
class Said:
    """Something told.

    Attributes:
        text: The text, of one line or several.
        kind: What it is, which says how it looks.
    """

    text: str
    kind: Kind = "plain"


class Face(Protocol):
    """Where a chat is held: a terminal with all its powers, or plain streams.

    Every method that writes raises OSError where nobody reads any more.
    """

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to be asked."""
        ...

    async def read(self, default: str = "") -> Reading:
        """The next thing that is typed; `default` stands there to be changed."""
        ...

    async def answer(self, prompt: str) -> Reading:
        """The answer to a question, also within a turn."""
        ...

    def interrupt(self) -> bool:
        """Ctrl-C, told by a signal: end what is being read; False if nothing is."""
        ...

    async def tell(self, *said: Said) -> None:
        """Tell something, also within a turn."""
        ...

    def begin_turn(self, *, thinking: bool) -> None:
        """An answer is awaited."""
        ...

    async def show(self, event: AnyEvent) -> None:
        """Show an event of the turn."""
        ...

    async def paint(self) -> None:
        """Draw the turn, until `end_turn`; run beside it, and not cancelled but with all else."""
        ...

    async def hold(self) -> None:
        """Draw nothing of the turn until `go_on`: a person is asked."""
        ...

    def go_on(self) -> None:
        """Draw again."""
        ...

    def end_turn(self) -> None:
        """Nothing more comes."""
        ...
