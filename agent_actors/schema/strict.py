"""A JSON Schema in the form that strict endpoints take, where it has one.

OpenAI's strict mode, and what is modelled on it, promises that every answer fits the schema, and
for that takes part of JSON Schema only: every object names its properties, requires all of them and
allows no other; of the keywords, those in `_KEPT`. The form made here is narrower than the schema,
never wider, so that what fits it fits the schema too: a property with a default becomes required,
with the default in its description, and an object that says nothing of further properties takes
none.

What cannot be narrowed without changing what the model may mean has no strict form: a property that
may be absent and has no default, an object of any keys, "anything", and every other keyword.

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
"""Keywords that go as they are; what stands in them holds no schema."""

_DROPPED: Final = frozenset({"default", "examples", "$schema", "$comment"})
"""Keywords that say nothing of what fits."""

_SHAPES: Final = frozenset({"properties", "required", "additionalProperties"})

# Without one of these a schema takes anything, which a strict endpoint refuses.
_SAYS_WHAT: Final = ("type", "enum", "const", "anyOf")


class _NoStrictForm(Exception):
    """What was met has no strict form."""


def strict_form(schema: Mapping[str, JsonValue]) -> JsonObject | None:
    """The schema as a strict endpoint takes it, sharing nothing that changes; None: there is none.

    Args:
        schema: The JSON Schema of an object; of more than `MAX_DEPTH` levels there is no form.
    """
    whole = dict(schema)
    if is_deeper(whole, MAX_DEPTH):
        return None
    try:
        return _strict(whole)
    except _NoStrictForm:
        return None


def _strict(schema: JsonValue) -> JsonObject:
    if not isinstance(schema, dict):  # `true` takes anything, `false` nothing
        raise _NoStrictForm
    if "$ref" in schema:  # nothing may stand beside it, but the definitions at the root
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
    """The object with all its properties required, and no other allowed."""
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
        told = json.dumps(schema["default"], ensure_ascii=False)
        said = strict.get("description")
        before = f"{said} " if isinstance(said, str) and said else ""
        strict["description"] = f"{before}Default: {told}"
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
