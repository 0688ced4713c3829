"""The tool calls of one run that are in progress, for its driver.

This module keeps the requests to the tool executor, and the order in which they ended. The driver
waits here until the first call ends. Calls that end in the same tick are returned together, so that
their results share one commit.
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
    """Starts the calls of a run, and returns their results.

    Args:
        executor: The tool executor that runs the calls.
    """

    _executor: ToolExecutor
    _open: dict[str, Request[ToolCallResult]] = attrs.field(
        factory=dict[str, Request[ToolCallResult]], init=False
    )
    _ended: list[str] = attrs.field(factory=list[str], init=False)
    _driver: trio.lowlevel.Task | None = attrs.field(default=None, init=False)
    # The event is kept until the driver waits again. A call may wake the driver while it is busy,
    # and without the event the driver would then wait forever.
    _woken: bool = attrs.field(default=False, init=False)

    def __contains__(self, call_id: str) -> bool:
        """Return whether the call has started but its result is still outstanding."""
        return call_id in self._open

    async def start(self, run: RunTools, call: ToolUseBlock) -> None:
        """Start a call without waiting for it.

        Args:
            run: The settings that all calls of the run share.
            call: The call.

        Raises:
            RuntimeClosed: The executor has ended.
            ActorCrashed: An actor has crashed.

        Cancellation: safe; a cancelled call starts nothing.
        """
        request = await self._executor.submit(run, call)
        self._open[call.id] = request
        request.on_done(partial(self._end, call.id))

    async def ended(self) -> list[ToolCallResult]:
        """Wait until a tool call ends, and return all results since this method last returned.

        Returns:
            The results, in the order in which the calls ended; empty if the driver was woken for
                another reason.

        Raises:
            Exception: A call failed for a reason other than its tool. `join` then returns the
                results of the calls that ended at the same time.

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
        """Wake the driver although no call has ended, either now or the next time that it waits."""
        self._woken = True
        driver, self._driver = self._driver, None
        if driver is not None:
            trio.lowlevel.reschedule(driver)

    async def join(self) -> list[ToolCallResult]:
        """Cancel the calls in progress, wait until they end, and return the available results.

        Cancellation: shielded; returns once the `finally` blocks of all tools have run.
        """
        if not self._open:
            return []
        for request in self._open.values():
            request.cancel("the run ended")
        # There is no time limit: a run ends only after its tools have ended, however long their
        # `finally` blocks take.
        with trio.CancelScope(shield=True):
            for request in self._open.values():
                await request.wait_done()
        return [request.result() for request in self._open.values() if request.has_value]

    def _end(self, call_id: str) -> None:
        self._ended.append(call_id)
        self.wake()

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._driver = None
        return trio.lowlevel.Abort.SUCCEEDED
