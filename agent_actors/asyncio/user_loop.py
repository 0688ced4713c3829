"""The `async def` tools, hooks and callbacks of users, called in an asyncio event loop."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Final, TypeVar, cast

import attrs
import trio

from agent_actors.actors.tool_executor import CallContext
from agent_actors.asyncio.calls import LoopCall
from agent_actors.asyncio.ports import LoopPort
from agent_actors.asyncio.workspace import CallTrio, LoopBackground, LoopWorkspace
from agent_actors.domain.json import JsonObject
from agent_actors.domain.run import ToolCallResult
from agent_actors.runs.hooks.call_next import CallNext
from agent_actors.schema.type_hints import callable_target

T = TypeVar("T")

# The runtime limits the number of concurrent calls itself.
_UNBOUNDED: Final = trio.CapacityLimiter(float("inf"))


@attrs.frozen(eq=False)
class AsyncioLoop:
    """The `UserLoop` of the runs that one asyncio event loop starts.

    Args:
        call_trio: Calls an async function in the trio thread.
        find_port: Returns the port of the loop.
    """

    _call_trio: CallTrio
    _find_port: Callable[[], LoopPort]

    async def call(self, function: Callable[..., object], /, *args: object) -> object:
        """Call an `async def` function in the loop, or a sync function in a worker thread.

        Raises:
            LoopClosed: The loop is closed.
            RuntimeError: The loop cancelled or interrupted the function.
            Exception: The function raised this error.

        Cancellation: cancels the function and waits until it has ended.
        """
        work = partial(function, *map(self._adapted, args))
        if inspect.iscoroutinefunction(callable_target(function)):
            make = cast("Callable[[], Coroutine[object, object, object]]", work)
            return await LoopCall(self._find_port(), make).wait()
        # trio rejects a function that returns a coroutine, so the value is returned in a tuple.
        (returned,) = await trio.to_thread.run_sync(lambda: (work(),), limiter=_UNBOUNDED)
        if not inspect.isawaitable(returned):
            return returned
        awaitable = cast("Awaitable[object]", returned)
        return await LoopCall(self._find_port(), partial(_awaited, awaitable)).wait()

    def _adapted(self, argument: object) -> object:
        """Return an argument that works in the loop."""
        if isinstance(argument, CallNext):
            step = cast("CallNext[object, object]", argument)
            return _LoopStep(self._call_trio, step)
        return self._adapted_context(argument) if isinstance(argument, CallContext) else argument

    def _adapted_context(self, context: CallContext) -> CallContext:
        workspace, tasks, call_tool = context.workspace, context.background, context.on_call

        async def on_call(name: str, arguments: JsonObject) -> ToolCallResult:
            return await self._call_trio(partial(call_tool, name, arguments))

        return attrs.evolve(
            context,
            workspace=None if workspace is None else LoopWorkspace(self._call_trio, workspace),
            background=None if tasks is None else LoopBackground(self._call_trio, tasks),
            on_call=on_call,
        )


@attrs.frozen(eq=False)
class _LoopStep:
    """The step that a hook wraps, called from an event loop."""

    _call_trio: CallTrio
    _step: CallNext[object, object]

    async def __call__(self, argument: object) -> object:
        return await self._call_trio(partial(self._step, argument))


async def _awaited(value: Awaitable[T]) -> T:
    return await value
