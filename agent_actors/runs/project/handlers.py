"""Calls of handlers of skills and commands that users define in code."""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

import trio

from agent_actors.codec.json_values import to_json
from agent_actors.domain.workspace.project import HandlerResult
from agent_actors.kernel.user_code import await_user_code

_LOG: Final = logging.getLogger(__name__)


async def call_handler(
    name: str, handler: Callable[..., object], *arguments: object
) -> HandlerResult:
    """Call a handler, and return its result or its error.

    A sync handler runs in a worker thread.

    Args:
        name: The name of the skill or the command.
        handler: The handler.
        *arguments: The arguments of the handler.

    Cancellation: cancels an async handler; waits for a sync handler.
    """
    try:
        output = to_json(await _called(handler, *arguments))
    except Exception as error:  # noqa: BLE001 - an error of the user's code is a result
        _LOG.debug("the handler of %r failed", name, exc_info=True)
        return HandlerResult(name, error=f"{type(error).__name__}: {error}")
    return HandlerResult(name, output)


async def _called(handler: Callable[..., object], *arguments: object) -> object:
    if inspect.iscoroutinefunction(handler):
        function = cast("Callable[..., Awaitable[object]]", handler)
        return await await_user_code(function, *arguments)
    # In a tuple, since trio refuses a coroutine as the result of a thread.
    (found,) = await trio.to_thread.run_sync(lambda: (handler(*arguments),))
    if not inspect.isawaitable(found):
        return found

    async def awaited() -> object:
        return await cast("Awaitable[object]", found)

    return await await_user_code(awaited)
