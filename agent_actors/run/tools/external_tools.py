"""Calls that the caller of a run carries out: those of tools without a handler.

Such a call goes the way of every call, past its schema, hooks and whoever permits it; there it is
put down, and its worker waits for the end of the run. It holds no slot, so that any number of them
hold up nobody. Its result comes with `runtime.resume`, in this process or another.
"""

from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from agent_actors.actors.tool_executor import ToolGuard
from agent_actors.domain.blocks import ToolResultBlock, ToolUseBlock
from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import ConfigError
from agent_actors.tools import Tool
from agent_actors.tools.output import ToolOutput, to_output


@attrs.frozen(eq=False)
class ExternalGuard:
    """The `ToolGuard` of a run with external tools, around all else that stands there.

    Attributes:
        inner: All else; None: nothing.
        put_down: Takes the calls that were put down, as they were admitted, by id.
        wake: Called when one was.
    """

    inner: ToolGuard | None
    put_down: dict[str, ToolUseBlock]
    wake: Callable[[], None]

    async def admit(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        """May this call run; one that may and is external never returns from here.

        Cancellation: safe; the run ends with the call open, or closes it.
        """
        admitted = call if self.inner is None else await self.inner.admit(call, tool)
        if tool.external and not isinstance(admitted, ToolOutput):
            self.put_down[call.id] = admitted
            self.wake()
            await trio.sleep_forever()
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
        """What the model is told."""
        return output if self.inner is None else await self.inner.after(call, output)


def as_outputs(results: Mapping[str, object] | None) -> dict[str, ToolOutput]:
    """What a caller gives as the results of calls, as handlers' outputs, by the calls' ids.

    Raises:
        ConfigError: One is no JSON, or a block that answers another call; names the call.
    """
    return {call_id: _as_output(call_id, given) for call_id, given in (results or {}).items()}


def _as_output(call_id: str, given: object) -> ToolOutput:
    if isinstance(given, BaseException):
        detail = str(given) or "no message"
        return ToolOutput(f"{type(given).__name__}: {detail}", is_error=True)
    if isinstance(given, ToolResultBlock):
        if given.tool_use_id != call_id:
            raise ConfigError(
                f"results: the block for call {call_id!r} is the result of call "
                f"{given.tool_use_id!r}"
            )
        given = ToolOutput(given.content, is_error=given.is_error)
    try:
        return to_output(given)
    except TypeError as error:
        raise ConfigError(
            f"results: that of call {call_id!r} is {type(given).__name__}, and cannot be told to a "
            f"model: {error}"
        ) from None


def result_of(call: ToolUseBlock, output: ToolOutput, completed_at: float) -> ToolCallResult:
    """The result of a call that was carried out elsewhere; nobody here knows when it began."""
    return ToolCallResult(
        call.id,
        call.name,
        call.input,
        output.content,
        output.is_error,
        output.data,
        completed_at=completed_at,
    )
