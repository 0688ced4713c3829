"""Strict conversion of JSON arguments to annotated types; errors name the path of the value.

No conversion is implicit: "3" is not an int, and 1 is not a bool. As in JSON Schema, an int is
accepted as a float, and a float without a fraction as an int. In a union, a member with the value's
exact type is used first, then the first member that accepts the value. If no member accepts it, the
error lists why the members of a similar type rejected the value. Classes accept no unknown fields.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, Literal, cast, get_args, get_origin, is_typeddict

import attrs
import cattrs
from cattrs import cols

from agent_actors.codec.hints import is_union
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ToolArgumentsError
from agent_actors.schema.pydantic_types import (
    PydanticValueError,
    is_pydantic,
    structure_pydantic,
)
from agent_actors.schema.type_hints import Parameter, is_namedtuple, type_name

# Maximum number of characters of a value in an error: enough to recognize the value, and too few to
# fill a model's context.
_SHOWN_CHARACTERS: Final = 80

_JSON_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
    tuple: "array",
}


def structure_arguments(
    parameters: Iterable[Parameter], arguments: JsonObject, *, tool: str
) -> dict[str, Any]:
    """Convert the arguments to the parameters' types, omitting absent arguments.

    Raises:
        ToolArgumentsError: A field is invalid, missing or unknown. The message names the field.
    """
    unknown = dict(arguments)
    structured: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name in unknown:
            value = unknown.pop(parameter.name)
            structured[parameter.argument or parameter.name] = _structured(value, parameter, tool)
        elif parameter.required:
            raise ToolArgumentsError(
                f"field {parameter.name}: required, but missing", tool=tool, field=parameter.name
            )
        elif parameter.factory is not None:
            structured[parameter.argument or parameter.name] = parameter.factory()
    for name in unknown:
        raise ToolArgumentsError(f"field {name:.80}: unknown", tool=tool, field=name)
    return structured


def structure_value(value: JsonValue, hint: Any, *, tool: str, path: str = "") -> Any:
    """Convert a JSON value to the type of a hint.

    Args:
        value: The value. It is not changed; the result may share parts with it.
        hint: The type, which `hint_schema` must support.
        tool: The tool's name, for the error.
        path: The value's path; empty at the root.

    Raises:
        ToolArgumentsError: A field is invalid. The message names the field.
    """
    try:
        return _CONVERTER.structure(value, hint)
    except Exception as error:  # noqa: BLE001 - validators of users may raise anything
        faults = [(field.removeprefix("."), fault) for field, fault in _faults(error, path)]
        message = "; ".join(
            f"field {field}: {fault}" if field else fault for field, fault in faults
        )
        raise ToolArgumentsError(message, tool=tool, field=faults[0][0]) from None


def _structured(value: JsonValue, parameter: Parameter, tool: str) -> Any:
    return structure_value(value, parameter.hint, tool=tool, path=parameter.name)


def _faults(error: BaseException, path: str) -> list[tuple[str, str]]:
    """Return the path and text of the first error, which cattrs nests in groups with notes.

    pydantic lists all errors of a value, so there may be several.
    """
    is_field = False
    while isinstance(error, cattrs.BaseValidationError):
        is_field = False
        error = error.exceptions[0]
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, cattrs.AttributeValidationNote):
                path = f"{path}.{note.name}"
                is_field = True
            elif isinstance(note, cattrs.IterableValidationNote):
                index = note.index  # a key, for an object
                path += f"[{index}]" if isinstance(index, int) else f".{index}"
    if isinstance(error, KeyError):
        # A `KeyError` without a note that names a field comes from a user's validator.
        return [(path, "required, but missing" if is_field else f"KeyError: {error}")]
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        return [(path, f"unknown fields: {', '.join(sorted(error.extra_fields))}")]
    if isinstance(error, PydanticValueError):
        return [(path + field, fault) for field, fault in error.faults]
    return [(path, str(error) or type(error).__name__)]


def describe_value(value: object) -> str:
    """Return the JSON type of a value, followed by the value itself if it is short."""
    name = _JSON_NAMES.get(type(value), type(value).__name__)
    if isinstance(value, dict | list | tuple) or value is None:
        return name
    shown = repr(value)
    return f"{name} {shown}" if len(shown) <= _SHOWN_CHARACTERS else name


class _OtherTypeError(TypeError):
    """The value does not have the type at all, so its content was not examined."""


def _misfit(hint: Any, value: object) -> _OtherTypeError:
    return _OtherTypeError(f"expected {type_name(hint)}, got {describe_value(value)}")


def _exactly(kind: type) -> Callable[[Any, Any], Any]:
    def hook(value: Any, hint: Any) -> Any:
        if type(value) is not kind:
            raise _misfit(hint, value)
        return value

    return hook


def _int(value: Any, hint: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise _misfit(hint, value)


def _float(value: Any, hint: Any) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise _misfit(hint, value)


def _or_enum(kind: type, hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a hook for exactly this type, because cattrs also uses it for StrEnum and IntEnum."""
    return lambda value, hint: hook(value, hint) if hint is kind else _enum(value, hint)


