"""Methods of objects that live in the trio thread, as methods for asyncio tasks."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, update_wrapper
from typing import Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from agent_actors.asyncio.bridge import Bridge

ObjectT = TypeVar("ObjectT")
P = ParamSpec("P")
T = TypeVar("T")


class TrioObject(Generic[ObjectT]):
    """An object in the trio thread, for asyncio tasks.

    Attributes:
        bridge: The bridge.
        trio_object: The object.
    """

    def __init__(self, bridge: Bridge, trio_object: ObjectT) -> None:
        self.bridge: Bridge = bridge
        self.trio_object: ObjectT = trio_object


_Method: TypeAlias = Callable[Concatenate[TrioObject[ObjectT], P], Coroutine[object, object, T]]


def crossing(
    method: Callable[Concatenate[ObjectT, P], Awaitable[T]],
) -> Callable[[Callable[..., object]], _Method[ObjectT, P, T]]:
    """Return a decorator that replaces a function by an async method of the trio object.

    The decorated function only provides the docstring.
    """

    def decorate(documented: Callable[..., object]) -> _Method[ObjectT, P, T]:
        async def call(self: TrioObject[ObjectT], /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self.bridge.call(partial(method, self.trio_object, *args, **kwargs))

        update_wrapper(call, documented)
        return call

    return decorate


def crossing_sync(
    method: Callable[Concatenate[ObjectT, P], T],
) -> Callable[[Callable[..., object]], _Method[ObjectT, P, T]]:
    """Return a decorator like that of `crossing`, for a sync method of the trio object."""

    def decorate(documented: Callable[..., object]) -> _Method[ObjectT, P, T]:
        async def call(self: TrioObject[ObjectT], /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self.bridge.call_sync(partial(method, self.trio_object, *args, **kwargs))

        update_wrapper(call, documented)
        return call

    return decorate
