"""The tool calls of one run that are under way, as its driver sees them.

Keeps the requests to the tool executor and the order in which they ended. The driver parks here and
is woken by the first call that ends. The calls that end in the same tick are returned together, so
that their results become one commit.
"""

from functools import partial

import attrs
import trio

from agent_actors.actors.tool_executor import RunTools, ToolExecutor
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.run import ToolCallResult
from agent_actors.kernel.request import Request


@attrs.define(eq=False)
class RunCalls:
    """Starts a run's calls, and gives out what they came to.

    Args:
        executor: Where they run.
    """

    _executor: ToolExecutor
    _open: dict[str, Request[ToolCallResult]] = attrs.field(
        factory=dict[str, Request[ToolCallResult]], init=False
    )
    _ended: list[str] = attrs.field(factory=list[str], init=False)
    _driver: trio.lowlevel.Task | None = attrs.field(default=None, init=False)
    # Kept until the driver looks: it may be busy elsewhere, and would park with nobody to wake it.
    _woken: bool = attrs.field(default=False, init=False)

    def __contains__(self, call_id: str) -> bool:
        """True from a call's start until its outcome was given out."""
        return call_id in self._open

    async def start(self, run: RunTools, call: ToolUseBlock) -> None:
        """Start a call without waiting for it.

        Args:
            run: What the calls of the run have in common.
            call: The call.

        Raises:
            RuntimeClosed, ActorCrashed: The executor has ended.

        Cancellation: safe; a cancelled start has started nothing.
        """
        request = await self._executor.submit(run, call)
        self._open[call.id] = request
        request.on_done(partial(self._end, call.id))

    async def ended(self) -> list[ToolCallResult]:
        """What has ended since one looked last, in that order; wait for the first.

        None, if the driver was woken for something else.

        Raises:
            Whatever a call failed with, which is never the tool's own fault; what has ended
            beside it is then given out by `join`.

        Cancellation: safe; no result is lost.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self._ended and not self._woken:
            self._driver = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        self._woken = False
        ended, self._ended = self._ended, []
        results = [self._open[call_id].result() for call_id in ended]
        for call_id in ended:
            del self._open[call_id]
        return results

    def wake(self) -> None:
        """Have the driver look again, though no call has ended; now, or when it next waits."""
        self._woken = True
        driver, self._driver = self._driver, None
        if driver is not None:
            trio.lowlevel.reschedule(driver)

    async def join(self) -> list[ToolCallResult]:
        """Cancel what is under way, wait for its end, and give out what it came to all the same.

        Cancellation: none; it returns when the last tool's `finally` has.
        """
        if not self._open:
            return []
        for request in self._open.values():
            request.cancel("the run ended")
        # Not bounded: a run is over when its tools are, whatever their `finally` takes.
        with trio.CancelScope(shield=True):
            for request in self._open.values():
                await request.settled()
        return [request.result() for request in self._open.values() if request.has_value]

    def _end(self, call_id: str) -> None:
        self._ended.append(call_id)
        self.wake()

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._driver = None
        return trio.lowlevel.Abort.SUCCEEDED
