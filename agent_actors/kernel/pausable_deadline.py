"""Deadlines that stand still while a person is asked.

A person's time is nobody's who waits for it: not the run's that asks, nor that of the call which it
runs in, nor of any run and call around these. Each of these scopes has one `Standstill`, which
counts who waits, so that questions that are open side by side are counted once. A run around may
belong to another trio run, whose tool opened one of its own in a thread: its scopes are touched at
home only, so that whoever stops them from elsewhere goes there (`Home`).
"""

import math
from collections.abc import Callable
from contextlib import suppress

import attrs
import trio


@attrs.define(eq=False)
class Standstill:
    """The deadline of one scope, which stands still as long as anybody waits for a person.

    Used in the trio run of the scope.

    Args:
        scope: Whose deadline; of one that has ended nothing comes.
    """

    _scope: trio.CancelScope
    _waiting: int = attrs.field(default=0, init=False)
    _left: float = attrs.field(default=0.0, init=False)

    def begin(self) -> None:
        """Somebody waits for a person from here on."""
        if not self._waiting:
            self._left = self._scope.deadline - trio.current_time()
            self._scope.deadline = math.inf
        self._waiting += 1

    def end(self) -> None:
        """They wait no longer; to be called once for each `begin`."""
        self._waiting -= 1
        if not self._waiting:
            self._scope.deadline = trio.current_time() + self._left


@attrs.frozen(eq=False)
class Home:
    """Where a run takes place; made there.

    Attributes:
        deadline: That of the run.
    """

    deadline: Standstill
    _token: trio.lowlevel.TrioToken = attrs.field(
        factory=trio.lowlevel.current_trio_token, init=False
    )

    def tell(self, do: Callable[[], None]) -> None:
        """Have this done there: at once if that is here; if nothing is there any more, never."""
        if trio.lowlevel.current_trio_token() is self._token:
            do()
            return
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(do)
