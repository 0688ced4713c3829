"""Calls the functions in an agent's options, such as `system_prompt`, within `hook_timeout`."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, cast

import trio

from agent_actors.errors import CallbackError
from agent_actors.kernel.exceptions import find_exit_request, is_cancellation
from agent_actors.kernel.interrupts import await_unprotected
from agent_actors.kernel.user_code import find_user_loop
from agent_actors.runs.context import RunContext

_SYSTEM_PROMPT: Final = "system_prompt"


async def call_function(
    context: RunContext, name: str, function: Callable[..., object], *arguments: object
) -> object:
    """Call a function of the options, sync or async, and return its result.

    Args:
        context: The context of the run.
        name: The name of the function, for error messages.
        function: The function.
        *arguments: The arguments before the `AgentContext`.

    Raises:
        CallbackError: The function raised an exception or exceeded `hook_timeout`.

    Cancellation: see the function.
    """
    timeout = context.options.hook_timeout
    try:
        with trio.move_on_after(timeout):
            agent = context.for_options()
            loop = find_user_loop(function)
            if loop is not None:
                return await loop.call(function, *arguments, agent)
            return await await_unprotected(_result_of, function, *arguments, agent)
    except BaseException as error:
        if is_cancellation(error):
            raise
        rest = context.services.take_interrupt(error)
        if rest is None:
            raise CallbackError("it was interrupted by Ctrl-C", function=name) from None  # noqa: ASYNC104
        exit_request = find_exit_request(rest)
        if exit_request is not None:
            raise exit_request from None  # noqa: ASYNC104
        reason = f"it raised {type(rest).__name__}: {rest}"
        raise CallbackError(reason, function=name) from rest  # noqa: ASYNC104
    raise CallbackError(f"it did not return within {timeout:g} s", function=name)


async def system_prompt_of(context: RunContext) -> str:
    """Return the system prompt of a run.

    Raises:
        CallbackError: The function that makes it failed, or did not return text.

    Cancellation: see the function.
    """
    given = context.options.system_prompt
    if isinstance(given, str):
        return given
    text = await call_function(context, _SYSTEM_PROMPT, given)
    if not isinstance(text, str):
        raise CallbackError(
            f"it returned a value of type {type(text).__name__}; expected text",
            function=_SYSTEM_PROMPT,
        )
    return text


async def _result_of(function: Callable[..., object], *arguments: object) -> object:
    result = function(*arguments)
    return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result
