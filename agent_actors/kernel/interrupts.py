"""Protection of the package's own code from `KeyboardInterrupt`.

Trio raises `KeyboardInterrupt` at any bytecode of a task, unless a frame of that task is protected.
An interrupt between two statements that belong together breaks an invariant. For example, a task
that has registered as a waiter but is not suspended yet would be rescheduled after it has ended.
The code of the stateful packages is therefore protected. Trio then delivers Ctrl-C to the main task
at its next checkpoint, where it unwinds like a cancellation. User code must stay interruptible,
since it may loop without a checkpoint, so it is called through `call_unprotected` and
`await_unprotected`.

Trio looks up whether a code object is protected when the signal arrives, so protection adds no cost
to function calls.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import Final, ParamSpec, TypeAlias, TypeVar, cast

import trio

P = ParamSpec("P")
T = TypeVar("T")

# Receives an exception that user code raised. If the exception contains an interrupt, the function
# takes over the interrupt and has the runtime closed. Returns the rest of the exception; None if
# nothing remains.
TakeInterrupt: TypeAlias = Callable[[BaseException], BaseException | None]

_PACKAGE: Final = "agent_actors"
# Packages that hold state between two checkpoints, or that wait. Pure code needs no protection of
# its own. `tools` and `hooks` are not included because they only pass calls on to user code.
PROTECTED: Final = frozenset(
    {"actors", "client", "kernel", "media", "providers", "runs", "runtime", "stores", "transport"}
)

# The size of each module when it was protected, since a module may not have been executed
# completely at that time.
_protected: Final[dict[str, int]] = {}


def protect_loaded_modules() -> None:
    """Protect every function in the stateful modules that have been loaded so far.

    The public names of the package and `Runtime` call this function. A public module that none of
    them loads calls it in its last line. Modules that are already protected completely are skipped.
    """
    for name, module in tuple(sys.modules.items()):
        package, _, inside = name.partition(".")
        if package != _PACKAGE or inside.partition(".")[0] not in PROTECTED:
            continue
        if _protected.get(name) != len(vars(module)):
            _protected[name] = len(vars(module))
            for code in codes_of(module):
                trio.lowlevel.enable_ki_protection(_Coded(code))


class _Coded:
    """Nested code in the form that trio accepts: an object with a `__code__` attribute."""

    def __init__(self, code: CodeType) -> None:
        self.__code__ = code


def codes_of(module: ModuleType) -> Iterator[CodeType]:
    """Yield the code of every function, method and closure that is defined in a module."""
    pending = list(vars(module).values())
    while pending:
        value = pending.pop()
        if isinstance(value, type):
            if value.__module__ == module.__name__:
                pending.extend(vars(value).values())
        elif isinstance(value, property):
            pending.extend((value.fget, value.fset, value.fdel))
        elif isinstance(value, staticmethod | classmethod):
            pending.append(cast("staticmethod[..., object]", value).__func__)
        elif callable(value):
            # `contextmanager` and `cache` wrap functions.
            function = unwrap(value) if hasattr(value, "__wrapped__") else value
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield from _with_nested(function.__code__)


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)


@trio.lowlevel.disable_ki_protection
def call_unprotected(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a user's function, which Ctrl-C can interrupt at any point."""
    return function(*args, **kwargs)


@trio.lowlevel.disable_ki_protection
async def await_unprotected(
    function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a user's async function and await the result; Ctrl-C can interrupt it at any point.

    Cancellation: see the called function.
    """
    return await function(*args, **kwargs)


def has_interrupt(error: BaseException) -> bool:
    """Return whether an error is a `KeyboardInterrupt`, or an exception group that contains one."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def without_interrupt(error: BaseException) -> BaseException | None:
    """Return an error without its interrupts; None if nothing remains."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split(KeyboardInterrupt)[1]
    return None if isinstance(error, KeyboardInterrupt) else error


def raise_interrupt(error: BaseException) -> BaseException | None:
    """Raise an error if it contains an interrupt; return any other error.

    This is the default `TakeInterrupt` function of an actor that does not belong to a runtime.
    """
    if has_interrupt(error):
        raise error
    return error


async def finish(step: Callable[[], Awaitable[object]]) -> None:
    """Await a step that the first Ctrl-C must not interrupt.

    Args:
        step: An async function that may be called again after it was interrupted.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. Raised when the step has ended, or immediately after
            a second Ctrl-C.

    Cancellation: see the step.
    """
    try:
        await step()
    except KeyboardInterrupt:
        await step()  # noqa: ASYNC120 - a cancellation takes precedence over the interrupt
        raise
