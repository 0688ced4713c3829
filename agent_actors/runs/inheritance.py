"""Carries the current run into threads and tasks that do not inherit context variables.

A task in a nursery and a thread from `trio.to_thread` inherit the context variables of their
creator, and therefore its current run. Threads from `threading` or an executor, and trio's system
tasks, do not. To the runtime, their code belongs to no run, so the hooks and permission rules of
the run do not apply to runs that this code starts.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import wraps
from typing import ParamSpec, TypeVar, cast

from agent_actors.kernel.interrupts import await_unprotected, call_unprotected
from agent_actors.schema.type_hints import callable_target

P = ParamSpec("P")
T = TypeVar("T")


def in_current_run(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that belongs to the current run, even if another thread or task calls it.

    Use this function in a tool or a hook, to wrap a function that a `threading.Thread`, an executor
    or `trio.lowlevel.spawn_system_task` will call. Runs that the wrapped function starts are then
    nested runs: the hooks, permission rules and ancestors of the current run apply to them. All
    other context variables also have their current values.

    Args:
        function: A sync or `async def` function. The wrapped function may be called any number of
            times, even concurrently.

    Cancellation: see the wrapped function. The current run neither cancels that function nor waits
    for it.

    Example:
        ```python
        executor.submit(in_current_run(work), item)
        ```
    """
    context = copy_context()
    if inspect.iscoroutinefunction(callable_target(function)):
        return cast(Callable[P, T], _async_in(context, cast("Callable[P, Awaitable[T]]", function)))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # A context can only be entered once at a time.
        return context.copy().run(call_unprotected, function, *args, **kwargs)

    return call


def _async_in(context: Context, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # A task keeps its own context, so the values are set in that context for the duration of
        # the call.
        changed = [(variable, variable.set(value)) for variable, value in context.items()]
        try:
            return await await_unprotected(function, *args, **kwargs)
        finally:
            for variable, token in reversed(changed):
                variable.reset(token)

    return call
