"""The short form of a tool's parameters, and full JSON Schemas as they are.

Short: `{"city": str, "units": {"type": "string", "default": "c"}, "n": {"type": int,
"required": False}}`. A parameter is a type hint, or a schema whose `type` may be a hint. Every
parameter is required, unless `default`, `"required": False` or `"optional": True` says otherwise;
`"required": True` beats a default. The markers `required` and `optional` are not sent. Unlike a
typed function's, the object stays open: the handler gets the dict and sees what came.
"""

from collections.abc import Mapping
from typing import Final, cast

from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.json import JsonObject
from agent_actors.errors import SchemaError
from agent_actors.schema.generate import hint_schema

_MARKERS: Final = ("required", "optional")


def object_schema(schema: Mapping[str, object]) -> JsonObject:
    """The JSON Schema of a short or full form, sharing nothing with it.

    Raises:
        SchemaError: Naming the parameter that is neither a type nor a schema.
    """
    try:
        return to_json_object(schema if is_full_schema(schema) else _from_short(schema))
    except TypeError as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None


def is_full_schema(schema: Mapping[str, object]) -> bool:
    """True for a JSON Schema of an object; its `type` is text, which no parameter can be."""
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
    """A nested object's own `required` is a list of names, and stays."""
    return key in _MARKERS and isinstance(value, bool)


def _required(parameter: Mapping[str, object]) -> bool:
    if parameter.get("required") is True:
        return True
    absent = parameter.get("required") is False or parameter.get("optional") is True
    return not absent and "default" not in parameter
