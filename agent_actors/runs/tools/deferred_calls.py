"""Deferred calls: tool calls whose results come from outside the run.

Three kinds of calls are deferred: calls to tools without a handler (external tools), all calls of a
client in manual mode (client-side tools), and calls that wait for a person if the agent has
`on_ask="suspend"`. As with every call, the schema, hooks and permissions are checked first. Then
the call is registered here, and its worker waits for the end of the run without holding a slot.
When no other calls are open, the run ends and leaves these calls open. Their results are passed to
`runtime.resume` or `Client.add_tool_result`, in this process or in another one.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import attrs
import trio

from agent_actors.actors.tool_executor import ToolGuard
from agent_actors.domain.blocks import ToolResultBlock, ToolUseBlock
from agent_actors.domain.events import EventBuilder, RunSuspended
from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.domain.run import Question, StopReason, ToolCallResult
from agent_actors.errors import ConfigError
from agent_actors.protocol.turn import Interrupted, State, TurnMachine
from agent_actors.runs.tools.tool_calls import RunCalls
from agent_actors.tools import Tool
from agent_actors.tools.output import ToolOutput, to_output


@attrs.define(eq=False)
class DeferredCalls:
    """The deferred calls of one run.

    Args:
        calls: The calls of the run, used to wake the driver when a call is deferred.

    Attributes:
        external: Admitted calls of external tools, by id.
        client_side: Admitted calls of a client in manual mode, by id.
        questions: The questions that calls are waiting on.
        suspended_questions: The questions that the run left open when it ended.
        suspended_calls: The external calls that the run left open when it ended, in the order of
            the model's response.
    """

    _calls: RunCalls
    external: dict[str, ToolUseBlock] = attrs.field(factory=dict[str, ToolUseBlock], init=False)
    client_side: dict[str, ToolUseBlock] = attrs.field(factory=dict[str, ToolUseBlock], init=False)
    questions: list[Question] = attrs.field(factory=list[Question], init=False)
    suspended_questions: tuple[Question, ...] = attrs.field(default=(), init=False)
    suspended_calls: tuple[ToolUseBlock, ...] = attrs.field(default=(), init=False)

    async def defer(self, call: ToolUseBlock, *, client_side: bool) -> None:
        """Leave an admitted call to the caller of the run; never returns.

        Cancellation: happens when the run ends, which either leaves the call open or closes it.
        """
        (self.client_side if client_side else self.external)[call.id] = call
        await self._wait_for_end()

    async def defer_question(self, question: Question) -> None:
        """Leave a call open for the person who will answer this question; never returns.

        Cancellation: see `defer`.
        """
        self.questions.append(question)
        await self._wait_for_end()

    def end_of_run(self, machine: TurnMachine) -> Interrupted | None:
        """Return the event that ends the run, if all open calls are deferred."""
        if machine.state is not State.TOOLS:
            return None
        suspends = bool(self.questions or self.external)
        if not suspends and not self.client_side:
            return None
        deferred = {*self.external, *self.client_side}
        deferred.update(question.tool_use_id for question in self.questions)
        open_calls = machine.open_calls
        if any(call.id not in deferred for call in open_calls):
            return None
        # The calls were deferred in the order in which their checks ended, so restore the order of
        # the model's response.
        self.client_side = _in_order(self.client_side, open_calls)
        if not suspends:
            return Interrupted(StopReason.AWAITING_RESULTS, "", leave_open=True)
        self.suspended_questions = tuple(self.questions)
        self.suspended_calls = tuple(_in_order(self.external, open_calls).values())
        return Interrupted(StopReason.AWAITING_APPROVAL, "", leave_open=True)

    def record(self) -> EventBuilder:
        """Return the record of the questions and calls that the run leaves open."""
        return partial(
            RunSuspended,
            question_ids=tuple(question.id for question in self.suspended_questions),
            external_calls={call.id: copy_object(call.input) for call in self.suspended_calls},
        )

    async def _wait_for_end(self) -> None:
        self._calls.wake()
        await trio.sleep_forever()


def _in_order(
    calls: Mapping[str, ToolUseBlock], order: tuple[ToolUseBlock, ...]
) -> dict[str, ToolUseBlock]:
    return {call.id: calls[call.id] for call in order if call.id in calls}


@attrs.frozen(eq=False)
class CallGuard:
    """The outermost `ToolGuard` of a run: defers calls, and formats failures for the client.

    Attributes:
        inner: The guard that applies hooks and permissions; None if there are none.
        deferred: The deferred calls of the run.
        client_side: True if the client executes all calls.
        json_failures: True if failures are reported as `{"error", "tool"}`.
        guarded: The ids of the calls that reached this guard; only kept if `json_failures` is set.
    """

    inner: ToolGuard | None
    deferred: DeferredCalls
    client_side: bool
    json_failures: bool
    guarded: set[str] = attrs.field(factory=set[str], init=False)

    async def admit(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        """Return the call to execute, or a result for the model instead.

        Cancellation: safe; a deferred call stays open, or is closed with the run.
        """
        if self.json_failures:
            self.guarded.add(call.id)
        admitted = call if self.inner is None else await self.inner.admit(call, tool)
        if not isinstance(admitted, ToolOutput) and (self.client_side or tool.external):
            await self.deferred.defer(admitted, client_side=self.client_side)
        return admitted

    async def around(
        self,
        call: ToolUseBlock,
        tool: Tool,
        handler: Callable[[ToolUseBlock], Awaitable[ToolOutput]],
    ) -> ToolOutput:
        """Call the handler."""
        if self.inner is None:
            return await handler(call)
        return await self.inner.around(call, tool, handler)

    async def after(self, call: ToolUseBlock, output: ToolOutput) -> ToolOutput:
        """Return the result that the model gets."""
        if self.json_failures and output.is_error:
            output = json_failure(call, output)
        return output if self.inner is None else await self.inner.after(call, output)


def json_failure(call: ToolUseBlock, output: ToolOutput) -> ToolOutput:
    """Return a failed result in the form `{"error", "tool"}`."""
    return attrs.evolve(output, content={"error": error_text(output.content), "tool": call.name})


def error_text(content: str | JsonObject | list[JsonValue]) -> str:
    """Return the error message in the content of a failed result."""
    if isinstance(content, dict):
        error = content.get("error")
        if isinstance(error, str):
            return error
    return content if isinstance(content, str) else ToolResultBlock("", content).text


def as_outputs(results: Mapping[str, object] | None) -> dict[str, ToolOutput]:
    """Convert the call results that a caller passed to tool outputs, by call id.

    Raises:
        ConfigError: A result cannot be sent to a model, or is a block for another call. The message
            names the call.
    """
    return {call_id: _as_output(call_id, value) for call_id, value in (results or {}).items()}


def _as_output(call_id: str, value: object) -> ToolOutput:
    if isinstance(value, BaseException):
        detail = str(value) or "no message"
        return ToolOutput(f"{type(value).__name__}: {detail}", is_error=True)
    if isinstance(value, ToolResultBlock):
        if value.tool_use_id != call_id:
            raise ConfigError(
                f"results: the block passed for call {call_id!r} is the result of call "
                f"{value.tool_use_id!r}; pass each block with the id of its own call"
            )
        value = ToolOutput(value.content, is_error=value.is_error)
    try:
        return to_output(value)
    except TypeError as error:
        raise ConfigError(
            f"results: the result of call {call_id!r} has type {type(value).__name__}, which "
            f"cannot be sent to a model: {error}"
        ) from None


def result_of(call: ToolUseBlock, output: ToolOutput, completed_at: float) -> ToolCallResult:
    """Return the result of a call that was executed outside the run; its start time is unknown."""
    return ToolCallResult(
        call.id,
        call.name,
        call.input,
        output.content,
        output.is_error,
        output.data,
        completed_at=completed_at,
    )
