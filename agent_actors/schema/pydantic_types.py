"""Types of pydantic, version 2: their JSON Schema, and the conversion of JSON values to them.

pydantic validates the values of such types by itself, in JSON mode, so that its validators, its
aliases and its conversions work as its users know them. Only this module imports pydantic, and only
inside functions that a type of pydantic has reached: a program that uses such a type has imported
pydantic.
"""

import functools
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeGuard, get_args, get_origin

import attrs

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import SchemaError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.fields import FieldInfo

_PACKAGE: Final = "pydantic"

# A class has one of these if pydantic made it, or if it tells pydantic how to validate it.
_METHODS: Final = ("__pydantic_core_schema__", "__get_pydantic_core_schema__")

# The maximum number of errors of one value in a message; a longer list would fill a model's
# context.
_MAX_ERRORS: Final = 5

# The prefixes that pydantic adds to the message of a validator.
_PREFIXES: Final = ("Value error, ", "Assertion failed, ")

# The first words of pydantic's own messages, which do not begin a sentence here.
_OWN_BEGINNINGS: Final = ("Input ", "Unable ", "Value ")

# The error types of a value that is not of the expected JSON type at all.
_OTHER_TYPE: Final = "_type"


class PydanticValueError(ValueError):
    """A value that pydantic rejected.

    Attributes:
        faults: The path of each invalid part and the description of its problem.
        is_other_type: True if the value is not of the expected JSON type at all.
    """

    def __init__(self, faults: Sequence[tuple[str, str]], *, is_other_type: bool) -> None:
        super().__init__("; ".join(text for _, text in faults))
        self.faults: tuple[tuple[str, str], ...] = tuple(faults)
        self.is_other_type = is_other_type


@attrs.frozen
class FieldDefault:
    """The parts of a parameter that is declared as `name: type = Field(...)`.

    Attributes:
        hint: The type, annotated with the field.
        default: The default value; `inspect.Parameter.empty` if there is none.
        factory: Returns the value for an absent argument; None if there is no default.
        alias: The name in JSON; None if it is the parameter's own name.
    """

    hint: Any
    default: object
    factory: Callable[[], object] | None
    alias: str | None


def is_pydantic(hint: Any) -> bool:
    """Return whether pydantic defines the type, so that pydantic validates its values.

    True for a `BaseModel`, a dataclass of pydantic, any other class with pydantic's methods, a
    `TypeAdapter`, and an `Annotated` type with a `Field` or a validator of pydantic.
    """
    if _PACKAGE not in sys.modules:
        return False
    if get_origin(hint) is Annotated:
        return any(map(_restricts, get_args(hint)[1:]))
    if isinstance(hint, type):
        return any(hasattr(hint, name) for name in _METHODS)
    return _is_adapter(hint)


def field_default(hint: Any, default: object) -> FieldDefault | None:
    """Return the parts of a parameter with a `Field`; None if pydantic does not describe it."""
    if _PACKAGE not in sys.modules:
        return None
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    fields = [note for note in (default, *notes) if _is_field(note)]
    if not fields:
        return None
    default_field = fields[0]
    if default is default_field:
        hint = Annotated[hint, default]
    alias = default_field.validation_alias or default_field.alias
    if alias is not None and not isinstance(alias, str):
        raise SchemaError("a parameter can have only one name; use an alias that is text")
    empty = inspect.Parameter.empty
    if default is not default_field and default is not empty:
        return FieldDefault(hint, default, None, alias)
    if default_field.is_required():
        return FieldDefault(hint, empty, None, alias)
    made = functools.partial(default_field.get_default, call_default_factory=True)
    return FieldDefault(hint, default_field.get_default(), made, alias)