def _anything(value: Any, _hint: Any) -> Any:
    return value


def _literal(value: Any, hint: Any) -> Any:
    for option in get_args(hint):
        plain = option.value if isinstance(option, Enum) else option
        if plain == value and type(plain) is type(value):
            return option
    raise _not_listed(get_args(hint), value)


def _enum(value: Any, hint: Any) -> Any:
    for member in hint:
        if member.value == value and type(member.value) is type(value):
            return member
    raise _not_listed(hint, value)


def _not_listed(listed: Iterable[object], value: object) -> Exception:
    options = [getattr(option, "value", option) for option in listed]
    text = f"expected one of {', '.join(map(repr, options))}, got {describe_value(value)}"
    # In a union, the error should not mention this list if the value has another type.
    return ValueError(text) if type(value) in map(type, options) else _OtherTypeError(text)


def _union(value: Any, hint: Any) -> Any:
    members = get_args(hint)
    if type(value) in members:
        return value
    reasons: list[tuple[Any, Exception]] = []
    for member in members:
        try:
            return _CONVERTER.structure(value, member)
        except _OtherTypeError:
            continue
        except Exception as error:  # noqa: BLE001 - validators of users may raise anything
            reasons.append((member, error))
    if len(reasons) == 1:
        raise reasons[0][1]
    names = " or ".join(type_name(member) for member in members)
    if not reasons:
        raise _OtherTypeError(f"expected {names}, got {describe_value(value)}")
    listed = "; ".join(f"not {type_name(member)}: {_reason(error)}" for member, error in reasons)
    raise ValueError(f"expected {names}, got {describe_value(value)} ({listed})")


def _reason(error: Exception) -> str:
    faults = ((path.removeprefix("."), fault) for path, fault in _faults(error, ""))
    return ", ".join(f"{path}: {fault}" if path else fault for path, fault in faults)


