"""Deadlines that are paused while a question to a person is open, or while a hook's step runs.

The time that a person takes to answer does not count against the run that asks, nor against the
tool call around that run, nor against any outer run or call. Each of these scopes has one
`PausableDeadline`, which counts the open questions, so that simultaneous questions pause the
deadline once. An outer run may belong to another trio run: for example, a tool may start its own
trio run in a thread. The scopes of a run may only be touched in its own trio run, which `Home`
ensures.

The timeout of a hook that wraps a step bounds the hook's own time: its deadline is paused in the
same way while the step runs.
"""

import math
from collections.abc import Callable
from contextlib import suppress

import attrs
import trio


@attrs.define(eq=False)
class PausableDeadline:
    """The deadline of one scope, paused as long as at least one reason to pause it is open.

    A reason is a question to a person, or a step inside a hook.

    Must be used in the trio run of the scope.

    Args:
        scope: The scope whose deadline is paused. Pausing has no effect on a scope that has ended.
    """

    _scope: trio.CancelScope
    _waiting: int = attrs.field(default=0, init=False)
    _left: float = attrs.field(default=0.0, init=False)

    def begin(self) -> None:
        """Count one more open reason; the first one pauses the deadline."""
        if not self._waiting:
            self._left = self._scope.deadline - trio.current_time()
            self._scope.deadline = math.inf
        self._waiting += 1

    def end(self) -> None:
        """Count one open reason less; at zero, resume the deadline. Call once per `begin`."""
        self._waiting -= 1
        if not self._waiting:
            self._scope.deadline = trio.current_time() + self._left


@attrs.frozen(eq=False)
class Home:
    """The trio run in which an agent run takes place; must be created there.

    Attributes:
        deadline: The pausable deadline of the agent run.
    """

    deadline: PausableDeadline
    _token: trio.lowlevel.TrioToken = attrs.field(
        factory=trio.lowlevel.current_trio_token, init=False
    )

    def tell(self, do: Callable[[], None]) -> None:
        """Call a function in this trio run.

        The function is called immediately if this trio run is the current one. Otherwise it is
        scheduled there. It is never called if that trio run has ended.
        """
        if trio.lowlevel.current_trio_token() is self._token:
            do()
            return
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(do)
