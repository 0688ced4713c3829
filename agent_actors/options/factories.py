"""Factories: functions that return the option `model` or `provider` when a run needs it."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

from agent_actors.domain.run import RunInfo

ModelFactory: TypeAlias = (
    Callable[[], "str | Awaitable[str]"] | Callable[[RunInfo], "str | Awaitable[str]"]
)
"""Returns the name of a model."""


class DeferredModel(str):
    """The place of a model's name that a factory returns later.

    Attributes:
        factory: The factory.
    """

    __slots__ = ("factory",)

    factory: ModelFactory

    def __new__(cls, factory: ModelFactory) -> Self:
        """Return the place of the name."""
        made = super().__new__(cls, "<chosen by a factory>")
        made.factory = factory
        return made


def as_model(value: "str | ModelFactory") -> str:
    """Return the name of a model, or the place of a name that a factory returns later."""
    return DeferredModel(value) if callable(value) else value


def is_provider_factory(provider: object) -> bool:
    """Return whether a provider is a function that returns the provider."""
    if not callable(provider) or inspect.isclass(provider):
        return False
    return not hasattr(provider, "stream") and not hasattr(provider, "complete")
