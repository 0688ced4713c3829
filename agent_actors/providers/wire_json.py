"""JSON text of an endpoint as plain values, whatever the protocol."""

import json
from typing import cast

import msgspec

from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, JsonValue, nests_deeper


class NotJsonError(ValueError):
    """The text is not a JSON document."""


def read_json(data: str | bytes) -> JsonValue:
    """Return the JSON value of a data line or a body.

    Lone surrogates stay in the strings, because the assembler joins halves of characters that
    arrive in different deltas.

    Raises:
        NotJsonError: The text is not a JSON document, or nests deeper than `MAX_DOCUMENT_DEPTH`.
    """
    if nests_deeper(data, MAX_DOCUMENT_DEPTH):
        raise NotJsonError(f"it is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
    try:
        return cast(JsonValue, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeError):
        pass
    # `json` takes what msgspec refuses: lone surrogates, and numbers such as NaN.
    try:
        return cast(JsonValue, json.loads(data))
    except ValueError as error:
        raise NotJsonError(str(error)) from error
