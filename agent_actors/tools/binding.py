"""Passes a call's arguments to a handler, as one dict or by name in the annotated types."""

import inspect
import types
from collections.abc import Callable
from typing import Protocol, TypeAlias, Union, get_args, get_origin

import attrs

from agent_actors.codec.hints import resolved_hints
from agent_actors.domain.json import JsonObject
from agent_actors.errors import ConfigError, SchemaError
from agent_actors.schema.convert import structure_arguments
from agent_actors.schema.type_hints import Parameter, callable_target
from agent_actors.tools.context import ToolContext

Handler: TypeAlias = Callable[..., object]


class Binding(Protocol):
    """Calls a handler with the arguments of a tool call."""

    @property
    def takes_context(self) -> bool:
        """True if the handler takes a `ToolContext`."""
        ...

    @property
    def deps_type(self) -> type | None:
        """The class of the dependencies that the handler needs; None if it names none."""
        ...

    @property
    def checked_schema(self) -> JsonObject | None:
        """The schema for validation before the call; None if it is the one that the model gets."""
        ...

    def call(self, handler: Handler, arguments: JsonObject, context: ToolContext) -> object:
        """Call the handler and return its value, which is an awaitable for an async handler.

        Raises:
            ToolArgumentsError: An argument does not match the parameter's type.
        """
        ...


@attrs.frozen
class OneDict:
    """A binding for handlers that take one dict, optionally followed by the context."""

    takes_context: bool
    deps_type: type | None = None
    checked_schema: JsonObject | None = None

    @classmethod
    def of(cls, handler: Handler, *, tool: str) -> "OneDict":
        """Return a binding for a handler, based on the handler's signature.

        Raises:
            ConfigError: The handler accepts neither one dict nor a dict and a context.
        """
        try:
            signature = inspect.signature(handler)
        except (TypeError, ValueError):
            return cls(takes_context=False)  # some builtins have no signature
        for takes_context in (False, True):
            if _takes(signature, 1 + takes_context):
                second = _second_hint(handler, signature)
                wants = takes_context or is_context_hint(second)
                return cls(wants, deps_of_context(second) if wants else None)
        raise ConfigError(
            f"tool {tool!r}: the handler must take one dict of arguments, and optionally a "
            f"ToolContext after it; its signature is {signature}"
        )

    def call(self, handler: Handler, arguments: JsonObject, context: ToolContext) -> object:
        """Call the handler with the dict, and with the context if it takes one."""
        return handler(arguments, context) if self.takes_context else handler(arguments)


@attrs.frozen
class ByName:
    """A binding for handlers that take arguments by name, converted to the annotated types.

    Attributes:
        tool: The tool's name, for error messages.
        parameters: The parameters that receive arguments.
        context_parameter: Name of the parameter that receives the context; None if there is none.
        deps_type: The class of the dependencies in the hint of that parameter; None if there is
            none.
        checked_schema: The schema for validation before the call, without the types of pydantic,
            which validates their values during the call. None if there are no such types.
    """

    tool: str
    parameters: tuple[Parameter, ...]
    context_parameter: str | None
    deps_type: type | None = None
    checked_schema: JsonObject | None = attrs.field(default=None, repr=False)

    @property
    def takes_context(self) -> bool:
        """True if a parameter is annotated with `ToolContext`."""
        return self.context_parameter is not None

    def call(self, handler: Handler, arguments: JsonObject, context: ToolContext) -> object:
        """Call the handler with converted arguments, and with the context if it takes one."""
        named = structure_arguments(self.parameters, arguments, tool=self.tool)
        if self.context_parameter is not None:
            named[self.context_parameter] = context
        return handler(**named)


def is_context_hint(hint: object) -> bool:
    """Return whether the hint is `ToolContext`, with or without dependencies, or a union of it."""
    return bool(_contexts_in(hint))


def deps_of_context(hint: object) -> type | None:
    """Return the class of the dependencies in `ToolContext[Database]`.

    Returns:
        The class; None if the hint names none, or if a value cannot be checked against it.
    """
    for context in _contexts_in(hint):
        for argument in get_args(context):
            deps: object = get_origin(argument) or argument
            # `typing.Any` is a class since Python 3.11, but no value is an instance of it.
            if not isinstance(deps, type) or deps is object or deps.__module__ == "typing":
                continue
            is_protocol = getattr(deps, "_is_protocol", False)
            if not is_protocol or getattr(deps, "_is_runtime_protocol", False):
                return deps
    return None


def _contexts_in(hint: object) -> list[object]:
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [member for member in members if (get_origin(member) or member) is ToolContext]


def runs_async(handler: Handler, *, tool: str) -> bool:
    """Return whether calling the handler returns a coroutine.

    Raises:
        ConfigError: The handler is not callable, or is a generator, which has no single result.
    """
    if not callable(handler):
        raise ConfigError(f"tool {tool!r}: the handler must be callable; got {handler!r:.80}")
    target = callable_target(handler)
    if inspect.isasyncgenfunction(target) or inspect.isgeneratorfunction(target):
        raise ConfigError(
            f"tool {tool!r}: the handler is a generator, but a call has one result; return it, "
            "and report progress with ToolContext.report"
        )
    return inspect.iscoroutinefunction(target)


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*(None,) * count)
    except TypeError:
        return False
    return True


def _second_hint(handler: Handler, signature: inspect.Signature) -> object:
    """Return the type hint of the second parameter; None if there is none."""
    if not _takes(signature, 2):
        return None
    second = [*signature.parameters][1:2]
    try:
        hints = resolved_hints(callable_target(handler))
    except SchemaError:
        return None  # not an error, because the dict form needs no hints
    return hints.get(second[0]) if second else None
