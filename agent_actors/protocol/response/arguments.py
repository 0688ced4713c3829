r"""Arguments of a tool call: from the text that came to one JSON object, or to why there is none.

Owns the meaning of argument text, and knows nothing of slots, streams or tools. What does not parse
whole becomes `BadArguments`, which no tool ever sees, and is never guessed at unless the caller
asked for that. What endpoints do to
well-formed arguments is undone:

- nothing, blanks and `null` mean no arguments;
- an object inside a JSON string (`"\"{…}\""`) is taken out of it;
- objects one after another are told apart at their boundaries: an empty one beside others, and an
  exact repeat, are noise; what remains are calls of their own.
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
"""How many JSON strings an object may be wrapped in: two were seen, more is no accident."""


@attrs.frozen
class GoodArguments:
    """Arguments that can be handed to a tool.

    Attributes:
        input: The object.
        raw: Its text as it came; empty where no text came that says exactly this.
        repaired: True if the text was no JSON, and `input` is what it most likely means.
    """

    input: JsonObject
    raw: str = ""
    repaired: bool = False


@attrs.frozen
class BadArguments:
    """Arguments that can not.

    Attributes:
        error: What is wrong, for a person and for the model.
        raw: The text as it came.
    """

    error: str
    raw: str


ParsedArguments: TypeAlias = GoodArguments | BadArguments


def parse_arguments(text: str, *, lenient: bool = False) -> tuple[ParsedArguments, ...]:
    """Parse the arguments of one call; more than one result means that several calls were in it.

    Args:
        text: The text as it came.
        lenient: Whether text that is nearly JSON is read as what it means; see `lenient`.
    """
    text = mend_surrogates(text)
    found = _parse(text, _MAX_WRAPPINGS)
    if lenient and any(isinstance(parsed, BadArguments) for parsed in found):
        repaired = repair_object(text)
        if repaired is not None:
            return (GoodArguments(repaired, text, repaired=True),)
    return found


def is_complete_object(text: str) -> bool:
    """True if the text is one or more whole JSON objects, or a string that holds such."""
    return text.rstrip().endswith(("}", '"')) and all(
        isinstance(parsed, GoodArguments) for parsed in parse_arguments(text)
    )


def dump_object(value: Mapping[str, JsonValue]) -> str:
    """The object as JSON text."""
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
    return (BadArguments(f"expected a JSON object of arguments, got {_kind(value)}", text),)


def _parse_slowly(text: str) -> tuple[ParsedArguments, ...]:
    """What the strict parser refused: objects in a row, and escapes of lone surrogates."""
    found: list[GoodArguments] = []
    start = _skip_blanks(text, 0)
    while start < len(text):
        try:
            value, end = cast(tuple[JsonValue, int], _DECODER.raw_decode(text, start))
            mended = mend_json(value)
        except ValueError as error:
            # An empty object before one that is not whole is noise, and no call that runs.
            whole = [one for one in _distinct(found) if one.input] if text[start] == "{" else []
            return (*whole, BadArguments(_why(error), text[start:] if whole else text))
        if not isinstance(mended, dict):
            return (BadArguments(f"expected one JSON object of arguments, got more: {text}", text),)
        found.append(GoodArguments(mended, text[start:end] if mended == value else ""))
        start = _skip_blanks(text, end)
    return tuple(_distinct(found))


def _distinct(found: list[GoodArguments]) -> list[GoodArguments]:
    """Without empty objects beside others, and without repeats."""
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
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is out of range")
    return number


# Strict as the fast parser is, but for lone surrogates, which it lets through to be mended.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
