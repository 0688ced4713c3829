"""The form of a JSON Schema that strict endpoints accept.

OpenAI's strict mode, and modes modelled on it, guarantee that every response matches the schema.
They accept only a subset of JSON Schema. Every object must list its properties, require all of them
and allow no others. Only the keywords in `_KEPT` are allowed. The strict form is narrower than the
schema, never wider, so every value that matches it also matches the schema. A property with a
default becomes required, and its description states the default. An object without
`additionalProperties` allows none.

Some schemas cannot be narrowed without changing their meaning, and therefore have no strict form:
schemas with a property that may be absent and has no default, with an object with arbitrary keys,
with a subschema that accepts any value, or with any other keyword.

Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

import json
from collections.abc import Mapping
from typing import Final

from agent_actors.domain.json import MAX_DEPTH, JsonObject, JsonValue, is_deeper

_KEPT: Final = frozenset(
    {
        "type",
        "title",
        "description",
        "enum",
        "const",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    }
)
"""Keywords that are copied unchanged; their values contain no schemas."""

_DROPPED: Final = frozenset({"default", "examples", "$schema", "$comment"})
"""Keywords that do not restrict values."""

_SHAPES: Final = frozenset({"properties", "required", "additionalProperties"})

# A schema without any of these accepts any value, and strict endpoints reject such schemas.
_SAYS_WHAT: Final = ("type", "enum", "const", "anyOf")


class _NoStrictForm(Exception):
    """A part of the schema has no strict form."""


def strict_form(schema: Mapping[str, JsonValue]) -> JsonObject | None:
    """Return a schema's strict form, which shares nothing mutable with it; None if there is none.

    Args:
        schema: The JSON Schema of an object. A schema with more than `MAX_DEPTH` levels has no
            strict form.
    """
    root = dict(schema)
    if is_deeper(root, MAX_DEPTH):
        return None
    try:
        return _strict(root)
    except _NoStrictForm:
        return None


def _strict(schema: JsonValue) -> JsonObject:
    if not isinstance(schema, dict):  # `true` accepts every value; `false` accepts none
        raise _NoStrictForm
    if "$ref" in schema:
        # No other keyword is allowed next to it, except the definitions at the root.
        return {"$ref": schema["$ref"], **_definitions(schema)}
    strict: JsonObject = {}
    for keyword, value in schema.items():
        if keyword in _KEPT:
            strict[keyword] = value
        elif keyword == "items":
            strict[keyword] = _strict(value)
        elif keyword == "anyOf":
            strict[keyword] = [_strict(branch) for branch in _listed(value)]
        elif keyword not in (_DROPPED | _SHAPES | {"$defs"}):
            raise _NoStrictForm
    if not any(keyword in strict for keyword in _SAYS_WHAT):
        raise _NoStrictForm
    if strict.get("type") == "array" and "items" not in strict:
        raise _NoStrictForm
    if _may_be_object(schema):
        strict |= _closed(schema)
    return {**strict, **_definitions(schema)}


def _may_be_object(schema: Mapping[str, JsonValue]) -> bool:
    kinds = schema.get("type")
    named = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
    return named or bool(_SHAPES & schema.keys())


def _closed(schema: Mapping[str, JsonValue]) -> JsonObject:
    """Return the object schema with all properties required and no others allowed."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or schema.get("additionalProperties", False) is not False:
        raise _NoStrictForm
    required = _listed(schema.get("required", []))
    for name, held in properties.items():
        if name not in required and not (isinstance(held, dict) and "default" in held):
            raise _NoStrictForm
    return {
        "properties": {name: _property(held) for name, held in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _property(schema: JsonValue) -> JsonObject:
    strict = _strict(schema)
    if isinstance(schema, dict) and "default" in schema and "$ref" not in strict:
        default_text = json.dumps(schema["default"], ensure_ascii=False)
        description = strict.get("description")
        before = f"{description} " if isinstance(description, str) and description else ""
        strict["description"] = f"{before}Default: {default_text}"
    return strict


def _definitions(schema: Mapping[str, JsonValue]) -> JsonObject:
    definitions = schema.get("$defs")
    if definitions is None:
        return {}
    if not isinstance(definitions, dict):
        raise _NoStrictForm
    return {"$defs": {name: _strict(held) for name, held in definitions.items()}}


def _listed(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise _NoStrictForm
    return value
