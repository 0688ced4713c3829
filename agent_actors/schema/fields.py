"""The fields of classes that JSON objects can fill: attrs classes, dataclasses, TypedDicts."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NotRequired, Required, cast, get_origin, is_typeddict

import attrs

from agent_actors.schema.docstrings import Docstring, parse_docstring
from agent_actors.schema.type_hints import REQUIRED, Parameter, resolved_hints

# The default of a field that may be absent but has no value to tell of: a factory's, a TypedDict's.
_UNTOLD: Final = object()

# For type checkers `attrs.Factory` is a function.
_FACTORY: Final = type(cast(object, attrs.Factory(list[object])))


def class_fields(cls: Any) -> tuple[Parameter, ...] | None:
    """The fields that the constructor takes, as JSON names them; None for any other class.

    Raises:
        SchemaError: A name in a hint is not there when the program runs.
    """
    if attrs.has(cls):
        return _attrs_fields(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass_fields(cls)
    return _typeddict_fields(cls) if is_typeddict(cls) else None


def class_docstring(cls: type) -> Docstring:
    """What the class's own docstring says; the signature that dataclasses write says nothing."""
    text = vars(cls).get("__doc__")
    # From Python 3.15 on the class holds an object that writes the signature when it is read.
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
    """`__required_keys__` alone would miss `Required[...]` that was written as a string."""
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
