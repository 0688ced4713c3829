"""The short form of a tool's parameters.

Example: `{"city": str, "units": {"type": "string", "default": "c"}, "n": {"type": int, "required":
False}}`. A parameter is described by a type hint, or by a schema whose `type` may be a hint. It is
required unless it has a `default`, `"required": False` or `"optional": True`; `"required": True`
takes precedence over a default. The markers `required` and `optional` are not sent. Unlike for a
typed function, the object may have additional keys, because the handler receives the complete dict.
A full JSON Schema is used unchanged.
"""

from collections.abc import Mapping
from typing import Final, cast

from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.json import JsonObject
from agent_actors.errors import SchemaError
from agent_actors.schema.generate import hint_schema

_MARKERS: Final = ("required", "optional")


def object_schema(schema: Mapping[str, object]) -> JsonObject:
    """Return the JSON Schema for a short or full form; the result shares nothing with the argument.

    Raises:
        SchemaError: A parameter is neither a type nor a schema. The message names the parameter.
    """
    try:
        return to_json_object(schema if is_full_schema(schema) else _from_short(schema))
    except TypeError as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None


def is_full_schema(schema: Mapping[str, object]) -> bool:
    """Return whether this is a full JSON Schema, whose `type` is text, not a parameter."""
    return isinstance(schema.get("type"), str)


def _from_short(schema: Mapping[str, object]) -> dict[str, object]:
    properties: dict[str, object] = {}
    required: list[str] = []
    for name, parameter in schema.items():
        if not isinstance(parameter, Mapping):
            properties[name] = hint_schema(parameter, name=name)
            required.append(name)
            continue
        markers = cast(Mapping[str, object], parameter)
        properties[name] = _parameter_schema(name, dict(markers))
        if _required(markers):
            required.append(name)
    short: dict[str, object] = {"type": "object", "properties": properties}
    return {**short, "required": required} if required else short


def _parameter_schema(name: str, parameter: dict[str, object]) -> dict[str, object]:
    hint = parameter.get("type")
    if hint is not None and not isinstance(hint, str | list):
        parameter = {**parameter, **hint_schema(hint, name=name)}
    return {key: value for key, value in parameter.items() if not _marker(key, value)}


def _marker(key: str, value: object) -> bool:
    """Return whether this is a marker; a nested object's `required` is a list of names instead."""
    return key in _MARKERS and isinstance(value, bool)


def _required(parameter: Mapping[str, object]) -> bool:
    if parameter.get("required") is True:
        return True
    absent = parameter.get("required") is False or parameter.get("optional") is True
    return not absent and "default" not in parameter
