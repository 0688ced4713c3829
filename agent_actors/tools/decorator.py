"""The decorator `@tool`, which creates a tool from a function."""

import inspect
from collections.abc import Callable, Mapping
from typing import Final, TypedDict, Unpack, overload

from agent_actors.errors import ConfigError, SchemaError
from agent_actors.schema.docstrings import parse_docstring
from agent_actors.schema.generate import parameters_schema
from agent_actors.schema.type_hints import callable_target, parameters_of
from agent_actors.tools.binding import ByName, Handler, deps_of_context, is_context_hint
from agent_actors.tools.tool import Offered, OnCancel, PathsOf, Tool, Validator, check_name

# Means "not passed", as opposed to None, which means a tool without a schema.
_FROM_HINTS: Final[Mapping[str, object]] = {}


class ToolOptions(TypedDict, total=False):
    """The options that every form of `@tool` accepts; see `Tool`."""

    timeout: float | None
    exclusive: bool
    max_concurrency: int | None
    on_cancel: OnCancel
    validator: Validator | None
    read_only: bool
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    paths: PathsOf | None
    offered: Offered | None


@overload
def tool(function: Handler, /) -> Tool: ...
@overload
def tool(
    name: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Handler], Tool]: ...
@overload
def tool(
    name: str,
    description: str,
    input_schema: Mapping[str, object] | None,
    **options: Unpack[ToolOptions],
) -> Callable[[Handler], Tool]: ...
def tool(
    name: Handler | str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, object] | None = _FROM_HINTS,
    **options: Unpack[ToolOptions],
) -> Tool | Callable[[Handler], Tool]:
    """Create a `Tool` from a function with type hints, or from a function and a schema.

    Typed form, `@tool` or `@tool(timeout=5)`: the tool's name, description and schema are taken
    from the function's name, docstring and hints. The arguments are passed by name in their
    annotated types. A parameter annotated with `ToolContext` receives the context and is not part
    of the schema. Calls with unknown arguments are rejected.

    Dict form, `@tool("name", "description", {...})`: the handler takes one dict and, optionally,
    the `ToolContext` as the second argument. The schema is a JSON Schema of an object, or the short
    form: `{"city": str, "units": {"type": "string", "default": "c"}, "n": {"type": int, "required":
    False}}`. A default only tells the model what an absent value means; it is not added to the
    dict, which contains the arguments as received.

    Args:
        name: The tool's name; by default, the function's name.
        description: Description for the model; by default, the docstring without its sections.
        input_schema: The schema for the dict form. If None, any object is accepted without
            validation.
        **options: `timeout`, `exclusive`, `max_concurrency`, `on_cancel`, `validator`, `read_only`,
        `destructive`, `idempotent`, `open_world`, `paths`, `offered`; see `Tool`.

    Raises:
        ConfigError: The tool is invalid. The message names the tool and the problem.
    """
    if name is not None and not isinstance(name, str):
        return _typed(name, None, None, {})
    explicit_name = name

    def decorate(function: Handler) -> Tool:
        if input_schema is _FROM_HINTS:
            return _typed(function, explicit_name, description, options)
        return Tool(
            _name(function, explicit_name),
            _described(function, description),
            input_schema,
            function,
            **options,
        )

    return decorate


def _typed(
    function: Handler, name: str | None, description: str | None, options: ToolOptions
) -> Tool:
    if isinstance(function, type) or not callable(function):
        raise ConfigError(f"@tool needs a function; got {function!r:.80}")
    name = _name(function, name)
    check_name(name)
    try:
        parameters = parameters_of(function)
        contexts = [item for item in parameters if is_context_hint(item.hint)]
        taken = tuple(item for item in parameters if item not in contexts)
        schema = parameters_schema(taken)
        checked = parameters_schema(taken, validates_pydantic=False)
    except SchemaError as error:
        raise SchemaError(f"tool {name!r}: {error}") from None
    if len(contexts) > 1:
        raise ConfigError(
            f"tool {name!r}: expected at most one ToolContext parameter; got "
            f"{', '.join(item.name for item in contexts)}"
        )
    context = contexts[0] if contexts else None
    binding = ByName(
        name,
        taken,
        None if context is None else context.name,
        None if context is None else deps_of_context(context.hint),
        None if checked == schema else checked,
    )
    return Tool(
        name, _described(function, description), schema, function, binding=binding, **options
    )


def _name(function: Handler, name: str | None) -> str:
    if name is not None:
        return name
    own = getattr(function, "__name__", None)
    if own is None:
        raise ConfigError(f"{function!r:.80} has no name; use @tool(name=...)")
    return str(own)


def _described(function: Handler, description: str | None) -> str:
    if description is not None:
        return description
    return parse_docstring(inspect.getdoc(callable_target(function))).description
