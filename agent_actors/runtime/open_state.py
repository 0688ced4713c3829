"""Tracks whether a runtime is open: entered in the current trio run, and not closing."""

from collections.abc import Callable
from typing import TypeVar

import trio

from agent_actors.errors import RuntimeClosed, RuntimeFailure
from agent_actors.runtime.current import require_trio

T = TypeVar("T")


class OpenState:
    """Tracks the trio run in which a runtime was opened, and rejects calls that cannot work.

    Args:
        is_closing: Returns True as soon as the runtime has begun to close.
    """

    def __init__(self, is_closing: Callable[[], bool]) -> None:
        self._is_closing = is_closing
        # Set when the runtime is opened, since it may be constructed before trio runs.
        self._token: trio.lowlevel.TrioToken | None = None

    @property
    def is_open(self) -> bool:
        """True if the runtime accepts new work from the current code."""
        return (
            self._token is not None
            and trio.lowlevel.in_trio_run()
            and self._token is trio.lowlevel.current_trio_token()
            and not self._is_closing()
        )

    def open(self) -> None:
        """Bind the runtime to the current trio run.

        Raises:
            RuntimeFailure: The runtime has already been opened.
            RuntimeError: trio is not running.
        """
        if self._token is not None:
            raise RuntimeFailure(
                "this runtime has already been opened, and a runtime can be opened only once; "
                "call open_runtime() for a new one"
            )
        self._token = require_trio()

    def check_opened(self) -> None:
        """Check that the runtime was opened in this trio run; the runtime may be closing or closed.

        Raises:
            RuntimeFailure: The runtime was not opened, or was opened in another trio run or thread.
        """
        if self._token is None:
            raise RuntimeFailure(
                "the runtime is not open; use `async with open_runtime() as runtime:`"
            )
        if not trio.lowlevel.in_trio_run():
            raise RuntimeFailure(
                "the runtime belongs to the trio.run() of another thread; from this thread, call "
                "an async method with `trio.from_thread.run(runtime.run, ..., trio_token=token)`, "
                "and any other with `trio.from_thread.run_sync(...)`; get the token beforehand "
                "from `trio.lowlevel.current_trio_token()` in the runtime's thread"
            )
        if self._token is not trio.lowlevel.current_trio_token():
            raise RuntimeFailure(
                "the runtime belongs to another trio.run(); open a runtime in each trio.run()"
            )

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the runtime's thread, from any thread, and return its value.

        In any other thread, block until the function has returned.

        Raises:
            RuntimeFailure: The runtime was not opened, or the caller is inside another trio run,
                which this call would block.
            RuntimeClosed: The trio run of the runtime has ended.
        """
        if self._token is None or trio.lowlevel.in_trio_run():
            self.check_opened()
            return function()
        try:
            return trio.from_thread.run_sync(function, trio_token=self._token)
        except trio.RunFinishedError:
            raise RuntimeClosed from None

    def check_open(self) -> None:
        """Check that the runtime accepts new work.

        Raises:
            RuntimeClosed: The runtime is closing or closed.
            RuntimeFailure: The runtime was not opened, or was opened in another trio run.
        """
        self.check_opened()
        if self._is_closing():
            raise RuntimeClosed
