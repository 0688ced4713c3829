"""Calls the factories of the options `model` and `provider` when a run first needs them.

Each factory is called once per runtime, even if several runs need it at the same time. If it fails,
the run fails, and the next run calls it again.
"""

import inspect
from collections.abc import Callable
from typing import cast
from weakref import WeakKeyDictionary

import attrs
import trio

from agent_actors.domain.run import RunInfo
from agent_actors.errors import ConfigError
from agent_actors.kernel.interrupts import await_unprotected, call_unprotected
from agent_actors.options.agent_options import AgentOptions
from agent_actors.options.factories import DeferredModel, is_provider_factory


@attrs.define(eq=False)
class _Made:
    """The value of one factory."""

    lock: trio.Lock = attrs.field(factory=trio.Lock)
    value: object = None


class Factories:
    """The factories of one runtime, with the values that they have returned."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[object, _Made] = WeakKeyDictionary()
        # The runs of an agent share the completed options, as they share the agent's own.
        self._completed: WeakKeyDictionary[AgentOptions, AgentOptions] = WeakKeyDictionary()

    async def completed(self, options: AgentOptions, info: RunInfo) -> AgentOptions:
        """Return the options with the model and the provider that the factories return.

        Args:
            options: Options with at least one factory.
            info: The run that needs them.

        Raises:
            ConfigError: A factory failed, or returned a value that is not valid.

        Cancellation: safe; another run then calls the factory.
        """
        known = self._completed.get(options)
        if known is not None:
            return known
        model, provider = options.model, options.provider
        if isinstance(model, DeferredModel):
            name = await self._value("model", model.factory, info)
            if not isinstance(name, str) or not name.strip():
                raise ConfigError(
                    "the factory of `model` must return the name of a model; it returned "
                    f"{name!r:.80}"
                )
            model = name
        if is_provider_factory(provider):
            provider = await self._value("provider", provider, info)
            if provider is None or is_provider_factory(provider):
                raise ConfigError(
                    "the factory of `provider` must return the name of a profile, a profile or a "
                    f"provider object; it returned {provider!r:.80}"
                )
        made = attrs.evolve(options, model=model, provider=provider)
        return self._completed.setdefault(options, made)

    async def _value(self, field: str, factory: object, info: RunInfo) -> object:
        made = self._made.get(factory)
        if made is None:
            made = self._made[factory] = _Made()
        async with made.lock:
            if made.value is None:
                made.value = await _call(field, cast("Callable[..., object]", factory), info)
        return made.value


async def _call(field: str, factory: Callable[..., object], info: RunInfo) -> object:
    arguments = (info,) if _takes_info(factory) else ()
    try:
        value = call_unprotected(factory, *arguments)
        if inspect.isawaitable(value):
            waiting = value
            value = await await_unprotected(lambda: waiting)
    except Exception as error:
        raise ConfigError(
            f"the factory of `{field}` raised {type(error).__name__}: {error}"
        ) from error
    return value


def _takes_info(factory: Callable[..., object]) -> bool:
    try:
        return bool(inspect.signature(factory).parameters)
    except ValueError:  # a function without a signature, which is written in C
        return False
