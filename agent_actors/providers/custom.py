"""Adapt a caller's own model to the `ModelProvider` protocol.

The caller's object needs only one method. The adapter derives the missing methods from the existing
ones. An object that is already a `ModelProvider` is returned unchanged.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import cast

from agent_actors.abc import ModelProvider, ModelSink
from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from agent_actors.domain.model import (
    FinishDelta,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ProgressDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.errors import ConfigError, ProviderProtocolError
from agent_actors.protocol.response.assembler import Assembler
from agent_actors.providers.response_sink import DroppingSink

_EXPECTED = (
    "expected an object with `async def complete(self, request)` that returns a ModelCompleted or "
    "a str, or with `async def stream(self, request, sink)` that returns a ModelCompleted, or with "
    "an async generator `stream(self, request)` that yields deltas (TextDelta, ThinkingDelta, "
    "ToolCallDelta, UsageDelta, FinishDelta, ProgressDelta)"
)
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta, UsageDelta, FinishDelta, ProgressDelta)


def adapt_provider(provider: object) -> ModelProvider:
    """Return the object as a `ModelProvider`.

    Args:
        provider: A `ModelProvider`, or an object with at least one of these methods:
            a coroutine `complete(request)`, whose response is shown all at once;
            a coroutine `stream(request, sink)`, which feeds the sink and returns `ModelCompleted`;
            or an async generator `stream(request)`, which yields deltas.
            `name` and `aclose` are optional.

    Raises:
        ConfigError: The object has none of these forms.
    """
    if inspect.isclass(provider):
        raise ConfigError(f"the provider is the class {provider.__name__}; pass an instance of it")
    stream, complete = _method(provider, "stream"), _method(provider, "complete")
    if stream is None and complete is None:
        raise ConfigError(f"{type(provider).__name__} cannot be a provider; {_EXPECTED}")
    yields = stream is not None and _takes_no_sink(stream)
    if yields and inspect.iscoroutinefunction(stream):
        raise ConfigError(f"{type(provider).__name__}.stream does not accept a sink; {_EXPECTED}")
    if isinstance(provider, ModelProvider) and not yields:
        return provider
    return _Adapted(provider, stream, complete, yields=yields)


class _Adapted:
    """A provider based on an object that has only some of the methods."""

    def __init__(
        self,
        provider: object,
        stream: Callable[..., object] | None,
        complete: Callable[..., object] | None,
        *,
        yields: bool,
    ) -> None:
        self._provider = provider
        self._stream = stream
        self._complete = complete
        self._yields = yields

    @property
    def name(self) -> str:
        """The name of the object, or the name of its class if it has none."""
        name = getattr(self._provider, "name", None)
        return name if isinstance(name, str) and name else type(self._provider).__name__

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        """Send a request, feed deltas to `sink`, and return the complete response."""
        if self._stream is None:
            answer = await self.complete(request)
            await _room(sink)
            shown = _as_deltas(answer)
            if shown:
                sink.feed(shown)
            return answer
        if self._yields:
            return await self._collect(self._stream(request), request, sink)
        return self._finished(await self._awaited(self._stream(request, sink), "stream"), "stream")

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Send a request and return the complete response."""
        if self._complete is None:
            return await self.stream(request, DroppingSink())
        answer = await self._awaited(self._complete(request), "complete")
        if isinstance(answer, str):
            return _said(answer, request)
        return self._finished(answer, "complete")

    async def aclose(self) -> None:
        """Close the object if it has an `aclose` method."""
        aclose = _method(self._provider, "aclose")
        if aclose is not None:
            await self._awaited(aclose(), "aclose")

    async def _collect(
        self, pieces: object, request: ModelRequest, sink: ModelSink
    ) -> ModelCompleted:
        if not isinstance(pieces, AsyncGenerator):
            raise ConfigError(f"{self.name}: stream(request) returned {pieces!r}; {_EXPECTED}")
        assembler = Assembler.for_request(request)
        async with aclosing(cast("AsyncGenerator[object]", pieces)) as generator:
            async for piece in generator:
                if not isinstance(piece, _DELTAS):
                    raise ProviderProtocolError(
                        f"stream(request) yielded {piece!r}; expected a delta", endpoint=self.name
                    )
                await _show(assembler.feed(piece), sink)
        await _show(assembler.flush(), sink)
        assembler.feed(FinishDelta("stop"))
        return assembler.finish()

    def _finished(self, answer: object, method: str) -> ModelCompleted:
        if isinstance(answer, ModelCompleted):
            return answer
        raise ProviderProtocolError(
            f"{method}() returned {answer!r}; expected a ModelCompleted", endpoint=self.name
        )

    async def _awaited(self, result: object, method: str) -> object:
        if not inspect.isawaitable(result):
            raise ConfigError(
                f"{self.name}: {method}() is not a coroutine function; declare it `async def`"
            )
        return await cast("Awaitable[object]", result)


async def _room(sink: ModelSink) -> None:
    if sink.full:
        await sink.wait_room()


async def _show(deltas: Sequence[ModelDelta], sink: ModelSink) -> None:
    if deltas:
        await _room(sink)
        sink.feed(deltas)


def _method(provider: object, name: str) -> Callable[..., object] | None:
    method = getattr(provider, name, None)
    return method if callable(method) else None


def _takes_no_sink(stream: Callable[..., object]) -> bool:
    """Return whether this is a generator `stream(request)`, not `stream(request, sink)`."""
    if inspect.isasyncgenfunction(stream):
        return True
    try:
        inspect.signature(stream).bind(object(), object())
    except TypeError:
        return True
    except ValueError:  # it has no readable signature
        return False
    return False


def _said(text: str, request: ModelRequest) -> ModelCompleted:
    assembler = Assembler.for_request(request)
    for delta in (TextDelta(text), FinishDelta("stop")):
        assembler.feed(delta)
    return assembler.finish()


def _as_deltas(answer: ModelCompleted) -> list[ModelDelta]:
    deltas: list[ModelDelta] = []
    calls = 0
    for block in answer.blocks:
        if isinstance(block, TextBlock) and block.text:
            deltas.append(TextDelta(block.text))
        elif isinstance(block, ThinkingBlock) and block.thinking:
            deltas.append(ThinkingDelta(block.thinking, block.signature))
        elif isinstance(block, ToolUseBlock):
            deltas.append(ToolCallDelta(calls, block.id, block.name, block.arguments_text))
            calls += 1
    return deltas