def _class_hook(hint: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    made = cast(Any, converter)  # parts of its methods have no types
    generate = (
        made.gen_structure_typeddict if is_typeddict(hint) else made.gen_structure_attrs_fromdict
    )
    inner: Callable[[Any, Any], Any] = generate(hint)

    def hook(value: Any, hint: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(hint, value)
        return inner(value, hint)

    return hook


def _pydantic(value: Any, hint: Any) -> object:
    try:
        return structure_pydantic(value, hint)
    except PydanticValueError as error:
        if error.is_other_type:
            raise _OtherTypeError(error.faults[0][1]) from None
        raise


def _namedtuple_hook(hint: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    # The last two arguments: detailed validation, and no extra keys.
    inner = cast(Any, cols).namedtuple_dict_structure_factory(hint, converter, True, True)

    def hook(value: Any, hint: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(hint, value)
        return inner(value, hint)

    return hook


def _array(factory: Callable[[Any, cattrs.Converter], Callable[[Any, Any], Any]]) -> Any:
    """Return a factory of hooks that accept only arrays: text is not a list of characters."""

    def strict_factory(hint: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
        inner = factory(hint, converter)

        def hook(value: Any, hint: Any) -> Any:
            if not isinstance(value, list | tuple):
                raise _misfit(hint, value)
            return inner(value, hint)

        return hook

    return strict_factory


def _list_hook(hint: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    return cols.list_structure_factory(_generic(list, _item(hint)), converter)


def _set_hook(hint: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    as_list = _list_hook(hint, converter)
    collect: Any = frozenset if hint is frozenset or get_origin(hint) is frozenset else set

    def hook(value: Any, _hint: Any) -> Any:
        items = as_list(value, list)
        try:
            return collect(items)
        except TypeError:  # the interpreter's own message differs between versions
            raise TypeError("the items of a set must be hashable, but one is not") from None

    return hook


def _tuple_hook(hint: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    arguments = get_args(hint)
    if hint != tuple[()] and (not arguments or arguments[-1] is Ellipsis):
        return cols.homogenous_tuple_structure_factory(
            _generic(tuple, (_item(hint), ...)), converter
        )

    def hook(value: Any, hint: Any) -> Any:
        if len(value) != len(arguments):
            raise ValueError(f"expected {len(arguments)} items, got {len(value)}")
        return tuple(
            _structured_item(item, kind, number)
            for number, (item, kind) in enumerate(zip(value, arguments, strict=True))
        )

    return hook


def _structured_item(value: Any, hint: Any, number: int) -> Any:
    try:
        return _CONVERTER.structure(value, hint)
    except Exception as error:  # noqa: BLE001 - validators of users may raise anything
        text = f"item {number}"
        error.add_note(cast(Any, cattrs).IterableValidationNote(text, number, hint))
        raise cast(Any, cattrs).IterableValidationError(text, [error], tuple) from None


def _generic(origin: Any, arguments: Any) -> Any:
    return origin[arguments]


def _item(hint: Any) -> Any:
    return (*get_args(hint), Any)[0]


def _dict_hook(hint: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    values = (*get_args(hint), Any, Any)[1]
    inner = cast(Any, cols).mapping_structure_factory(_generic(dict, (str, values)), converter)

    def hook(value: Any, hint: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(hint, value)
        return inner(value, hint)

    return hook


def _is(*kinds: Any) -> Callable[[Any], bool]:
    """Return a predicate for exactly these types: an IntEnum does not count as an int."""
    return lambda hint: (get_origin(hint) or hint) in kinds


def _is_class(hint: Any) -> bool:
    return attrs.has(hint) or dataclasses.is_dataclass(hint) or is_typeddict(hint)


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, use_alias=True, detailed_validation=True)
    # Registered by class, like cattrs' own hooks for these types, because hooks registered by class
    # take precedence over predicates.
    converter.register_structure_hook(str, _or_enum(str, _exactly(str)))
    converter.register_structure_hook(int, _or_enum(int, _int))
    converter.register_structure_hook(float, _or_enum(float, _float))
    converter.register_structure_hook(bool, _exactly(bool))
    converter.register_structure_hook_func(_is(None, type(None)), _exactly(type(None)))
    converter.register_structure_hook_func(_is(object, Any), _anything)
    converter.register_structure_hook_func(_is(Literal), _literal)
    converter.register_structure_hook_func(
        lambda hint: isinstance(hint, type) and issubclass(hint, Enum), _enum
    )
    converter.register_structure_hook_factory(_is_class, _class_hook)
    converter.register_structure_hook_func(is_union, _union)
    converter.register_structure_hook_factory(_is(list), _array(_list_hook))
    converter.register_structure_hook_factory(_is(set, frozenset), _array(_set_hook))
    converter.register_structure_hook_factory(_is(tuple), _array(_tuple_hook))
    converter.register_structure_hook_factory(_is(dict), _dict_hook)
    converter.register_structure_hook_factory(is_namedtuple, _namedtuple_hook)
    # Registered last, because pydantic's own dataclasses are dataclasses too.
    converter.register_structure_hook_func(is_pydantic, _pydantic)
    return converter


_CONVERTER: Final = _converter()
