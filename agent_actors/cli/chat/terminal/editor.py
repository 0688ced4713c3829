"""Read input at a terminal, with an editor that supports keys, history and completion of commands.

prompt_toolkit runs on asyncio, and the chat runs on trio. Therefore each line is read in a separate
thread, in an event loop that exists only for that line. No such loop runs during a response. The
thread restores the modes of the terminal before it ends, and the chat always waits for the thread:
a cancelled read first makes the editor exit. Outside the main thread, prompt_toolkit does not
change signal handlers; in its raw mode, Ctrl-C is an ordinary key.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from agent_actors.cli.chat.commands import Name
from agent_actors.cli.chat.input_result import End, InputResult, Interrupted, Typed
from agent_actors.cli.chat.terminal.modes import forget_typed, modes_kept
from agent_actors.cli.chat.user_files import InputHistory
from agent_actors.cli.safe_text import REPLACEMENT, clean

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.history import History

_STYLE: Final = Style.from_dict({"prompt": "bold ansicyan", "hint": "ansibrightblack"})


class _CtrlC(Exception):
    """Raised by Ctrl-C. Not a KeyboardInterrupt, which would break out of the event loop."""


class _Stopped(Exception):
    """Raised in the editor to make it exit."""


class _CommandCompleter(Completer):
    """Completes commands at the beginning of the first line."""

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        del complete_event
        text = document.text_before_cursor
        if text.startswith("/") and not any(c.isspace() for c in text):
            for name in Name:
                if name.startswith(text[1:]):
                    yield Completion(name.value, start_position=1 - len(text))


class Editor:
    """Reads lines from the terminal, one at a time.

    Args:
        history: The lines that the keys Up and Down recall.
        typed: Input that was typed before the editor existed. Each complete line is accepted as if
            it were typed now; the rest is the initial content of the next line.
    """

    def __init__(self, history: InputHistory, typed: str = "") -> None:
        # Unsafe characters come from keys such as Up, which were pressed too early to have an
        # effect.
        self._typed = clean(typed.replace("\r", "\n")).replace(REPLACEMENT, "").split("\n")
        self._lines: PromptSession[str] = _session(history)
        self._answers: PromptSession[str] = _session(None)
        self._reading: _Thread | None = None

    async def read(self, prompt: str, *, default: str = "") -> InputResult:
        """Read a prompt or a command.

        Args:
            prompt: The text before the line.
            default: The initial content of the line.

        Cancellation: safe; typed text is lost, and the terminal is restored.
        """
        accept = False
        if self._typed and not default:
            default = self._typed.pop(0)
            accept = bool(self._typed)
        return await self._read(self._lines, prompt, default, accept=accept)

    async def answer(self, prompt: str) -> InputResult:
        """Read an answer to a question; input typed before the question is discarded.

        Args:
            prompt: The text before the line.

        Cancellation: as `read`.
        """
        forget_typed()
        self._typed.clear()
        return await self._read(self._answers, prompt, "")

    def interrupt(self) -> bool:
        """Act like Ctrl-C in the editor; return False if nothing is being read."""
        if self._reading is None:
            return False
        self._reading.stop(_CtrlC)
        return True

    async def _read(
        self, session: "PromptSession[str]", prompt: str, default: str, *, accept: bool = False
    ) -> InputResult:
        assert self._reading is None, "only one line can be read at a time"
        reading = self._reading = _Thread(session, accept=accept)
        try:
            with modes_kept():
                return await reading.run(prompt, default)
        finally:
            self._reading = None


class _Thread:
    """One read in a thread, which can be stopped from outside."""

    def __init__(self, session: "PromptSession[str]", *, accept: bool) -> None:
        self._session = session
        self._accept = accept
        # Protects the attributes shared by the loop's thread and trio's thread; held only briefly.
        self._lock = threading.Lock()
        self._wake: Callable[[Callable[[], None]], object] | None = None
        self._stop: type[Exception] | None = None

    async def run(self, prompt: str, default: str) -> InputResult:
        done = trio.Event()
        outcome: list[InputResult] = []

        async def read() -> None:
            try:
                with trio.CancelScope(shield=True):
                    outcome.append(await trio.to_thread.run_sync(self._read, prompt, default))
            finally:
                done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            try:
                await done.wait()
            finally:
                # The line was read, or the read was cancelled. The nursery then waits for the
                # thread.
                self.stop(_Stopped)
        return outcome[0]

    def stop(self, error: type[Exception]) -> None:
        """End the read with this error as soon as it has begun; call it from trio's thread."""
        with self._lock:
            if self._stop is None:
                self._stop = error
                if self._wake is not None:
                    with suppress(RuntimeError):  # the loop has just been closed
                        self._wake(self._exit)

    def _read(self, prompt: str, default: str) -> InputResult:
        message: StyleAndTextTuples = [("class:prompt", prompt)]
        try:
            return Typed(
                self._session.prompt(
                    message,
                    default=default,
                    accept_default=self._accept,
                    pre_run=self._begin,
                    handle_sigint=False,
                )
            )
        except (_CtrlC, _Stopped):
            return Interrupted(dropped=bool(self._session.default_buffer.text))
        except (EOFError, OSError):
            return End()
        finally:
            with self._lock:
                self._wake, self._stop = None, _Stopped

    def _begin(self) -> None:
        # Runs in the loop, before any input is read.
        loop = self._session.app.loop
        assert loop is not None
        with self._lock:
            self._wake = loop.call_soon_threadsafe
            if self._stop is not None:
                self._exit()

    def _exit(self) -> None:
        app: Application[str] = self._session.app
        if app.is_running and app.future is not None and not app.future.done():
            assert self._stop is not None
            app.exit(exception=self._stop())


def _session(history: "History | None") -> "PromptSession[str]":
    # An answer is one line, without history and commands.
    lines = history is not None
    return PromptSession(
        history=history or InputHistory(None),
        multiline=False,
        wrap_lines=True,
        enable_history_search=False,
        completer=_CommandCompleter() if lines else None,
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        reserve_space_for_menu=0,
        key_bindings=_keys() if lines else None,
        prompt_continuation=_continued,
        style=_STYLE,
        enable_suspend=True,
        interrupt_exception=_CtrlC,
    )


def _continued(width: int, line: int, soft: int) -> StyleAndTextTuples:
    del line
    return [] if soft else [("class:hint", ". ".rjust(width))]


def _keys() -> KeyBindings:
    keys = KeyBindings()

    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    def accept_or_go_on(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    _add(keys, new_line, "escape", "enter")
    _add(keys, new_line, "c-j")
    _add(keys, accept_or_go_on, "enter")
    return keys


def _add(keys: KeyBindings, handler: Callable[[KeyPressEvent], None], *sequence: str) -> None:
    keys.add(*sequence)(handler)
