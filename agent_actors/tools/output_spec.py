"""The required type of a run's output: its schema, and the validation of responses.

An `OutputSpec` is made once, with the agent, and any number of runs share it. On the wire, the
output is always one JSON object, because endpoints accept only objects at the root of a schema. A
value that is not an object (a list, a union, one of several texts) is the only field, `output`, of
such an object. This module does not know how providers request the output.

Validation is strict about the value and lenient about its form. Whitespace and a code fence around
the complete text are removed. An object that is repeated or wrapped in a string is extracted. A
bare value is accepted in place of the object with one field. Other text around the JSON is an
error: JSON is never searched for in prose.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, Generic, TypeAlias, TypeVar, cast

import attrs
import msgspec

from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.json import MAX_DEPTH, JsonObject, JsonValue, copy_json, nests_deeper
from agent_actors.domain.model import OutputSchema
from agent_actors.errors import ConfigError, SchemaError, ToolArgumentsError
from agent_actors.protocol.response.arguments import GoodArguments, parse_arguments
from agent_actors.schema.convert import describe_value, structure_value
from agent_actors.schema.generate import hint_schema
from agent_actors.schema.strict import strict_form
from agent_actors.schema.validate import Check, compile_schema

T_co = TypeVar("T_co", covariant=True)

FIELD: Final = "output"
"""The only field of the object around a value that is not an object; also the default name."""

_MAX_NAME_CHARACTERS: Final = 64
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_FENCE: Final = "```"
_AT_ROOT: Final = frozenset({"$schema", "$defs", "definitions"})
_BLANKS: Final = " \t\r\n\ufeff"


@attrs.frozen
class Valid(Generic[T_co]):
    """A response that has the requested type.

    Attributes:
        value: The response in its type.
        data: The response as JSON.
    """

    value: T_co
    data: JsonValue


@attrs.frozen
class Invalid:
    """A response that does not have the requested type.

    Attributes:
        fault: The error, with the path where it occurred.
        feedback: The error for the model, with a remedy.
    """

    fault: str
    feedback: str


OutputVerdict: TypeAlias = Valid[T_co] | Invalid


@attrs.frozen(eq=False)
class OutputSpec(Generic[T_co]):
    """The required output of a run, for types that are not a class.

    `AgentOptions(output_type=…)` accepts a class directly. Use an `OutputSpec` for unions and
    literals, which type checkers do not treat as classes. Write the type twice, once for type
    checkers and once for the program: `OutputSpec[City | Unknown](City | Unknown)`. Use
    `json_schema` for a JSON Schema.

    Args:
        form: An attrs class, a dataclass, a TypedDict, or any other type that a tool's parameter
            may have.
        name: The name on the wire; empty: the type's name.
        description: Description for the model; empty: the type's docstring.
        strict: True to make endpoints with a strict mode enforce the schema, False not to; None:
            True if the schema has a strict form.

    Raises:
        ConfigError: `strict` is True, but the schema has no strict form.
        SchemaError: The type has no JSON Schema, or the schema is invalid.
    """

    form: object
    name: str = attrs.field(default="", kw_only=True)
    description: str = attrs.field(default="", kw_only=True)
    strict: bool | None = attrs.field(default=None, kw_only=True)
    schema: OutputSchema = attrs.field(init=False, repr=False)
    _bare: bool = attrs.field(init=False, repr=False)
    _check: Check = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        own = _schema_of(self.form)
        bare = own.get("type") != "object"
        name = _name(self.name or _own_name(self.form, own))
        schema = _around(own) if bare else own
        _set(self, "schema", _output_schema(self, name, schema, str(own.get("description") or "")))
        _set(self, "_bare", bare)
        _set(self, "_check", _checker(schema, name))

    @staticmethod
    def json_schema(
        schema: Mapping[str, object],
        *,
        name: str = "",
        description: str = "",
        strict: bool | None = None,
    ) -> "OutputSpec[JsonValue]":
        """Return a spec for a JSON Schema; the output is plain JSON.

        Args:
            schema: A JSON Schema of any type. External references are never fetched.
            name: The name on the wire; empty: the schema's `title`.
            description: Description for the model; empty: the schema's `description`.
            strict: As for the class.

        Raises:
            ConfigError: `strict` is True, but the schema has no strict form.
            SchemaError: The value is not a valid JSON Schema.
        """
        form = dict(schema)
        return OutputSpec[JsonValue](form, name=name, description=description, strict=strict)

    def check(self, text: str) -> OutputVerdict[T_co]:
        """Validate the text of a response.

        Args:
            text: The complete response.
        """
        try:
            value = _json_in(text)
        except _NoJsonError as error:
            return self._no_json(str(error))
        if isinstance(value, dict):
            answer: JsonObject = value
        elif self._bare:
            answer = {FIELD: value}
        else:
            return self._no_json(f"expected a JSON object, got {describe_value(value)}")
        try:
            self._check(answer)
            return self._read(answer)
        except ToolArgumentsError as error:
            fault = str(error)
            return Invalid(fault, f"Invalid response: {fault}. Give the complete response again.")

    def _read(self, value: JsonObject) -> Valid[T_co]:
        data = value[FIELD] if self._bare else value
        own = copy_json(data)  # the result may share parts with it
        if isinstance(self.form, Mapping):
            return Valid(cast(T_co, own), data)
        path = FIELD if self._bare else ""
        made = structure_value(own, self.form, tool=self.schema.name, path=path)
        return Valid(cast(T_co, made), data)

    def _no_json(self, fault: str) -> Invalid:
        # A model that responds with prose may never have received the schema.
        schema = json.dumps(self.schema.schema, ensure_ascii=False)
        return Invalid(
            fault,
            f"Invalid response: {fault}. Respond with one JSON object and nothing else. "
            f"It must match this JSON Schema: {schema}",
        )


# Derived fields of a frozen class are set with this function, in `__attrs_post_init__` only.
_set: Final = object.__setattr__


def as_output_spec(form: object) -> OutputSpec[object] | None:
    """Return the spec of an agent's `output_type`; None if the output is plain text.

    Raises:
        SchemaError: The type has no JSON Schema.
    """
    if form is None or form is str:
        return None
    if isinstance(form, OutputSpec):
        return cast(OutputSpec[object], form)
    return OutputSpec(form)


def _schema_of(form: object) -> JsonObject:
    if not isinstance(form, Mapping):
        try:
            return hint_schema(form, name=FIELD)
        except SchemaError as error:
            raise SchemaError(f"output_type: {error}") from None
    try:
        return to_json_object(cast(Mapping[str, object], form))
    except TypeError as error:
        raise SchemaError(f"output_type: the schema is not JSON: {error}") from None


def _around(schema: JsonObject) -> JsonObject:
    """Return an object schema with one field, whose schema is this one."""
    # References within a schema start at its root, so the definitions move there.
    moved: JsonObject = {key: value for key, value in schema.items() if key in _AT_ROOT}
    held: JsonObject = {key: value for key, value in schema.items() if key not in _AT_ROOT}
    return {
        "type": "object",
        "properties": {FIELD: held},
        "required": [FIELD],
        "additionalProperties": False,
        **moved,
    }


def _own_name(form: object, schema: Mapping[str, JsonValue]) -> str:
    if isinstance(form, Mapping):
        return str(schema.get("title") or "")
    return form.__name__ if isinstance(form, type) else ""


def _name(candidate: str) -> str:
    return _NOT_IN_NAME.sub("_", candidate)[:_MAX_NAME_CHARACTERS].strip("_") or FIELD


def _output_schema(
    spec: OutputSpec[object], name: str, schema: JsonObject, description: str
) -> OutputSchema:
    strict = None if spec.strict is False else strict_form(schema)
    if spec.strict and strict is None:
        raise ConfigError(
            f"output_type {name}: strict=True, but its schema has no strict form; give every field "
            "a type and no default factory, or omit strict"
        )
    return OutputSchema(name, schema, spec.description or description, strict)


def _checker(schema: JsonObject, name: str) -> Check:
    try:
        return compile_schema(schema, tool=name)
    except SchemaError as error:
        raise SchemaError(f"output_type: {str(error).removeprefix(f'tool {name!r}: ')}") from None


class _NoJsonError(Exception):
    """The text is not JSON; the message is the reason."""


def _json_in(text: str) -> JsonValue:
    """Return the one JSON value in a text.

    Raises:
        _NoJsonError: The text is not one JSON value.
    """
    text = _unfenced(text.strip(_BLANKS))
    if not text:
        raise _NoJsonError("the response is empty")
    if nests_deeper(text, MAX_DEPTH):
        raise _NoJsonError(f"the response is nested more than {MAX_DEPTH} levels deep")
    value: JsonValue = None
    fault = ""
    try:
        value = cast(JsonValue, msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError) as error:
        fault = f"the response is not JSON: {error}"
    if fault or isinstance(value, str):
        # An object that is repeated, contains lone surrogates, or is wrapped in a string.
        parsed = parse_arguments(text)
        if len(parsed) == 1 and isinstance(parsed[0], GoodArguments) and parsed[0].input:
            return parsed[0].input
    if fault:
        raise _NoJsonError(fault)
    return value


def _unfenced(text: str) -> str:
    """Return the content of a code fence around the complete text; without a fence, the text."""
    head, line_end, rest = text.partition("\n")
    language = head.removeprefix(_FENCE).strip(_BLANKS)
    if not (line_end and head.startswith(_FENCE) and rest.endswith(_FENCE)):
        return text
    return text if language and not language.isalnum() else rest[: -len(_FENCE)].strip(_BLANKS)
