"""Tools of other makes: any object of the right shape is one."""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias, TypedDict, cast, runtime_checkable

from agent_actors.domain.json import JsonValue
from agent_actors.errors import ConfigError
from agent_actors.tools.tool import Tool


@runtime_checkable
class ToolProtocol(Protocol):
    """The shape of a tool: what it is called, what it takes, and how it is run.

    An object that says `parameters` instead of `input_schema` (`ParametersTool`) will do as well,
    and so will an `execute` that is sync or takes a `ToolContext` second. `read_only`,
    `destructive`, `idempotent` and `open_world` are taken over where it has them.
    """

    @property
    def name(self) -> str:
        """Letters, digits, `_` and `-`; 64 at most."""
        ...

    @property
    def description(self) -> str:
        """What it does and when to use it, for the model."""
        ...

    @property
    def input_schema(self) -> Mapping[str, JsonValue] | None:
        """The JSON Schema of its arguments; None: any object is taken unchecked."""
        ...

    async def execute(self, arguments: dict[str, JsonValue], /) -> object:
        """Run it, and return what a handler may return."""
        ...


@runtime_checkable
class ParametersTool(Protocol):
    """A `ToolProtocol` that calls its schema `parameters`."""

    @property
    def name(self) -> str:
        """Letters, digits, `_` and `-`; 64 at most."""
        ...

    @property
    def description(self) -> str:
        """What it does and when to use it, for the model."""
        ...

    @property
    def parameters(self) -> Mapping[str, JsonValue] | None:
        """The JSON Schema of its arguments; None: any object is taken unchecked."""
        ...

    async def execute(self, arguments: dict[str, JsonValue], /) -> object:
        """Run it, and return what a handler may return."""
        ...


AnyTool: TypeAlias = Tool | ToolProtocol | ParametersTool


class _Traits(TypedDict, total=False):
    """What a tool says of itself; `Tool` checks that these are truths and fit together."""

    read_only: bool
    destructive: bool | None
    idempotent: bool | None
    open_world: bool


def as_tool(obj: object) -> Tool:
    """The object as a `Tool`: itself, or a `Tool` that calls its `execute`.

    Raises:
        ConfigError: It has not the shape of a tool, or something about it cannot work.
    """
    if isinstance(obj, Tool):
        return obj
    if isinstance(obj, ToolProtocol):
        return Tool(obj.name, obj.description, obj.input_schema, obj.execute, **_traits(obj))
    if isinstance(obj, ParametersTool):
        return Tool(obj.name, obj.description, obj.parameters, obj.execute, **_traits(obj))
    hint = "; decorate the function with @tool" if callable(obj) else ""
    raise ConfigError(
        f"{obj!r:.80} is no tool: expected name, description, input_schema (or parameters) and "
        f"execute{hint}"
    )


def _traits(obj: object) -> _Traits:
    said = {name: getattr(obj, name) for name in _Traits.__annotations__ if hasattr(obj, name)}
    return cast(_Traits, said)


def check_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """All of them as `Tool`s, in order.

    Raises:
        ConfigError: One is no tool, or two have the same name.
    """
    checked: dict[str, Tool] = {}
    for item in tools:
        adapted = as_tool(item)
        if adapted.name in checked:
            raise ConfigError(f"two tools are named {adapted.name!r}; each needs a name of its own")
        checked[adapted.name] = adapted
    return tuple(checked.values())
