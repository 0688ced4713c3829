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
from agent_actors.schema.docstrings import parse_docstring
from agent_actors.schema.pydantic_types import is_pydantic, pydantic_schema
from agent_actors.schema.type_hints import (
    Parameter,
    class_docstring,
    class_fields,
    type_name,
    unwrapped,
)

SUPPORTED: Final = (
    "str, int, float, bool, None, list, dict with str keys, tuple, set, frozenset, Literal, Enum, "
    "Optional and unions, Annotated, TypedDict, NamedTuple, dataclasses, attrs classes, Any, "
    "object, models and annotated types of pydantic"
)

# The keywords of constraints, by the attribute of an `Annotated` note that sets them. The notes of
# `msgspec.Meta` and of the package annotated-types have these attributes.
_CONSTRAINTS: Final[Mapping[str, str]] = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
# The keywords for the smallest and the largest size, by the JSON type of the value.
_SIZES: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}

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


def parameters_schema(
    parameters: Iterable[Parameter], *, validates_pydantic: bool = True
) -> JsonObject:
    """Return the schema of an object with values for these parameters.

    Args:
        parameters: The parameters.
        validates_pydantic: False for a schema that accepts any value where a type of pydantic is
            expected, because pydantic itself validates the value.

    Raises:
        SchemaError: The hint of a parameter is not supported. The message names the parameter and
            the supported hints.
    """
    builder = _Builder(validates_pydantic)
    schema = builder.fields(parameters)
    return {**schema, "$defs": builder.definitions} if builder.definitions else schema


def hint_schema(hint: Any, *, name: str, validates_pydantic: bool = True) -> JsonObject:
    """Return the schema for one hint; `name` is used in error messages.

    Args:
        hint: The hint.
        name: The name of the value.
        validates_pydantic: See `parameters_schema`.

    Raises:
        SchemaError: The hint is not supported.
    """
    builder = _Builder(validates_pydantic)
    schema = builder.schema(hint, name)
    return {**schema, "$defs": builder.definitions} if builder.definitions else schema


@attrs.define(eq=False)
class _Builder:
    """Builds a schema.

    Args:
        validates_pydantic: False to accept any value for a type of pydantic.

    Attributes:
        definitions: The schemas of classes that contain themselves, by name.
    """

    _validates_pydantic: bool
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
        if is_pydantic(hint):
            return self._of_pydantic(hint, where) if self._validates_pydantic else {}
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
        for note in arguments[1:]:
            schema |= _constraints(note, schema, where)
        texts = [text for note in arguments[1:] if (text := _description(note))]
        return {**schema, "description": texts[0]} if texts else schema

    def _of_pydantic(self, hint: Any, where: str) -> JsonObject:
        schema, definitions = pydantic_schema(hint, where=where)
        return _Inliner(definitions, self.definitions).inlined(schema)

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
            self._names[cls] = _free_name(cls.__name__, self._names.values(), self.definitions)
        return self._names[cls]


