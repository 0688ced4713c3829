r"""Parse the argument text of a tool call into a JSON object, or into the reason why it is invalid.

This module defines what argument text means. It does not know slots, streams or tools. Text that
does not parse completely becomes `BadArguments`, which no tool ever receives. Such text is repaired
only if the caller requests it. Several habits of endpoints are corrected in valid arguments:

- empty text, whitespace and `null` mean no arguments;
- an object inside a JSON string (`"\"{…}\""`) is unwrapped;
- consecutive objects are split. An empty object next to others and an exact repeat are ignored.
  Each remaining object is a separate call.
"""

import json
import math
from collections.abc import Mapping
from typing import Final, Never, TypeAlias, cast

import attrs
import msgspec

from agent_actors.domain.json import MAX_DEPTH, JsonObject, JsonValue, nests_deeper
from agent_actors.protocol.response.json_repair import repair_object
from agent_actors.protocol.response.text import mend_json, mend_surrogates

_MAX_WRAPPINGS: Final = 3
"""The maximum number of nested JSON strings around an object. Two levels have been seen; more
cannot be accidental.
"""


@attrs.frozen
class GoodArguments:
    """Arguments that can be passed to a tool.

    Attributes:
        input: The arguments as an object.
        raw: The text of the object as received; empty if the received text is not exactly this
            object.
        repaired: True if the text was not valid JSON, and `input` is its most likely meaning.
    """

    input: JsonObject
    raw: str = ""
    repaired: bool = False


@attrs.frozen
class BadArguments:
    """Arguments that cannot be passed to a tool.

    Attributes:
        error: The reason, worded for both the user and the model.
        raw: The text as received.
    """

    error: str
    raw: str


ParsedArguments: TypeAlias = GoodArguments | BadArguments


def parse_arguments(text: str, *, lenient: bool = False) -> tuple[ParsedArguments, ...]:
    """Parse the arguments of one call. Several results mean that the text contained several calls.

    Args:
        text: The text as received.
        lenient: True to repair text that is almost valid JSON; see `json_repair`.
    """
    text = mend_surrogates(text)
    found = _parse(text, _MAX_WRAPPINGS)
    if lenient and any(isinstance(parsed, BadArguments) for parsed in found):
        repaired = repair_object(text)
        if repaired is not None:
            return (GoodArguments(repaired, text, repaired=True),)
    return found


def is_complete_object(text: str) -> bool:
    """Return whether the text is one or more complete JSON objects, possibly in a string."""
    return text.rstrip().endswith(("}", '"')) and all(
        isinstance(parsed, GoodArguments) for parsed in parse_arguments(text)
    )


def dump_object(value: Mapping[str, JsonValue]) -> str:
    """Return the object as JSON text."""
    return json.dumps(value, ensure_ascii=False)


def _parse(text: str, wrappings: int) -> tuple[ParsedArguments, ...]:
    if text.strip() in {"", "null"}:
        return (GoodArguments({}),)
    if nests_deeper(text, MAX_DEPTH):
        return (BadArguments(f"the arguments are nested more than {MAX_DEPTH} levels deep", text),)
    try:
        value = cast(JsonValue, msgspec.json.decode(text))
    except msgspec.DecodeError:
        return _parse_slowly(text)
    if isinstance(value, dict):
        return (GoodArguments(value, text),)
    if isinstance(value, str) and wrappings:
        inner = _parse(value, wrappings - 1)
        if all(isinstance(parsed, GoodArguments) for parsed in inner):
            return inner
    return (BadArguments(f"the arguments must be a JSON object, not {_kind(value)}", text),)


def _parse_slowly(text: str) -> tuple[ParsedArguments, ...]:
    """Parse text that the strict parser rejected: consecutive objects or lone surrogates."""
    found: list[GoodArguments] = []
    start = _skip_blanks(text, 0)
    while start < len(text):
        try:
            value, end = cast(tuple[JsonValue, int], _DECODER.raw_decode(text, start))
            mended = mend_json(value)
        except ValueError as error:
            # An empty object before an incomplete one is ignored; it is not a call to execute.
            nonempty = (
                [item for item in _distinct(found) if item.input] if text[start] == "{" else []
            )
            return (*nonempty, BadArguments(_why(error), text[start:] if nonempty else text))
        if not isinstance(mended, dict):
            return (
                BadArguments(f"the arguments must contain only JSON objects; got {text}", text),
            )
        found.append(GoodArguments(mended, text[start:end] if mended == value else ""))
        start = _skip_blanks(text, end)
    return tuple(_distinct(found))


def _distinct(found: list[GoodArguments]) -> list[GoodArguments]:
    """Remove repeated objects, and empty objects next to others."""
    kept: dict[str, GoodArguments] = {}
    for arguments in found:
        if arguments.input:
            kept.setdefault(json.dumps(arguments.input, sort_keys=True), arguments)
    return list(kept.values()) or found[:1]


def _skip_blanks(text: str, start: int) -> int:
    while start < len(text) and text[start] in " \t\r\n":
        start += 1
    return start


def _kind(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else "an array"


def _why(error: ValueError) -> str:
    return f"the arguments are not valid JSON: {error}"


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is out of range")
    return number


# As strict as the fast parser, except that lone surrogates are accepted and then replaced.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
