"""Name the API that a body came from, if it is not the requested API.

A wrong base URL or path often leads to another API of the same provider. Its response has status
200, so only the body reveals the mistake.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from agent_actors.codec.json_text import NotJsonError, read_json
from agent_actors.domain.json import JsonObject, JsonValue

_Test: TypeAlias = Callable[[JsonObject, str], bool]

SEARCHED_LINES: Final = 4
"""The number of lines without content that are searched for signs of another API."""

CHAT: Final = "a chat completion"
MESSAGES: Final = "a message of Anthropic's Messages API"

_MESSAGES_EVENTS: Final = frozenset(
    {
        "message",
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)
_BEDROCK_FIELDS: Final = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "stopReason"}
)
_EVENT_STREAM_MARKS: Final = (b":event-type", b":message-type", b":exception-type")
"""The names of headers that every message of an AWS event stream has."""

_GZIP: Final = b"\x1f"

_LINES: Final = 2
"""The number of lines that indicate a newline-delimited body."""


def api_of(value: JsonValue) -> str:
    """Name the API of a document, or of the data of an event; empty if it is unknown."""
    if isinstance(value, list):
        return next((name for item in value if (name := api_of(item))), "")
    if not isinstance(value, dict):
        return ""
    kind, made = value.get("type"), value.get("object")
    kind = kind if isinstance(kind, str) else ""
    made = made if isinstance(made, str) else ""
    return next((name for name, test in _APIS.items() if test(value, f"{made} {kind}")), "")


def api_of_text(text: str | bytes) -> str:
    """Name the API of a document or a data line; empty if unknown or if the text is not JSON."""
    try:
        return api_of(read_json(text))
    except NotJsonError:
        return ""


def name_of_document(body: bytes) -> str:
    """Name the kind of a body that begins like JSON; empty if it is unknown."""
    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) < _LINES or not all(map(_is_json, lines[:_LINES])):
        return api_of_text(body)
    found = api_of_text(lines[0])
    return "newline-delimited JSON" + (f" ({found})" if found else "")


def name_of_binary(body: bytes) -> str:
    """Name the kind of a body that is not text."""
    if any(mark in body for mark in _EVENT_STREAM_MARKS):
        return "an AWS event stream"
    return "compressed data" if body.startswith(_GZIP) else "binary data"


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(read_json(line), dict)
    except NotJsonError:
        return False


def _is_chat(value: JsonObject, kind: str) -> bool:
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return isinstance(first, dict) and ("delta" in first or "message" in first)


def _is_ollama(value: JsonObject, kind: str) -> bool:
    has_text = isinstance(value.get("message"), dict) or isinstance(value.get("response"), str)
    return has_text and isinstance(value.get("done"), bool)


def _is_messages(value: JsonObject, kind: str) -> bool:
    return kind.strip() in _MESSAGES_EVENTS


_APIS: Final[dict[str, _Test]] = {
    CHAT: _is_chat,
    "a response of OpenAI's Responses API": lambda _, kind: kind.startswith(
        ("response ", " response.")
    ),
    "a response of OpenAI's legacy Completions API": lambda _, kind: kind.startswith(
        "text_completion"
    ),
    MESSAGES: _is_messages,
    "a response of Ollama's own API": _is_ollama,
    "a response of Gemini's own API": lambda value, _: (
        isinstance(value.get("candidates"), list) or "usageMetadata" in value
    ),
    "a response of Bedrock's Converse API": lambda value, _: not _BEDROCK_FIELDS.isdisjoint(value),
    "a list, for example of models": lambda _, kind: kind.startswith("list "),
}
"""The checks that recognise the APIs, by name. A check gets the object, and its fields `object` and
`type`.
"""
