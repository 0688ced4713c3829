"""Counts and records the calls that the tools of a run make with `call_tool`.

An inner call is recorded as a `tool.use` and a `tool.result` whose `parent_tool_use_id` is the
outer call. The fold ignores these records, because no response of the model contains the call. The
history that is sent to the model therefore only contains the outer call.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import (
    Event,
    EventBuilder,
    EventScope,
    ToolResult,
    ToolUse,
)
from agent_actors.domain.json import JsonObject, JsonValue, copy_json, copy_object
from agent_actors.domain.run import ToolCallResult
from agent_actors.runs.context import RunContext
from agent_actors.runs.model.budget import Budget
from agent_actors.tools.output import ToolOutput

_CANCELLED = "the call was cancelled"


@attrs.frozen(eq=False)
class InnerCallRecorder:
    """The `InnerCallKeeper` of a run.

    Attributes:
        context: The context of the run.
        budget: The budget of the run, which counts inner calls like the model's calls.
        live: The ids of the inner calls that are running.
    """

    context: RunContext
    budget: Budget
    # Usually empty; a set would cost each run 200 bytes.
    live: list[str] = attrs.field(factory=list[str], init=False)

    async def perform(
        self,
        outer_id: str,
        call: ToolUseBlock,
        execute: Callable[[], Awaitable[ToolCallResult]],
    ) -> ToolCallResult:
        """Record a call, execute it if the limits of the run allow it, and record its result.

        Raises:
            SessionStoreError: A record could not be written.
            HookError: A hook for the call failed.

        Cancellation: the call ends first; its records are written with the next commit of the run.
        """
        context, journal = self.context, self.context.journal
        records = context.usage.call_records
        records.begin(call.id)
        self.live.append(call.id)
        result = shown = _failed(call, _CANCELLED)
        try:
            await journal.append(_child(outer_id, _use(call)))
            limit = self.budget.take_inner_call()
            if limit:
                why = f"the call was not executed, since the limit {limit!r} has been reached"
                result = shown = _failed(call, why)
            else:
                result = await execute()
                shown = await self._short(result)
        finally:
            self.live.remove(call.id)
            for builder in (*records.end(call.id), _child(outer_id, _result(shown))):
                journal.note(builder)
        await journal.commit()
        return result

    async def _short(self, result: ToolCallResult) -> ToolCallResult:
        """Return the result as it is recorded, within the limit for results."""
        output = ToolOutput(result.content, data=result.data)
        output, complete = await self.context.result_limit.cut(result.id, output)
        return attrs.evolve(
            result, content=output.content, data=output.data, complete_bytes=complete
        )


def _use(call: ToolUseBlock) -> EventBuilder:
    return partial(ToolUse, tool_use_id=call.id, name=call.name, input=copy_object(call.input))


def _result(result: ToolCallResult) -> EventBuilder:
    return partial(
        ToolResult,
        tool_use_id=result.id,
        name=result.name,
        # Copies, because the outer call's tool receives the originals.
        content=cast("str | JsonObject | list[JsonValue]", copy_json(result.content)),
        is_error=result.is_error,
        data=copy_json(result.data),
        started_at=result.started_at,
        completed_at=result.completed_at,
        duration=result.duration,
        complete_bytes=result.complete_bytes,
        untrusted=result.untrusted,
    )


def _child(outer_id: str, builder: EventBuilder) -> EventBuilder:
    """Return a builder for an event that belongs to a call, not to the run itself."""

    def build(
        scope: EventScope,
        id: str,  # noqa: A002 - the name of the header field
        ts: float,
        /,
        *,
        seq: int | None = None,
    ) -> Event:
        return builder(attrs.evolve(scope, parent_tool_use_id=outer_id), id, ts, seq=seq)

    return build


def _failed(call: ToolUseBlock, why: str) -> ToolCallResult:
    return ToolCallResult(call.id, call.name, call.input, why, is_error=True)
