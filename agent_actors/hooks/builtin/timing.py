"""Timing: how long a run took, and of it each model call and each tool.

It keeps what it measures in the run's state, and reports it when the run has ended, however it did.
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
    """One call.

    Attributes:
        name: The tool; of a model call, the model.
        seconds: How long it took, with its tries and whatever hooks inside this one did.
        failed: Whether it raised, or its result was an error.
    """

    name: str
    seconds: float
    failed: bool


@attrs.frozen
class RunTimes:
    """One run.

    Attributes:
        session_id: The session.
        run_id: The run.
        seconds: From its beginning to its end.
        model_calls: In the order of their ends.
        tool_calls: In the order of their ends; they ran side by side.
    """

    session_id: str
    run_id: str
    seconds: float
    model_calls: tuple[CallTime, ...]
    tool_calls: tuple[CallTime, ...]

    @property
    def model_seconds(self) -> float:
        """What all model calls took."""
        return sum(call.seconds for call in self.model_calls)


@attrs.define(eq=False)
class _Taken:
    started: float
    model: list[CallTime] = attrs.field(factory=list[CallTime])
    tools: list[CallTime] = attrs.field(factory=list[CallTime])


Report: TypeAlias = Callable[[RunTimes], Awaitable[None] | None]


class Timing(Hook):
    """Measures each run, and hands what it measured to a function. Register it first.

    Args:
        report: Called at the end of each run, also of one that failed; it may be async.
        clock: Seconds that never go back.
    """

    name = "timing"

    def __init__(self, report: Report, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._report = report
        self._clock = clock

    async def before_agent(self, event: BeforeAgentEvent, ctx: HookContext) -> None:
        """Begin."""
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
        """Report."""
        taken = self._taken(ctx)
        told = self._report(
            RunTimes(
                event.session_id,
                event.run_id,
                self._clock() - taken.started,
                tuple(taken.model),
                tuple(taken.tools),
            )
        )
        if inspect.isawaitable(told):
            await told

    def _taken(self, ctx: HookContext) -> _Taken:
        # Made here where a hook before this one ended the run at its beginning.
        return cast(_Taken, ctx.state.setdefault(self.name, _Taken(self._clock())))
