"""`Timing`: a hook that measures how long runs, model calls and tool calls take.

The hook keeps the measurements in the run's state and reports them when the run has ended,
regardless of the outcome.
"""

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.hooks.events import AfterAgentEvent, BeforeAgentEvent
from agent_actors.hooks.hook import Hook, HookContext, ModelCall, ToolCall
from agent_actors.tools.output import ToolOutput


@attrs.frozen
class CallTime:
    """The duration of one call.

    Attributes:
        name: The name of the tool, or of the model for a model call.
        seconds: Duration including retries and inner hooks.
        failed: True if the call raised an exception or its result was an error.
    """

    name: str
    seconds: float
    failed: bool


@attrs.frozen
class RunTimes:
    """The durations of one run.

    Attributes:
        session_id: The session.
        run_id: The run.
        seconds: Duration from the start to the end of the run.
        model_calls: Model calls, in the order in which they ended.
        tool_calls: Tool calls, in the order in which they ended; they may have run concurrently.
    """

    session_id: str
    run_id: str
    seconds: float
    model_calls: tuple[CallTime, ...]
    tool_calls: tuple[CallTime, ...]

    @property
    def model_seconds(self) -> float:
        """The total duration of all model calls, in seconds."""
        return sum(call.seconds for call in self.model_calls)


@attrs.define(eq=False)
class _Taken:
    started: float
    model: list[CallTime] = attrs.field(factory=list[CallTime])
    tools: list[CallTime] = attrs.field(factory=list[CallTime])


Report: TypeAlias = Callable[[RunTimes], Awaitable[None] | None]


class Timing(Hook):
    """Measures each run and passes the measurements to a function. Register this hook first.

    Args:
        report: Called at the end of each run, even if the run failed; may be async.
        clock: A monotonic clock, in seconds.
    """

    name = "timing"

    def __init__(self, report: Report, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._report = report
        self._clock = clock

    async def before_agent(self, event: BeforeAgentEvent, ctx: HookContext) -> None:
        """Start the measurement."""
        ctx.state[self.name] = _Taken(self._clock())

    async def wrap_model_call(
        self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
    ) -> ModelCompleted:
        """Measure a model call."""
        began, failed = self._clock(), True
        try:
            answer = await call_next(request)
            failed = False
            return answer
        finally:
            took = CallTime(request.settings.model, self._clock() - began, failed)
            self._taken(ctx).model.append(took)

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        """Measure a tool call."""
        began, failed = self._clock(), True
        try:
            output = await call_next(call)
            failed = output.is_error
            return output
        finally:
            took = CallTime(call.name, self._clock() - began, failed)
            self._taken(ctx).tools.append(took)

    async def after_agent(self, event: AfterAgentEvent, ctx: HookContext) -> None:
        """Report the measurements."""
        taken = self._taken(ctx)
        reported = self._report(
            RunTimes(
                event.session_id,
                event.run_id,
                self._clock() - taken.started,
                tuple(taken.model),
                tuple(taken.tools),
            )
        )
        if inspect.isawaitable(reported):
            await reported

    def _taken(self, ctx: HookContext) -> _Taken:
        # Created here if an earlier hook ended the run before this hook's `before_agent`.
        return cast(_Taken, ctx.state.setdefault(self.name, _Taken(self._clock())))