def pydantic_schema(hint: Any, *, where: str) -> tuple[JsonObject, dict[str, JsonObject]]:
    """Return the schema of a type, and the definitions that it refers to by their bare names.

    Args:
        hint: The type, for which `is_pydantic` is true.
        where: The parameter, for error messages.

    Raises:
        SchemaError: pydantic cannot describe the type.
    """
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - see the module's docstring
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415

    class Untitled(GenerateJsonSchema):
        """Omits the titles of fields, which repeat their names and cost tokens."""

        def field_title_should_be_set(self, schema: object) -> bool:
            del schema
            return False

    try:
        schema = _adapter(hint).json_schema(ref_template="{model}", schema_generator=Untitled)
    except PydanticUserError as error:
        reason = error.message.partition("\n")[0]
        raise SchemaError(
            f"parameter {where!r}: pydantic has no JSON Schema for the type: {reason} Use types "
            "that JSON has, or annotate the type with pydantic.WithJsonSchema"
        ) from None
    definitions: dict[str, JsonObject] = schema.pop("$defs", {})
    for name, definition in definitions.items():
        _drop_class_title(definition, name)
    _drop_class_title(schema, getattr(hint, "__name__", ""))
    return schema, definitions


def structure_pydantic(value: JsonValue, hint: Any) -> object:
    """Convert a JSON value to the type.

    Raises:
        PydanticValueError: pydantic rejected the value.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - see the module's docstring

    try:
        # JSON mode accepts text for dates and enums even if the model is strict.
        return _adapter(hint).validate_json(json.dumps(value))
    except ValidationError as error:
        raise _value_error(error, value) from None


def _is_field(note: object) -> "TypeGuard[FieldInfo]":
    from pydantic.fields import FieldInfo  # noqa: PLC0415 - see the module's docstring

    return isinstance(note, FieldInfo)


def _is_adapter(hint: object) -> "TypeGuard[TypeAdapter[object]]":
    from pydantic import TypeAdapter  # noqa: PLC0415 - see the module's docstring

    return isinstance(hint, TypeAdapter)


def _restricts(note: object) -> bool:
    """Return whether a note of an `Annotated` type has an effect that only pydantic knows."""
    if not type(note).__module__.partition(".")[0].startswith(_PACKAGE):
        return False
    if not _is_field(note):
        return True
    extra = note.discriminator or note.json_schema_extra
    return bool(note.metadata or extra)


# Building an adapter takes a millisecond, and conversion needs it for every value.
@functools.lru_cache(maxsize=1024)
def _adapter(hint: Any) -> "TypeAdapter[object]":
    if _is_adapter(hint):
        return hint
    from pydantic import TypeAdapter  # noqa: PLC0415 - see the module's docstring

    return TypeAdapter(hint)


def _drop_class_title(schema: JsonObject, name: str) -> None:
    """Remove a title that only repeats the name of a class."""
    title = schema.get("title")
    # pydantic prefixes the name with the module if two classes have the same name.
    if isinstance(title, str) and name.endswith(title):
        del schema["title"]


def _value_error(error: "ValidationError", value: JsonValue) -> PydanticValueError:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    faults: dict[str, list[str]] = {}
    for detail in details:
        path = _path(detail["loc"], value, is_missing=detail["type"] == "missing")
        texts = faults.setdefault(path, [])
        text = _text(detail["type"], detail["msg"])
        if text not in texts:
            texts.append(text)
    listed = [(path, " or ".join(texts)) for path, texts in faults.items()]
    other = len(details) == 1 and not details[0]["loc"] and details[0]["type"].endswith(_OTHER_TYPE)
    return PydanticValueError(listed[:_MAX_ERRORS], is_other_type=other)


def _text(kind: str, message: str) -> str:
    if kind == "missing":
        return "required, but missing"
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    is_own = message.startswith(_OWN_BEGINNINGS)
    return message[:1].lower() + message[1:] if is_own else message


def _path(location: Sequence[int | str], value: JsonValue, *, is_missing: bool) -> str:
    """Return a path in the value, without the names of types that pydantic adds for unions."""
    path = ""
    for position, step in enumerate(location):
        match value:
            case dict() if step in value:
                value = value[str(step)]
            case list() | tuple() if isinstance(step, int) and step < len(value):
                value = value[step]
            case _ if is_missing and position == len(location) - 1:
                pass
            case _:
                continue
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path
