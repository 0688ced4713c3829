"""Read and write the JSON text of requests and responses."""

import json
from typing import cast

import msgspec

from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, JsonValue, nests_deeper
from agent_actors.protocol.response.text import mend_json


class NotJsonError(ValueError):
    """The text is not a JSON document."""


def read_json(data: str | bytes) -> JsonValue:
    """Return the JSON value of a data line or a body.

    Lone surrogates stay in the strings, because the assembler joins split characters whose halves
    arrive in different deltas.

    Raises:
        NotJsonError: The text is not a JSON document, or is nested deeper than
            `MAX_DOCUMENT_DEPTH`.
    """
    check_depth(data)
    try:
        return cast(JsonValue, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeError):
        pass
    # `json` accepts what msgspec rejects: lone surrogates, and numbers such as NaN.
    try:
        return cast(JsonValue, json.loads(data))
    except ValueError as error:
        raise NotJsonError(str(error)) from error


def check_depth(data: str | bytes) -> None:
    """Check the nesting of a line before it is parsed.

    Raises:
        NotJsonError: The line is nested deeper than `MAX_DOCUMENT_DEPTH`.
    """
    if nests_deeper(data, MAX_DOCUMENT_DEPTH):
        raise NotJsonError(f"it is nested more than {MAX_DOCUMENT_DEPTH} levels deep")


def write_json(value: object) -> bytes:
    """Return the value as JSON text; lone surrogates are replaced."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(mend_json(cast(JsonValue, value)))
