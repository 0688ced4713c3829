"""The parameters of functions and the fields of classes, with resolved type hints.

Classes are attrs classes, dataclasses, TypedDicts and NamedTuples. A tool's schema and the
conversion of its arguments both use this module, so that they agree on the parameters.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    NotRequired,
    Required,
    cast,
    get_args,
    get_origin,
    is_typeddict,
)

import attrs

from agent_actors.codec.hints import is_union, resolved_hints
from agent_actors.errors import SchemaError
from agent_actors.schema.docstrings import Docstring, parse_docstring
from agent_actors.schema.pydantic_types import field_default

REQUIRED: Final = inspect.Parameter.empty

# The default of an optional field that has no default value to show, such as a field with a factory
# or a key of a TypedDict.
_UNKNOWN: Final = object()

# Type checkers treat `attrs.Factory` as a function.
_FACTORY: Final = type(cast(object, attrs.Factory(list[object])))


@attrs.frozen
class Parameter:
    """A parameter of a function, or a field of a class, that receives a JSON value.

    Attributes:
        name: The name in JSON.
        hint: The type, resolved.
        default: The default value; `REQUIRED` if there is none.
        description: The description from the docstring; empty if there is none.
        argument: The name in Python; empty if it is the name in JSON.
        factory: Returns the value of an absent argument; None if Python itself knows the default.
    """

    name: str
    hint: Any
    default: object = REQUIRED
    description: str = ""
    argument: str = ""
    factory: Callable[[], object] | None = attrs.field(default=None, eq=False, repr=False)

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
        _parameter(name, _hint(name, hints, parameter), parameter.default, described.get(name, ""))
        for name, parameter in inspect.signature(cast(Any, function)).parameters.items()
        if name not in bound
    )


def _parameter(name: str, hint: Any, default: object, description: str) -> Parameter:
    field = field_default(hint, default)
    if field is None:
        return Parameter(name, hint, default, description)
    shown = _UNKNOWN if field.factory is not None and field.default is None else field.default
    alias = field.alias or name
    return Parameter(alias, field.hint, shown, description, name, field.factory)


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
        return hint.__name__
    arguments, origin = get_args(hint), get_origin(hint)
    if origin is Annotated:
        return type_name(arguments[0])
    if is_union(hint):
        return " | ".join(map(type_name, arguments))
    if origin is Literal or not arguments or isinstance(arguments[0], list):
        return str(hint).replace("typing.", "")
    inside = ("..." if item is Ellipsis else type_name(item) for item in arguments)
    return f"{type_name(origin)}[{', '.join(inside)}]"


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
    if is_namedtuple(cls):
        return _namedtuple_fields(cls)
    return _typeddict_fields(cls) if is_typeddict(cls) else None


def is_namedtuple(hint: Any) -> bool:
    """Return whether the hint is a class that `NamedTuple` or `namedtuple` made."""
    if not (isinstance(hint, type) and issubclass(hint, tuple)):
        return False
    return hasattr(cast(object, hint), "_fields")


def class_docstring(cls: type) -> Docstring:
    """Return the class's own docstring, ignoring the signature that dataclasses generate."""
    text = vars(cls).get("__doc__")
    # From Python 3.15 on, the generated docstring is an object that creates the signature when it
    # is read.
    generated = not isinstance(text, str) or text.startswith(f"{cls.__name__}(")
    return parse_docstring(None if generated else text)


def _attrs_fields(cls: type) -> tuple[Parameter, ...]:
    fields = [field for field in attrs.fields(cls) if field.init]
    names = {field.name: field.alias or field.name for field in fields}
    return _parameters(cls, names, {f.name: _attrs_default(f.default) for f in fields})


def _attrs_default(default: object) -> object:
    if default is attrs.NOTHING:
        return REQUIRED
    return _UNKNOWN if isinstance(default, _FACTORY) else default


def _dataclass_fields(cls: Any) -> tuple[Parameter, ...]:
    fields = [field for field in dataclasses.fields(cls) if field.init]
    return _parameters(
        cls, {f.name: f.name for f in fields}, {f.name: _dataclass_default(f) for f in fields}
    )


def _dataclass_default(field: "dataclasses.Field[object]") -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    return REQUIRED if field.default_factory is dataclasses.MISSING else _UNKNOWN


def _namedtuple_fields(cls: Any) -> tuple[Parameter, ...]:
    defaults = {name: cls._field_defaults.get(name, REQUIRED) for name in cls._fields}
    hints = resolved_hints(cls)
    untyped = [name for name in cls._fields if name not in hints]
    if untyped:
        raise SchemaError(
            f"field {untyped[0]!r} of {cls.__name__} has no type hint; define the class with "
            "typing.NamedTuple"
        )
    return _parameters(cls, {name: name for name in cls._fields}, defaults)


def _typeddict_fields(cls: Any) -> tuple[Parameter, ...]:
    hints = resolved_hints(cls)
    defaults = {
        name: REQUIRED if _key_required(cls, name, hint) else _UNKNOWN
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
