"""The parameters of functions and the fields of classes, with resolved type hints.

Classes are attrs classes, dataclasses and TypedDicts. A tool's schema and the conversion of its
arguments both use this module, so that they agree on the parameters.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import (
    Any,
    Final,
    NewType,
    NotRequired,
    Required,
    cast,
    get_args,
    get_origin,
    is_typeddict,
)

import attrs

from agent_actors.codec.hints import resolved_hints
from agent_actors.errors import SchemaError
from agent_actors.schema.docstrings import Docstring, parse_docstring

REQUIRED: Final = inspect.Parameter.empty

# The default of an optional field that has no default value to show, such as a field with a factory
# or a key of a TypedDict.
_UNTOLD: Final = object()

# Type checkers treat `attrs.Factory` as a function.
_FACTORY: Final = type(cast(object, attrs.Factory(list[object])))


@attrs.frozen
class Parameter:
    """A parameter of a function, or a field of a class, that receives a JSON value.

    Attributes:
        name: The name, the same in JSON and in Python.
        hint: The type, resolved.
        default: The default value; `REQUIRED` if there is none.
        description: The description from the docstring; empty if there is none.
    """

    name: str
    hint: Any
    default: object = REQUIRED
    description: str = ""

    @property
    def required(self) -> bool:
        """True if there is no default."""
        return self.default is REQUIRED


def parameters_of(function: Callable[..., object]) -> tuple[Parameter, ...]:
    """Return the parameters of a function, a method, a partial or a callable object.

    Raises:
        SchemaError: A parameter has no hint, is positional-only or variadic, or a name in a hint
            does not exist at run time.
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
    """Return the function behind a method, a partial or a callable object."""
    while isinstance(function, functools.partial):
        function = cast(Callable[..., object], function.func)
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _hint(name: str, hints: Mapping[str, Any], parameter: inspect.Parameter) -> Any:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise SchemaError(
            f"parameter {parameter}: a schema cannot describe *args or **kwargs; "
            "name each parameter"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise SchemaError(
            f"parameter {name!r} is positional-only, but arguments are passed by name"
        )
    if name not in hints:
        hint = "; decorate the bound method instead" if name in ("self", "cls") else ""
        raise SchemaError(f"parameter {name!r} has no type hint{hint}")
    return hints[name]


def type_name(hint: Any) -> str:
    """Return a hint as text, for error messages."""
    if hint is None or hint is type(None):
        return "None"
    if isinstance(hint, type) and not get_args(hint):
        return hint.__qualname__
    return str(hint).replace("typing.", "")


def unwrapped(hint: Any) -> Any:
    """Return the type behind a `NewType`, a `type` alias, `Required` or `NotRequired`."""
    while True:
        if isinstance(hint, NewType):
            hint = hint.__supertype__
        elif get_origin(hint) in (Required, NotRequired):
            hint = get_args(hint)[0]
        elif type(hint).__name__ == "TypeAliasType":  # Python 3.12
            hint = hint.__value__
        else:
            return hint


def class_fields(cls: Any) -> tuple[Parameter, ...] | None:
    """Return the constructor's fields with their JSON names; None if the class is not supported.

    Raises:
        SchemaError: A name in a hint does not exist at run time.
    """
    if attrs.has(cls):
        return _attrs_fields(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass_fields(cls)
    return _typeddict_fields(cls) if is_typeddict(cls) else None


def class_docstring(cls: type) -> Docstring:
    """Return the class's own docstring, ignoring the signature that dataclasses generate."""
    text = vars(cls).get("__doc__")
    # From Python 3.15 on, the generated docstring is an object that creates the signature when it
    # is read.
    written = not isinstance(text, str) or text.startswith(f"{cls.__name__}(")
    return parse_docstring(None if written else text)


def _attrs_fields(cls: type) -> tuple[Parameter, ...]:
    fields = [field for field in attrs.fields(cls) if field.init]
    names = {field.name: field.alias or field.name for field in fields}
    return _parameters(cls, names, {f.name: _attrs_default(f.default) for f in fields})


def _attrs_default(default: object) -> object:
    if default is attrs.NOTHING:
        return REQUIRED
    return _UNTOLD if isinstance(default, _FACTORY) else default


def _dataclass_fields(cls: Any) -> tuple[Parameter, ...]:
    fields = [field for field in dataclasses.fields(cls) if field.init]
    return _parameters(
        cls, {f.name: f.name for f in fields}, {f.name: _dataclass_default(f) for f in fields}
    )


def _dataclass_default(field: "dataclasses.Field[object]") -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    return REQUIRED if field.default_factory is dataclasses.MISSING else _UNTOLD


def _typeddict_fields(cls: Any) -> tuple[Parameter, ...]:
    hints = resolved_hints(cls)
    defaults = {
        name: REQUIRED if _key_required(cls, name, hint) else _UNTOLD
        for name, hint in hints.items()
    }
    return _parameters(cls, {name: name for name in hints}, defaults)


def _key_required(cls: Any, name: str, hint: Any) -> bool:
    """Return whether a key is required. `__required_keys__` misses `Required` in a string hint."""
    if get_origin(hint) in (Required, NotRequired):
        return get_origin(hint) is Required
    return name in cls.__required_keys__


def _parameters(
    cls: type, names: Mapping[str, str], defaults: Mapping[str, object]
) -> tuple[Parameter, ...]:
    hints = resolved_hints(cls)
    described = class_docstring(cls).parameters
    return tuple(
        Parameter(names[name], hints[name], default, described.get(name, ""))
        for name, default in defaults.items()
    )
