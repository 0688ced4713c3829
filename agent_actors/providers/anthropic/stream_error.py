"""Errors that an endpoint reports inside a response that began successfully."""

from typing import Final, cast

from agent_actors.domain.json import JsonValue
from agent_actors.errors import ProviderInBandError
from agent_actors.providers.error_body import in_band_error, parse_error
from agent_actors.providers.wire_json import WireObject

_ENVELOPE: Final = "error"
"""The type of the object around an error; this type does not describe the error."""


def in_band(error: object, *, endpoint: str) -> ProviderInBandError:
    """Return the exception for an error that an endpoint reported in its own format.

    Args:
        error: `{"type": "error", "error": {"type": …, "message": …}}`, or the inner object.
        endpoint: The name of the endpoint in error messages.

    Returns:
        An exception with the endpoint's error type as its code, for example `overloaded_error`.
    """
    return in_band_error(cast(JsonValue, error), endpoint=endpoint, code=_code_of(error))


def in_band_text(data: str, *, endpoint: str) -> ProviderInBandError:
    """Return the exception for the data of an `error` event, in JSON or plain text."""
    return in_band(parse_error(data), endpoint=endpoint)


_DEEPEST: Final = 16
"""The number of levels of nested errors that are searched. Each gateway adds one level."""


def _code_of(error: object, depth: int = _DEEPEST) -> str:
    """Return the innermost type or code, at most `depth` levels deep; empty if there is none."""
    if not isinstance(error, dict) or not depth:
        return ""
    found = cast(WireObject, error)
    inner = _code_of(found.get("error"), depth - 1)
    if inner:
        return inner
    for key in ("type", "code", "status"):
        value = found.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != _ENVELOPE:
            return str(value)
    return ""
