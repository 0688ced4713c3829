"""Generates JSON Schema from the type hints of a function's parameters.

Only the hints in `SUPPORTED` are accepted; any other hint raises an error when the tool is created.
Objects, including the arguments, are closed (`additionalProperties: false`): if a model misspells
an optional parameter, it gets an error, and the value is not silently ignored. Schemas of classes
are inlined, because endpoints differ in how they treat `$ref`. Only classes that contain themselves
go into `$defs`.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    get_args,
    get_origin,
)

import attrs

from agent_actors.codec.hints import is_union
from agent_actors.codec.json_values import to_json
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import SchemaError
from agent_actors.schema.type_hints import (
    Parameter,
    class_docstring,
    class_fields,
    type_name,
    unwrapped,
)

SUPPORTED: Final = (
    "str, int, float, bool, None, list, dict with str keys, tuple, set, frozenset, Literal, Enum, "
    "Optional and unions, Annotated, TypedDict, dataclasses, attrs classes, Any, object"
)

_SIMPLE: Final[Mapping[Any, JsonObject]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
    Any: {},
    object: {},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
}


def parameters_schema(parameters: Iterable[Parameter]) -> JsonObject:
    """Return the schema of an object with values for these parameters.

    Raises:
        SchemaError: The hint of a parameter is not supported. The message names the parameter and
            the supported hints.
    """
    builder = _Builder()
    schema = builder.fields(parameters)
    return {**schema, "$defs": builder.definitions} if builder.definitions else schema


def hint_schema(hint: Any, *, name: str) -> JsonObject:
    """Return the schema for one hint; `name` is used in error messages.

    Raises:
        SchemaError: The hint is not supported.
    """
    builder = _Builder()
    schema = builder.schema(hint, name)
    return {**schema, "$defs": builder.definitions} if builder.definitions else schema


@attrs.define(eq=False)
class _Builder:
    """Builds a schema.

    Attributes:
        definitions: The schemas of classes that contain themselves, by name.
    """

    definitions: JsonObject = attrs.field(factory=dict[str, JsonValue], init=False)
    _open: list[type] = attrs.field(factory=list[type], init=False)
    _names: dict[type, str] = attrs.field(factory=dict[type, str], init=False)

    def fields(self, parameters: Iterable[Parameter], prefix: str = "") -> JsonObject:
        properties: JsonObject = {}
        required: list[JsonValue] = []
        for parameter in parameters:
            schema = self.schema(parameter.hint, prefix + parameter.name)
            if parameter.description and "description" not in schema:
                schema["description"] = parameter.description
            if parameter.required:
                required.append(parameter.name)
            else:
                schema.update(_default(parameter.default))
            properties[parameter.name] = schema
        closed: JsonObject = {"type": "object", "properties": properties}
        if required:
            closed["required"] = required
        closed["additionalProperties"] = False
        return closed

    def schema(self, hint: Any, where: str) -> JsonObject:
        hint = unwrapped(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(arguments, where)
        if is_union(hint):
            return {"anyOf": [self.schema(argument, where) for argument in arguments]}
        if origin is Literal:
            return _enumeration(arguments, where)
        if origin is not None:
            return self._container(hint, origin, arguments, where)
        if hint in _SIMPLE:
            return dict(_SIMPLE[hint])
        if not isinstance(hint, type):
            raise _unsupported(hint, where)
        if issubclass(hint, Enum):
            return _enumeration(hint, where)
        return self._class(hint, where)

    def _annotated(self, arguments: Sequence[Any], where: str) -> JsonObject:
        schema = self.schema(arguments[0], where)
        texts = [note for note in arguments[1:] if isinstance(note, str)]
        return {**schema, "description": texts[0]} if texts else schema

    def _container(
        self, hint: Any, origin: Any, arguments: Sequence[Any], where: str
    ) -> JsonObject:
        if origin in _SIMPLE and not arguments and hint != tuple[()]:
            return dict(_SIMPLE[origin])  # an unparametrized typing.List or similar type
        if origin is dict:
            if unwrapped(arguments[0]) is not str:
                raise SchemaError(
                    f"parameter {where!r}: the keys of a dict must be str; got {type_name(hint)}"
                )
            return {"type": "object", "additionalProperties": self.schema(arguments[1], where)}
        if origin in (list, set, frozenset):
            return {**_SIMPLE[origin], "items": self.schema(arguments[0], f"{where}[]")}
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.schema(arguments[0], f"{where}[]")}
        if origin is tuple:
            return self._fixed_tuple(arguments, where)
        raise _unsupported(hint, where)

    def _fixed_tuple(self, arguments: Sequence[Any], where: str) -> JsonObject:
        size = len(arguments)
        schema: JsonObject = {"type": "array", "minItems": size, "maxItems": size}
        if arguments:
            items: list[JsonValue] = [
                self.schema(item, f"{where}[{n}]") for n, item in enumerate(arguments)
            ]
            schema["prefixItems"] = items
        return schema

    def _class(self, cls: Any, where: str) -> JsonObject:
        if cls in self._open:
            return {"$ref": f"#/$defs/{self._name(cls)}"}
        parameters = class_fields(cls)
        if parameters is None:
            raise _unsupported(cls, where)
        self._open.append(cls)
        schema = self.fields(parameters, f"{where}.")
        self._open.pop()
        description = class_docstring(cls).description
        if description:
            schema["description"] = description
        if cls not in self._names:
            return schema
        self.definitions[self._names[cls]] = schema
        return {"$ref": f"#/$defs/{self._names[cls]}"}

    def _name(self, cls: type) -> str:
        if cls not in self._names:
            taken = set(self._names.values())
            free = (f"{cls.__name__}{n or ''}" for n in range(len(taken) + 1))
            self._names[cls] = next(name for name in free if name not in taken)
        return self._names[cls]


def _default(default: object) -> JsonObject:
    """Return the default for the schema; empty if it is not JSON, so that only Python uses it."""
    try:
        return {"default": to_json(default)}
    except TypeError:
        return {}


def _enumeration(values: Iterable[object], where: str) -> JsonObject:
    options = [value.value if isinstance(value, Enum) else value for value in values]
    for option in options:
        if type(option) not in _SCALARS:
            raise SchemaError(
                f"parameter {where!r}: {option!r} is not a JSON scalar; "
                "use text, numbers, bools or None"
            )
    kinds = {str(_SIMPLE[type(option)]["type"]) for option in options}
    listed: JsonObject = {"enum": [to_json(option) for option in options]}
    return {"type": kinds.pop(), **listed} if len(kinds) == 1 else listed


_SCALARS: Final = (str, int, float, bool, types.NoneType)


def _unsupported(hint: Any, where: str) -> SchemaError:
    return SchemaError(
        f"parameter {where!r}: {type_name(hint)} has no JSON Schema; "
        f"supported types are {SUPPORTED}"
    )
