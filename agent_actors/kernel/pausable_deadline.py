"""Deadlines that are paused while a question to a person is open or a hook's step is running.

The time that a person takes to answer does not count against the run that asks, the tool call
around that run, or any outer run or call. Each of these scopes has one `PausableDeadline`, which
counts the open questions, so that concurrent questions pause the deadline only once. An outer run
may belong to another trio run: for example, a tool may start its own trio run in a thread. The
scopes of a run may only be used in its own trio run, which `TrioRunRef` ensures.

The timeout of a hook that wraps a step limits only the time that the hook itself takes. The hook's
deadline is therefore paused in the same way while the step is running.
"""

import math
from collections.abc import Callable
from contextlib import suppress

import attrs
import trio


@attrs.define(eq=False)
class PausableDeadline:
    """The deadline of one scope, which is paused while there is at least one reason to pause it.

    A reason is an open question to a person, or a step that a hook wraps.

    It must be used in the trio run of the scope.

    Args:
        scope: The scope whose deadline is paused. Pausing has no effect on a scope that has ended.
    """

    _scope: trio.CancelScope
    _waiting: int = attrs.field(default=0, init=False)
    _left: float = attrs.field(default=0.0, init=False)

    def pause(self) -> None:
        """Add a reason; the first reason pauses the deadline."""
        if not self._waiting:
            self._left = self._scope.deadline - trio.current_time()
            self._scope.deadline = math.inf
        self._waiting += 1

    def resume(self) -> None:
        """Remove a reason, and resume the deadline if none is left; call once per `pause`."""
        self._waiting -= 1
        if not self._waiting:
            self._scope.deadline = trio.current_time() + self._left


@attrs.frozen(eq=False)
class TrioRunRef:
    """A reference to the trio run that executes an agent run; must be created in that trio run.

    Attributes:
        deadline: The pausable deadline of the agent run.
    """

    deadline: PausableDeadline
    _token: trio.lowlevel.TrioToken = attrs.field(
        factory=trio.lowlevel.current_trio_token, init=False
    )

    def run_sync(self, do: Callable[[], None]) -> None:
        """Call a function in this trio run.

        The function is called immediately if this trio run is the current one. Otherwise, it is
        scheduled in this trio run. If this trio run has ended, the function is never called.
        """
        if trio.lowlevel.current_trio_token() is self._token:
            do()
            return
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(do)
