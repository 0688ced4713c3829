"""Structural types for tools: any object with the right interface is accepted as a tool."""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias, TypedDict, cast, runtime_checkable

from agent_actors.domain.json import JsonValue
from agent_actors.errors import ConfigError
from agent_actors.tools.tool import Tool


@runtime_checkable
class ToolProtocol(Protocol):
    """The interface of a tool: name, description, schema and a method that runs it.

    An object with `parameters` instead of `input_schema` (`ParametersTool`) is accepted too, and so
    is an `execute` that is sync or takes a `ToolContext` as its second argument. The attributes
    `read_only`, `destructive`, `idempotent` and `open_world` are used if they exist.
    """

    @property
    def name(self) -> str:
        """The name: up to 64 letters, digits, `_` and `-`."""
        ...

    @property
    def description(self) -> str:
        """The purpose of the tool and when to use it, for the model."""
        ...

    @property
    def input_schema(self) -> Mapping[str, JsonValue] | None:
        """The JSON Schema of the arguments. If None, any object is accepted without validation."""
        ...

    async def execute(self, arguments: dict[str, JsonValue], /) -> object:
        """Run the tool; return its result, in any form that a handler may return."""
        ...


@runtime_checkable
class ParametersTool(Protocol):
    """A `ToolProtocol` that names its schema `parameters`."""

    @property
    def name(self) -> str:
        """The name: up to 64 letters, digits, `_` and `-`."""
        ...

    @property
    def description(self) -> str:
        """The purpose of the tool and when to use it, for the model."""
        ...

    @property
    def parameters(self) -> Mapping[str, JsonValue] | None:
        """The JSON Schema of the arguments. If None, any object is accepted without validation."""
        ...

    async def execute(self, arguments: dict[str, JsonValue], /) -> object:
        """Run the tool; return its result, in any form that a handler may return."""
        ...


AnyTool: TypeAlias = Tool | ToolProtocol | ParametersTool


class _Traits(TypedDict, total=False):
    """Optional properties of a tool. `Tool` validates their types and their combination."""

    read_only: bool
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None


def as_tool(obj: object) -> Tool:
    """Return the object as a `Tool`: itself, or a `Tool` that calls its `execute`.

    Raises:
        ConfigError: The object does not have the interface of a tool, or is an invalid tool.
    """
    if isinstance(obj, Tool):
        return obj
    if isinstance(obj, ToolProtocol):
        return Tool(obj.name, obj.description, obj.input_schema, obj.execute, **_traits(obj))
    if isinstance(obj, ParametersTool):
        return Tool(obj.name, obj.description, obj.parameters, obj.execute, **_traits(obj))
    hint = "; decorate the function with @tool" if callable(obj) else ""
    raise ConfigError(
        f"{obj!r:.80} is not a tool: expected name, description, input_schema (or parameters) and "
        f"execute{hint}"
    )


def _traits(obj: object) -> _Traits:
    traits = {name: getattr(obj, name) for name in _Traits.__annotations__ if hasattr(obj, name)}
    return cast(_Traits, traits)


def check_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """Convert all tools to `Tool`s, in order.

    Raises:
        ConfigError: An item is not a tool, or two tools have the same name.
    """
    checked: dict[str, Tool] = {}
    for item in tools:
        adapted = as_tool(item)
        if adapted.name in checked:
            raise ConfigError(f"two tools are named {adapted.name!r}; each needs a unique name")
        checked[adapted.name] = adapted
    return tuple(checked.values())
