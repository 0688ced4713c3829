"""Calls of user code that may belong to another event loop.

Handlers of tools, hooks, permission callbacks and subscribers run in the runtime's trio thread,
unless another event loop started the run. In that case, the context of the run holds a `UserLoop`,
which calls the user's code where it belongs. Code of this package always runs in the trio thread.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar, TypeVarTuple, cast

import trio

from agent_actors.kernel.interrupts import await_unprotected
from agent_actors.schema.type_hints import callable_target

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

_PACKAGE: Final = "agent_actors"


class UserLoop(Protocol):
    """An event loop outside trio in which the `async def` functions of a user run."""

    async def call(self, function: Callable[..., object], /, *args: object) -> object:
        """Call an `async def` function in the loop, or a sync function in a worker thread.

        Args:
            function: The user's function. If a sync function returns an awaitable, the loop awaits
                it.
            args: The arguments. Objects of this package that only work in the trio thread are
                replaced by objects that work in the loop.

        Cancellation: cancels the function and waits until it has ended.
        """
        ...


class Caller(Protocol):
    """A task that uses an object which belongs to one task at a time; compared with `==`."""

    @property
    def name(self) -> str:
        """The name of the task, for error messages."""
        ...


# The loop for the user's functions in the current context; None: trio.
user_loop: Final[ContextVar[UserLoop | None]] = ContextVar("agent_actors_user_loop", default=None)
# The task of another event loop for which the current trio task works; None: the trio task itself.
outside_caller: Final[ContextVar[Caller | None]] = ContextVar("agent_actors_caller", default=None)


def current_caller() -> Caller:
    """Return the task that the current code works for."""
    return outside_caller.get() or trio.lowlevel.current_task()


def find_user_loop(function: Callable[..., object]) -> UserLoop | None:
    """Return the loop to which a function belongs; None if it belongs to trio."""
    loop = user_loop.get()
    if loop is None:
        return None
    module = cast("str | None", getattr(callable_target(function), "__module__", None)) or ""
    return None if module.partition(".")[0] == _PACKAGE else loop


async def await_user_code(function: Callable[[*Ts], Awaitable[T]], /, *args: *Ts) -> T:
    """Call a user's async function in the loop to which it belongs, and await the result.

    In the trio thread, Ctrl-C can interrupt the function at any point.

    Cancellation: see the called function.
    """
    loop = find_user_loop(function)
    if loop is None:
        return await await_unprotected(function, *args)
    return cast(T, await loop.call(function, *args))
