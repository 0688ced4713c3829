"""Validates arguments against a tool's schema, using jsonschema-rs.

Schemas may come from untrusted sources. Nothing is ever fetched (the library would follow a remote
`$ref` over HTTP), and the sizes of validated values and of error messages are limited. Only the
first error is determined, because listing all errors in a large array of invalid items takes the
library seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

import jsonschema_rs

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import SchemaError, ToolArgumentsError
from agent_actors.schema.convert import describe_value

# Maximum length of an error. A model needs the field and the rule; repeating more of its own text
# would fill its context.
_MAX_MESSAGE_CHARACTERS: Final = 500
_MAX_FIELD_CHARACTERS: Final = 120

Check = Callable[[JsonObject], None]


def compile_schema(schema: Mapping[str, JsonValue], *, tool: str) -> Check:
    """Return a function that raises `ToolArgumentsError` for arguments that violate the schema.

    Raises:
        SchemaError: The schema does not describe an object, is not valid JSON Schema, or has an
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
        except ValueError as error:
            # Nested too deeply, or not JSON (for example, surrogates in keys).
            raise ToolArgumentsError(
                f"the arguments are not valid JSON: {_cut(str(error))}", tool=tool
            ) from None

    return check


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is outside the schema; nothing is fetched")


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
    field, fault = _described(error, names)
    field = _cut(field, _MAX_FIELD_CHARACTERS)
    return ToolArgumentsError(
        _cut(f"field {field}: {fault}" if field else fault), tool=tool, field=field
    )


def _described(error: jsonschema_rs.ValidationError, names: Sequence[str] = ()) -> tuple[str, str]:
    """Return an error's field and a description of the problem without JSON Schema terms."""
    alternatives = _alternatives(error)
    if len(alternatives) == 1:
        return _described(alternatives[0], names)
    field = _path(error.instance_path)
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            return f"{field}.{name}" if field else str(name), "required, but missing"
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=unexpected):
            offered = f"; known are {', '.join(names)}" if names and not field else ""
            return f"{field}.{unexpected[0]}" if field else unexpected[0], f"unknown{offered}"
        case jsonschema_rs.ValidationErrorKind.FalseSchema() if not (field or names):
            return field, "the tool has no parameters; expected an empty object"
        case _:
            pass
    expected = _expected(error)
    if expected:
        return field, f"expected {expected}, got {describe_value(error.instance)}"
    if alternatives:
        reasons = [
            f"field {where}: {fault}" if where else fault
            for where, fault in map(_described, alternatives)
        ]
        return field, f"the value matches no alternative: {'; '.join(dict.fromkeys(reasons))}"
    return field, error.message


def _alternatives(error: jsonschema_rs.ValidationError) -> list[jsonschema_rs.ValidationError]:
    """Return the first error for each alternative of a union whose type matches the value."""
    kinds = jsonschema_rs.ValidationErrorKind
    match error.kind:
        case kinds.AnyOf(context=branches) | kinds.OneOfNotValid(context=branches):
            firsts = [branch[0] for branch in branches if branch]
            return [first for first in firsts if not _is_other_type(first, error)]
        case _:
            return []


def _is_other_type(
    error: jsonschema_rs.ValidationError, union: jsonschema_rs.ValidationError
) -> bool:
    """Return whether an alternative failed because the value has an entirely different type."""
    if error.instance_path != union.instance_path:
        return False
    kind = type(error.instance)
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Type():
            return True
        case jsonschema_rs.ValidationErrorKind.Enum(options=options):
            return all(type(option) is not kind for option in options)
        case jsonschema_rs.ValidationErrorKind.Constant(expected_value=value):
            return type(value) is not kind
        case _:
            return False


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
            # An alternative that fails at a deeper path has an error of its own.
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
