"""The required type of a run's output, with its schema and the validation of responses.

An `OutputSpec` is created once, together with the agent, and shared by any number of runs. On the
wire, the output is always one JSON object, because endpoints accept only objects at the root of a
schema. A value that is not an object (such as a list, a union or one of several texts) is wrapped
in an object whose only field is `output`. This module does not know how providers request the
output.

Validation is strict about the value and lenient about its form. Whitespace and a code fence around
the complete text are removed. An object that is repeated, or is encoded in a JSON string, is
extracted. A bare value is accepted in place of the object with one field. Any other text around the
JSON is an error, because prose is never searched for JSON.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar, cast

import attrs
import msgspec

from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.json import MAX_DEPTH, JsonObject, JsonValue, copy_json, nests_deeper
from agent_actors.domain.model import OutputSchema
from agent_actors.domain.run import Partial
from agent_actors.errors import ConfigError, SchemaError, ToolArgumentsError
from agent_actors.protocol.response.arguments import GoodArguments, parse_arguments
from agent_actors.schema.convert import describe_value, structure_value
from agent_actors.schema.generate import hint_schema
from agent_actors.schema.strict import strict_form

if TYPE_CHECKING:
    from agent_actors.schema.validate import Check

T_co = TypeVar("T_co", covariant=True)

FIELD: Final = "output"
"""The only field of the object that wraps a value; also the default name of the output."""

_MAX_NAME_CHARACTERS: Final = 64
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_FENCE: Final = "```"
_AT_ROOT: Final = frozenset({"$schema", "$defs", "definitions"})
_BLANKS: Final = " \t\r\n\ufeff"


@attrs.frozen
class Valid(Generic[T_co]):
    """A response that matches the requested type.

    Attributes:
        value: The response, converted to the type.
        data: The response as JSON.
    """

    value: T_co
    data: JsonValue


@attrs.frozen
class Invalid:
    """A response that does not match the requested type.

    Attributes:
        fault: The validation error, with the path of the invalid value.
        feedback: The message for the model: the error and a remedy.
    """

    fault: str
    feedback: str


OutputVerdict: TypeAlias = Valid[T_co] | Invalid


@attrs.frozen(eq=False)
class OutputSpec(Generic[T_co]):
    """The required type of a run's output; needed for types that are not a class.

    `AgentOptions(output_type=…)` accepts a class directly. Use an `OutputSpec` for unions and
    literals, which type checkers do not treat as classes. Pass the type twice, once for type
    checkers and once for the program: `OutputSpec[City | Unknown](City | Unknown)`. For a JSON
    Schema, use `json_schema`.

    Args:
        form: An attrs class, a dataclass, a TypedDict, a model or a `TypeAdapter` of pydantic, or
            any other type that is allowed for a tool's parameter.
        name: The name on the wire. If empty, the type's name.
        description: Description for the model. If empty, the type's docstring.
        strict: True to make endpoints with a strict mode enforce the schema; None means True if the
            schema has a strict form, otherwise False.

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
    _check: "Check" = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        own = _schema_of(self.form)
        bare = own.get("type") != "object"
        name = _name(self.name or _own_name(self.form, own))
        schema = _around(own) if bare else own
        _set(self, "schema", _output_schema(self, name, schema, str(own.get("description") or "")))
        _set(self, "_bare", bare)
        checked = _schema_of(self.form, validates_pydantic=False)
        checked = _around(checked) if bare else {"type": "object", **checked}
        _set(self, "_check", _checker(checked, name))

    @staticmethod
    def json_schema(
        schema: Mapping[str, object],
        *,
        name: str = "",
        description: str = "",
        strict: bool | None = None,
    ) -> "OutputSpec[JsonValue]":
        """Return a spec for a JSON Schema. The output is then plain JSON.

        Args:
            schema: A JSON Schema of any type. External references are never fetched.
            name: The name on the wire. If empty, the schema's `title`.
            description: Description for the model. If empty, the schema's `description`.
            strict: The same as for the class.

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

    def partial(self, document: JsonValue) -> Partial[T_co]:
        """Return the output so far, from the beginning of a response.

        Args:
            document: The JSON so far, with its open containers closed.
        """
        if self._bare and isinstance(document, dict):
            document = document.get(FIELD)
        return Partial(document, self._convert_partial)

    def _convert_partial(self, data: JsonValue) -> T_co | None:
        if isinstance(self.form, Mapping):
            return cast(T_co, copy_json(data))
        rest: JsonValue = copy_json(data)
        while True:
            try:
                # A failed conversion leaves the value unchanged, but a result shares its parts.
                made = structure_value(copy_json(rest), self.form, tool=self.schema.name)
                return cast(T_co, made)
            except ToolArgumentsError:
                if not _drop_last_item(rest):
                    return None

    def _read(self, value: JsonObject) -> Valid[T_co]:
        data = value[FIELD] if self._bare else value
        own = copy_json(data)  # the result may share parts with its argument
        if isinstance(self.form, Mapping):
            return Valid(cast(T_co, own), data)
        path = FIELD if self._bare else ""
        made = structure_value(own, self.form, tool=self.schema.name, path=path)
        return Valid(cast(T_co, made), data)

    def _no_json(self, fault: str) -> Invalid:
        # If a model responds with prose, it may never have received the schema.
        schema = json.dumps(self.schema.schema, ensure_ascii=False)
        return Invalid(
            fault,
            f"Invalid response: {fault}. Respond with one JSON object and nothing else. "
            f"It must match this JSON Schema: {schema}",
        )


# Sets derived fields of a frozen class; used only in `__attrs_post_init__`.
_set: Final = object.__setattr__


def as_output_spec(form: object) -> OutputSpec[object] | None:
    """Return the spec for an agent's `output_type`; None if the output is plain text.

    Raises:
        SchemaError: The type has no JSON Schema.
    """
    if form is None or form is str:
        return None
    if isinstance(form, OutputSpec):
        return cast(OutputSpec[object], form)
    return OutputSpec(form)


def _drop_last_item(value: JsonValue) -> bool:
    """Remove the last item of the innermost list at the end of a value; return False if none."""
    innermost: list[JsonValue] | None = None
    while value and isinstance(value, dict | list):
        if isinstance(value, list):
            innermost = value
            value = value[-1]
        else:
            value = value[next(reversed(value))]
    if innermost is None:
        return False
    innermost.pop()
    return True


def _schema_of(form: object, *, validates_pydantic: bool = True) -> JsonObject:
    if not isinstance(form, Mapping):
        try:
            return hint_schema(form, name=FIELD, validates_pydantic=validates_pydantic)
        except SchemaError as error:
            raise SchemaError(f"output_type: {error}") from None
    try:
        return to_json_object(cast(Mapping[str, object], form))
    except TypeError as error:
        raise SchemaError(f"output_type: the schema is not JSON: {error}") from None


def _around(schema: JsonObject) -> JsonObject:
    """Return an object schema whose only field has this schema."""
    # References start at the root of a schema, so the definitions are moved there.
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
            f"output_type {name}: strict=True was passed, but the schema has no strict form; give "
            "every field a type and no default factory, or omit strict"
        )
    return OutputSchema(name, schema, spec.description or description, strict)


def _checker(schema: JsonObject, name: str) -> "Check":
    from agent_actors.schema.validate import compile_schema  # noqa: PLC0415 - slow to import

    try:
        return compile_schema(schema, tool=name)
    except SchemaError as error:
        raise SchemaError(f"output_type: {str(error).removeprefix(f'tool {name!r}: ')}") from None


class _NoJsonError(Exception):
    """The text is not JSON; the message is the reason."""


def _json_in(text: str) -> JsonValue:
    """Return the only JSON value in a text.

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
        # The text may be an object that is repeated, contains lone surrogates, or is encoded in a
        # string.
        parsed = parse_arguments(text)
        if len(parsed) == 1 and isinstance(parsed[0], GoodArguments) and parsed[0].input:
            return parsed[0].input
    if fault:
        raise _NoJsonError(fault)
    return value


def _unfenced(text: str) -> str:
    """Return the text without a code fence around it, if there is one."""
    head, line_end, rest = text.partition("\n")
    language = head.removeprefix(_FENCE).strip(_BLANKS)
    if not (line_end and head.startswith(_FENCE) and rest.endswith(_FENCE)):
        return text
    return text if language and not language.isalnum() else rest[: -len(_FENCE)].strip(_BLANKS)
