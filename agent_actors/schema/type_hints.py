"""Type hints, resolved: those of a function's parameters, and of a class's fields.

The schema of a tool and the structuring of its arguments both start here, so that they cannot
disagree on what a parameter is. `JsonValue` is read as "any JSON".
"""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs

from agent_actors.domain.json import JsonValue
from agent_actors.errors import SchemaError
from agent_actors.schema.docstrings import parse_docstring

# What JsonValue comes to when the name within it means "any": the members, one level deep.
_JSON_UNION: Final = Union[  # noqa: UP007 - compared with what typing itself makes of it
    None, bool, int, float, str, list[Any], tuple[Any, ...], dict[str, Any]
]

REQUIRED: Final = inspect.Parameter.empty


@attrs.frozen
class Parameter:
    """A parameter of a function, or a field of a class, that JSON is to fill.

    Attributes:
        name: Its name, in JSON as in Python.
        hint: Its type, resolved.
        default: Its default; `REQUIRED` if there is none.
        description: What a docstring says of it; empty if nothing.
    """

    name: str
    hint: Any
    default: object = REQUIRED
    description: str = ""

    @property
    def required(self) -> bool:
        """True if it has no default."""
        return self.default is REQUIRED


def parameters_of(function: Callable[..., object]) -> tuple[Parameter, ...]:
    """The parameters of a function, a method, a partial or an object that is called.

    Raises:
        SchemaError: A parameter has no hint, cannot be given by name, or takes any number of
            values; or a hint names what is not there.
    """
    target = callable_target(function)
    bound = function.keywords if isinstance(function, functools.partial) else {}
    hints = resolved_hints(target)
    described = parse_docstring(inspect.getdoc(target)).parameters
    return tuple(
        Parameter(name, _hint(name, hints, parameter), parameter.default, described.get(name, ""))
        for name, parameter in inspect.signature(cast(Any, function)).parameters.items()
        if name not in bound
    )


def callable_target(function: Callable[..., object]) -> Callable[..., object]:
    """The function that is behind a method, a partial or an object that is called."""
    while isinstance(function, functools.partial):
        function = cast(Callable[..., object], function.func)
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _hint(name: str, hints: Mapping[str, Any], parameter: inspect.Parameter) -> Any:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise SchemaError(
            f"parameter {parameter}: any number of values has no place in a schema; "
            "name each parameter"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise SchemaError(f"parameter {name!r} is positional-only, and arguments come by name")
    if name not in hints:
        hint = "; decorate the bound method instead" if name in ("self", "cls") else ""
        raise SchemaError(f"parameter {name!r} has no type hint{hint}")
    return hints[name]


def resolved_hints(owner: Callable[..., object] | type) -> dict[str, Any]:
    """The hints of a function or class as types, `Annotated` and the like kept.

    Raises:
        SchemaError: A name in a hint is not there when the program runs.
    """
    module = sys.modules.get(getattr(owner, "__module__", ""))
    known = getattr(owner, "__globals__", vars(module) if module else {})
    local = {"JsonValue": Any} if known.get("JsonValue", JsonValue) is JsonValue else None
    try:
        hints = get_type_hints(owner, localns=local, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"a type hint of {getattr(owner, '__qualname__', owner)!s} names {error.name!r}, which "
            "is not there when the program runs; import it outside of TYPE_CHECKING and define it "
            "outside of functions"
        ) from None
    except (TypeError, SyntaxError, AttributeError) as error:
        raise SchemaError(
            f"a type hint of {getattr(owner, '__qualname__', owner)!s} is no type: {error}"
        ) from None
    return {name: _simplified(hint) for name, hint in hints.items()}


def _simplified(hint: Any) -> Any:
    """The hint with `JsonValue`, and every union that holds "any", as `Any`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint == _JSON_UNION:
        return Any
    if origin is None or origin is Literal:
        return hint
    if origin is Annotated:
        return Annotated[(_simplified(arguments[0]), *arguments[1:])]
    if not arguments or isinstance(arguments[0], list):
        return hint
    simple = tuple(_simplified(argument) for argument in arguments)
    if is_union(hint):
        return Any if Any in simple or object in simple else Union[simple]  # noqa: UP007 - built, not written
    return hint.copy_with(simple) if hasattr(hint, "copy_with") else origin[simple]


def is_union(hint: Any) -> bool:
    """True for `Union`, `Optional` and `X | Y`."""
    return get_origin(hint) in (Union, types.UnionType)


def type_name(hint: Any) -> str:
    """How a hint is written, for messages."""
    if hint is None or hint is type(None):
        return "None"
    if isinstance(hint, type) and not get_args(hint):
        return hint.__qualname__
    return str(hint).replace("typing.", "")


def unwrapped(hint: Any) -> Any:
    """What stands behind a `NewType`, a `type` alias, `Required` or `NotRequired`."""
    while True:
        if isinstance(hint, NewType):
            hint = hint.__supertype__
        elif get_origin(hint) in (Required, NotRequired):
            hint = get_args(hint)[0]
        elif type(hint).__name__ == "TypeAliasType":  # Python 3.12
            hint = hint.__value__
        else:
            return hint
