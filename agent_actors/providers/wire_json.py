"""JSON text of an endpoint as plain values, whatever the protocol."""

import json
from typing import cast

import msgspec

from agent_actors.domain.json import JsonValue


class NotJsonError(ValueError):
    """The text is not a JSON document."""


def read_json(data: str | bytes) -> JsonValue:
    """Return the JSON value of a data line or a body.

    Lone surrogates stay in the strings, because the assembler joins halves of characters that
    arrive in different deltas.

    Raises:
        NotJsonError: The text is not a JSON document.
    """
    try:
        return cast(JsonValue, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    # `json` takes what msgspec refuses: lone surrogates, and numbers such as NaN.
    try:
        return cast(JsonValue, json.loads(data))
    except (ValueError, RecursionError) as error:
        raise NotJsonError(str(error)) from error
