"""The type that a run's answer has to be of: its schema, and the check of what came.

An `OutputSpec` is made once, with the agent, and shared by any number of runs. On the wire an
answer is always one JSON object, since no endpoint takes anything else for a schema's root: what is
no object (a list, a union, one of several texts) stands in one as its only field, `output`. It
knows nothing of how the answer is asked for, and nothing of runs.

Reading is strict where it matters and lenient where models err without meaning anything by it:
blanks and a code fence around the whole are taken off, an object that is repeated or wrapped in a
string is taken out, a bare value stands for the object with the one field. Text around the JSON is
a fault: nothing is ever searched for in prose.
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
"""The one field of the object around what is no object; also the name of what has none."""

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
    """What a run's answer has to be, where a class alone does not say it.

    `AgentOptions(output_type=…)` takes a class as it is. This is for unions and literals, which
    type checkers do not take for a class: name the type twice, for them and for the program, as in
    `OutputSpec[City | Unknown](City | Unknown)`. For a JSON Schema there is `json_schema`.

    Args:
        form: An attrs class, a dataclass, a TypedDict, or any other type that a tool's parameter
            may have.
        name: What it is called on the wire; empty: as the type is.
        description: What it is, for the model; empty: as the type's docstring says.
        strict: Whether an endpoint with a strict mode is to keep to the schema; None: if the schema
            has a strict form.

    Raises:
        ConfigError: A strict form is demanded, and there is none.
        SchemaError: The type has no JSON Schema, or the schema is none.
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
        """What a JSON Schema describes; the output is plain JSON.

        Args:
            schema: The schema, of whatever it is. Nothing outside of it is ever fetched.
            name: What it is called on the wire; empty: its `title`.
            description: What it is, for the model; empty: its own `description`.
            strict: As for the class itself.

        Raises:
            ConfigError: A strict form is demanded, and there is none.
            SchemaError: It is no JSON Schema.
        """
        form = dict(schema)
        return OutputSpec[JsonValue](form, name=name, description=description, strict=strict)

    def check(self, text: str) -> OutputVerdict[T_co]:
        """See whether an answer's text is what was asked for.

        Args:
            text: The whole answer.
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
            return Invalid(fault, f"The answer does not fit: {fault}. Give the whole answer again.")

    def _read(self, value: JsonObject) -> Valid[T_co]:
        data = value[FIELD] if self._bare else value
        own = copy_json(data)  # what is made of it may hold parts of it
        if isinstance(self.form, Mapping):
            return Valid(cast(T_co, own), data)
        path = FIELD if self._bare else ""
        made = structure_value(own, self.form, tool=self.schema.name, path=path)
        return Valid(cast(T_co, made), data)

    def _no_json(self, fault: str) -> Invalid:
        # Whoever answers in prose may never have been shown the schema.
        schema = json.dumps(self.schema.schema, ensure_ascii=False)
        return Invalid(
            fault,
            f"The answer does not fit: {fault}. Answer with one JSON object and nothing else. "
            f"It has to fit this JSON Schema: {schema}",
        )


# A frozen class sets its derived fields this way, in `__attrs_post_init__` only.
_set: Final = object.__setattr__


def as_output_spec(form: object) -> OutputSpec[object] | None:
    """What an agent's `output_type` asks for; None if its text is all that is wanted.

    Raises:
        SchemaError: It has no JSON Schema.
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
    """The object with one field that stands for what is no object."""
    # References within a schema start from its root, and so its definitions move there.
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


def _name(wanted: str) -> str:
    return _NOT_IN_NAME.sub("_", wanted)[:_MAX_NAME_CHARACTERS].strip("_") or FIELD


def _output_schema(
    spec: OutputSpec[object], name: str, schema: JsonObject, description: str
) -> OutputSchema:
    strict = None if spec.strict is False else strict_form(schema)
    if spec.strict and strict is None:
        raise ConfigError(
            f"output_type {name}: strict=True, and its schema has no strict form; give every field "
            "a type and no default factory, or leave strict out"
        )
    return OutputSchema(name, schema, spec.description or description, strict)


def _checker(schema: JsonObject, name: str) -> Check:
    try:
        return compile_schema(schema, tool=name)
    except SchemaError as error:
        raise SchemaError(f"output_type: {str(error).removeprefix(f'tool {name!r}: ')}") from None


class _NoJsonError(Exception):
    """The text is no JSON; says why."""


def _json_in(text: str) -> JsonValue:
    """The one JSON value that a text is.

    Raises:
        _NoJsonError: It is none.
    """
    text = _unfenced(text.strip(_BLANKS))
    if not text:
        raise _NoJsonError("the answer is empty")
    if nests_deeper(text, MAX_DEPTH):
        raise _NoJsonError(f"the answer is nested more than {MAX_DEPTH} levels deep")
    value: JsonValue = None
    fault = ""
    try:
        value = cast(JsonValue, msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError) as error:
        fault = f"the answer is no JSON: {error}"
    if fault or isinstance(value, str):
        # An object repeated, or with halves of characters in it, or inside a string.
        parsed = parse_arguments(text)
        if len(parsed) == 1 and isinstance(parsed[0], GoodArguments) and parsed[0].input:
            return parsed[0].input
    if fault:
        raise _NoJsonError(fault)
    return value


def _unfenced(text: str) -> str:
    """What stands in a code fence around the whole text; the text, if there is none."""
    head, line_end, rest = text.partition("\n")
    language = head.removeprefix(_FENCE).strip(_BLANKS)
    if not (line_end and head.startswith(_FENCE) and rest.endswith(_FENCE)):
        return text
    return text if language and not language.isalnum() else rest[: -len(_FENCE)].strip(_BLANKS)
