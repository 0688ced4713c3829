"""Validation of arguments against a tool's schema, by jsonschema-rs.

Schemas may come from untrusted sources. Nothing is ever fetched (the library would follow a remote
`$ref` over HTTP), and the size of checked values and of error messages is limited. Only the first
error is determined: listing all errors takes the library seconds for a large array of invalid
items.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

import jsonschema_rs

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import SchemaError, ToolArgumentsError
from agent_actors.schema.convert import describe_value

# A model needs the field and the rule; repeating more of its own text would fill its context.
_MAX_MESSAGE_CHARACTERS: Final = 500
_MAX_FIELD_CHARACTERS: Final = 120

Check = Callable[[JsonObject], None]


def compile_schema(schema: Mapping[str, JsonValue], *, tool: str) -> Check:
    """Return a function that raises `ToolArgumentsError` for arguments that violate the schema.

    Raises:
        SchemaError: The schema is not that of an object, is not valid JSON Schema, or has an
            external reference.
    """
    if schema.get("type") != "object":
        raise SchemaError(
            f"tool {tool!r}: the schema's type must be 'object', because arguments are objects"
        )
    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except jsonschema_rs.ValidationError as error:
        raise _schema_error(error, tool) from None
    except ValueError as error:
        raise SchemaError(f"tool {tool!r}: invalid schema: {_cut(str(error))}") from None

    known = schema.get("properties")
    names = tuple(known) if isinstance(known, dict) else ()

    def check(arguments: JsonObject) -> None:
        try:
            validator.validate(arguments)
        except jsonschema_rs.ValidationError as error:
            raise _arguments_error(error, tool, names) from None
        except ValueError as error:  # too deep, or not JSON: for example, surrogates in keys
            raise ToolArgumentsError(f"not valid JSON: {_cut(str(error))}", tool=tool) from None

    return check


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is outside of the schema; nothing is fetched")


def _schema_error(error: jsonschema_rs.ValidationError, tool: str) -> SchemaError:
    if "retrieving it failed" in error.message:
        return SchemaError(
            f"tool {tool!r}: the schema has an external reference, which is not fetched; "
            f"put its target under $defs: {_cut(error.message)}"
        )
    field = _path(error.instance_path)
    where = f" at {field}" if field else ""
    return SchemaError(f"tool {tool!r}: invalid schema{where}: {_cut(error.message)}")


def _arguments_error(
    error: jsonschema_rs.ValidationError, tool: str, names: Sequence[str]
) -> ToolArgumentsError:
    field = _path(error.instance_path)
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            field = f"{field}.{name}" if field else str(name)
            fault = "required, but missing"
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=unexpected):
            offered = f"; known are {', '.join(names)}" if not field else ""
            field = f"{field}.{unexpected[0]}" if field else unexpected[0]
            fault = f"unknown{offered}"
        case jsonschema_rs.ValidationErrorKind.FalseSchema() if not (field or names):
            fault = "the tool has no parameters; expected an empty object"
        case _:
            fault = _fault(error)
    field = _cut(field, _MAX_FIELD_CHARACTERS)
    return ToolArgumentsError(
        _cut(f"field {field}: {fault}" if field else fault), tool=tool, field=field
    )


def _fault(error: jsonschema_rs.ValidationError) -> str:
    """Return the expected and the actual value, worded without JSON Schema terms."""
    expected = _expected(error)
    if not expected:
        return error.message
    return f"expected {expected}, got {describe_value(error.instance)}"


def _expected(error: jsonschema_rs.ValidationError) -> str:
    kinds = jsonschema_rs.ValidationErrorKind
    match error.kind:
        case kinds.Type(types=types):
            return " or ".join(types)
        case kinds.Enum(options=options):
            return f"one of {', '.join(repr(option) for option in options)}"
        case kinds.Constant(expected_value=value):
            return repr(value)
        case kinds.AnyOf(context=branches) | kinds.OneOfNotValid(context=branches):
            # A branch that fails at a deeper path has its own error; the library's message contains
            # all.
            firsts = [branch[0] for branch in branches if branch]
            if any(first.instance_path != error.instance_path for first in firsts):
                return ""
            expectations = [_expected(first) for first in firsts]
            return " or ".join(expectations) if all(expectations) else ""
        case _:
            return ""


def _path(parts: Sequence[str | int]) -> str:
    """Return a path, for example `items[0].name`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _cut(text: str, limit: int = _MAX_MESSAGE_CHARACTERS) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
