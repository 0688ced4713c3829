"""A chat in a terminal: an editor at the bottom, and responses that grow above it."""

from typing import Final

import trio
from rich.console import Console, RenderableType
from rich.text import Text

from agent_actors.cli.chat.input_result import InputResult
from agent_actors.cli.chat.messages import ChatMessage
from agent_actors.cli.chat.terminal.editor import Editor
from agent_actors.cli.chat.terminal.markdown import Block
from agent_actors.cli.chat.terminal.screen import Screen
from agent_actors.cli.chat.view import STYLES, TurnView
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.safe_text import clean
from agent_actors.domain.events import AnyEvent

_PROMPT: Final = "> "
# Wider than any terminal; this also limits the width of output.
_WIDEST: Final = 10_000
# Seconds between two frames. The minimum lets text flow smoothly, and slow terminals can keep up.
# The maximum keeps the display of the elapsed time moving.
_SHORTEST: Final = 0.04
_LONGEST: Final = 0.1
# Maximum fraction of the time spent on drawing; frames that take longer are drawn less often.
_SHARE: Final = 0.2


class RichUI:
    """The user interface at a terminal.

    Args:
        screen: Draws on the terminal.
        editor: Reads from the terminal.
        previews: The diffs of calls that write files.
    """

    can_ask: bool = True

    def __init__(self, screen: Screen, editor: Editor, previews: EditPreviews) -> None:
        self._previews = previews
        self._screen = screen
        self._editor = editor
        self._view: TurnView | None = None
        self._woken = trio.Event()
        self._ended = trio.Event()
        self._held = False
        # Only one task may draw at a time: during a turn, another task writes messages.
        self._pen = trio.Lock()

    async def read(self, default: str = "") -> InputResult:
        """See `ChatUI`."""
        return await self._editor.read(_PROMPT, default=clean(default))

    async def answer(self, prompt: str) -> InputResult:
        """See `ChatUI`."""
        return await self._editor.answer(f"{prompt}{_PROMPT}")

    def interrupt(self) -> bool:
        """See `ChatUI`."""
        return self._editor.interrupt()

    async def write(self, *messages: ChatMessage) -> None:
        """See `ChatUI`."""
        await self._draw([_shown(one) for one in messages])

    def begin_turn(self, *, thinking: bool) -> None:
        """See `ChatUI`."""
        self._view = TurnView(self._previews, thinking=thinking, since=trio.current_time())
        self._woken, self._ended = trio.Event(), trio.Event()
        self._held = False

    async def show(self, event: AnyEvent) -> None:
        """See `ChatUI`."""
        assert self._view is not None
        self._view.feed(event, trio.current_time())
        self._woken.set()

    async def draw(self) -> None:
        """See `ChatUI`."""
        while not self._ended.is_set():
            began = trio.current_time()
            if not self._held:
                await self._draw([])
            cost = trio.current_time() - began
            with trio.move_on_after(max(_SHORTEST, cost / _SHARE)):
                await self._ended.wait()
            with trio.move_on_after(_LONGEST):
                await self._woken.wait()
            if not self._ended.is_set():
                self._woken = trio.Event()
        self._held = True
        await self._draw([])
        self._view = None

    async def pause_drawing(self) -> None:
        """See `ChatUI`."""
        self._held = True
        await self._draw([])

    def resume_drawing(self) -> None:
        """See `ChatUI`."""
        self._held = False
        self._woken.set()

    def end_turn(self) -> None:
        """See `ChatUI`."""
        self._ended.set()
        self._woken.set()

    async def _draw(self, parts: list[RenderableType]) -> None:
        async with self._pen:
            finished: list[RenderableType] = []
            live: list[RenderableType] = []
            if self._view is not None:
                finished = self._view.take()
                if not self._held:
                    live = self._view.live(trio.current_time(), height=self._screen.height)
            await self._screen.draw([*finished, *parts], live)


def _shown(message: ChatMessage) -> RenderableType:
    text = clean(message.text)
    if message.kind == "markdown":
        return Block(text)
    return Text(text, style=STYLES[message.kind])


def make_console() -> Console:
    """Return a console on stdout without markup; `Screen` sets the width."""
    return Console(markup=False, emoji=False, highlight=False, width=_WIDEST)
