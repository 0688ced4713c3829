"""Resolves the type hints of functions and classes to types.

`JsonValue` resolves to `Any`, so that code that reads hints needs no case for it.
"""

import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from agent_actors.domain.json import JsonValue
from agent_actors.errors import SchemaError

# `JsonValue` with its recursive references resolved to `Any`, one level deep.
_JSON_UNION: Final = Union[  # noqa: UP007 - compared with a union that `typing` makes
    None, bool, int, float, str, list[Any], tuple[Any, ...], dict[str, Any]
]


def resolved_hints(owner: Callable[..., object] | type) -> dict[str, Any]:
    """Return the hints of a function or class as types, with `Annotated` and similar wrappers.

    Raises:
        SchemaError: A name in a hint does not exist at run time, or a hint is not a type.
    """
    module = sys.modules.get(getattr(owner, "__module__", ""))
    known = getattr(owner, "__globals__", vars(module) if module else {})
    local = {"JsonValue": Any} if known.get("JsonValue", JsonValue) is JsonValue else None
    try:
        hints = get_type_hints(owner, localns=local, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"a type hint of {getattr(owner, '__qualname__', owner)!s} names {error.name!r}, which "
            "does not exist at run time; import it outside of TYPE_CHECKING and define it "
            "outside of functions"
        ) from None
    except (TypeError, SyntaxError, AttributeError) as error:
        raise SchemaError(
            f"a type hint of {getattr(owner, '__qualname__', owner)!s} is not a type: {error}"
        ) from None
    return {name: _simplified(hint) for name, hint in hints.items()}


def _simplified(hint: Any) -> Any:
    """Return the hint with `JsonValue`, and every union that contains `Any`, replaced by `Any`."""
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
        return Any if Any in simple or object in simple else Union[simple]  # noqa: UP007 - built at run time
    return hint.copy_with(simple) if hasattr(hint, "copy_with") else origin[simple]


def is_union(hint: Any) -> bool:
    """Return whether the hint is a `Union`, an `Optional` or `X | Y`."""
    return get_origin(hint) in (Union, types.UnionType)