@attrs.define(eq=False)
class _Inliner:
    """Inlines the definitions that a schema of pydantic refers to by their bare names.

    Attributes:
        _known: The definitions of the schema, by name.
        _shared: Receives the definitions that contain themselves.
    """

    _known: Mapping[str, JsonObject]
    _shared: JsonObject
    _open: list[str] = attrs.field(factory=list[str], init=False)
    _names: dict[str, str] = attrs.field(factory=dict[str, str], init=False)

    def inlined(self, schema: JsonValue) -> JsonObject:
        """Return a schema without references, except to definitions that contain themselves."""
        if not isinstance(schema, dict):
            return {} if schema is True else {"not": {}}
        if "$ref" in schema:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return {**self._definition(str(schema["$ref"])), **self.inlined(rest)}
        inlined = {key: self._inside(key, value) for key, value in schema.items()}
        # The keyword is one of OpenAPI and refers to the definitions. The alternatives exclude each
        # other, and strict endpoints accept `anyOf` only.
        if inlined.pop("discriminator", None) is not None and "oneOf" in inlined:
            inlined["anyOf"] = inlined.pop("oneOf")
        _split_docstring(inlined)
        return inlined

    def _inside(self, keyword: str, value: JsonValue) -> JsonValue:
        if keyword in _MAPS_OF_SCHEMAS and isinstance(value, dict):
            return {name: self.inlined(schema) for name, schema in value.items()}
        if keyword in _LISTS_OF_SCHEMAS and isinstance(value, list):
            return [self.inlined(schema) for schema in value]
        if keyword in _SCHEMAS and isinstance(value, dict):
            return self.inlined(value)
        return value

    def _definition(self, name: str) -> JsonObject:
        if name in self._open:
            if name not in self._names:
                bare = name.rpartition("__")[2]  # without the module's name
                self._names[name] = _free_name(bare, self._names.values(), self._shared)
            return {"$ref": f"#/$defs/{self._names[name]}"}
        self._open.append(name)
        schema = self.inlined(self._known[name])
        self._open.pop()
        if name not in self._names:
            return schema
        self._shared[self._names[name]] = schema
        return {"$ref": f"#/$defs/{self._names[name]}"}


_MAPS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS_OF_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not"})


def _split_docstring(schema: JsonObject) -> None:
    """Give the descriptions of fields in the docstring of a model to the fields."""
    text, properties = schema.get("description"), schema.get("properties")
    if not isinstance(text, str) or not isinstance(properties, dict):
        return
    docstring = parse_docstring(text)
    schema["description"] = docstring.description
    for name, description in docstring.parameters.items():
        field = properties.get(name)
        if isinstance(field, dict):
            field.setdefault("description", description)


def _free_name(name: str, *taken: Iterable[str]) -> str:
    used = {name for names in taken for name in names}
    return next(free for n in range(len(used) + 1) if (free := f"{name}{n or ''}") not in used)


def _description(note: object) -> str:
    """Return the description in a note of an `Annotated` type; empty if there is none."""
    text = note if isinstance(note, str) else getattr(note, "description", None)
    return text if isinstance(text, str) else ""


def _constraints(note: Any, schema: JsonObject, where: str) -> JsonObject:
    """Return the keywords for the constraints in a note of an `Annotated` type.

    Raises:
        SchemaError: JSON Schema cannot express the constraint.
    """
    if type(note).__module__.partition(".")[0] not in ("annotated_types", "msgspec"):
        return {}
    found: JsonObject = {
        keyword: to_json(bound)
        for attribute, keyword in _CONSTRAINTS.items()
        if (bound := getattr(note, attribute, None)) is not None
    }
    sizes = _SIZES.get(str(schema.get("type")), ("", ""))
    for attribute, keyword in zip(("min_length", "max_length"), sizes, strict=True):
        bound = getattr(note, attribute, None)
        if bound is not None and keyword:
            found[keyword] = to_json(bound)
        elif bound:
            raise SchemaError(f"parameter {where!r}: only text and containers have a length")
    if not found and hasattr(note, "func"):
        raise SchemaError(
            f"parameter {where!r}: a function ({note!r:.80}) has no JSON Schema; validate the "
            "value in the handler, in a class, or with pydantic.AfterValidator"
        )
    return found


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
    instead = _INSTEAD.get(type_name(hint), "")
    return SchemaError(
        f"parameter {where!r}: {type_name(hint)} has no JSON Schema{instead}; "
        f"supported types are {SUPPORTED}"
    )


_AS_TEXT: Final = "; use str, or a model of pydantic that has a field of this type"
# The remedy for a type that users often expect to work, by the name of the type.
_INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("datetime", "date", "time", "timedelta", "UUID", "Path", "Decimal"), _AS_TEXT),
    "bytes": "; use str with base64 text",
}
