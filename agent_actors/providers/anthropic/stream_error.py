"""What an endpoint tells of its own failure inside an answer that began well."""

from typing import Final, cast

from agent_actors.domain.json import JsonValue
from agent_actors.errors import ProviderInBandError
from agent_actors.providers.anthropic.wire import WireObject
from agent_actors.providers.error_body import message_of
from agent_actors.providers.wire_json import NotJsonError, read_json

_ENVELOPE: Final = "error"
"""The type of the object around an error; it says nothing of what happened."""


def in_band(error: object, *, endpoint: str) -> ProviderInBandError:
    """The error to raise for what an endpoint told, in its own form.

    Args:
        error: `{"type": "error", "error": {"type": …, "message": …}}`, or what is in it.
        endpoint: What errors call the endpoint.

    Returns:
        An error whose code is the endpoint's type of it, such as `overloaded_error`.
    """
    value = cast(JsonValue, error)
    return ProviderInBandError(
        message_of(value) or "the endpoint told of an error without a message",
        endpoint=endpoint,
        code=_code_of(error),
    )


def in_band_text(data: str, *, endpoint: str) -> ProviderInBandError:
    """The same, for the data of an event that is called an error, in JSON or in words."""
    try:
        return in_band(read_json(data), endpoint=endpoint)
    except NotJsonError:
        return in_band(data, endpoint=endpoint)


_DEEPEST: Final = 16
"""Levels of an error that are searched. Gateways wrap what others said, each once."""


def _code_of(error: object, depth: int = _DEEPEST) -> str:
    """The innermost type or code, so many levels deep at most; empty if there is none."""
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
