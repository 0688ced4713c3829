"""Errors that endpoints report, in the body of a failed response or inside a response."""

import re
from typing import Final

from agent_actors.codec.json_text import NotJsonError, read_json
from agent_actors.domain.json import JsonValue
from agent_actors.errors import ProviderInBandError, ProviderStatusError
from agent_actors.protocol.response.text import mend_surrogates

_MESSAGE_KEYS: Final = ("message", "detail", "error", "error_message", "msg", "title")
_ENVELOPE: Final = "error"
"""The type of the object around an error; this type does not describe the error."""

_SHOWN: Final = 500
"""The number of characters of a body, or of a failed generation, that an error shows."""

_DEEPEST: Final = 16
"""The number of levels of nested errors that are searched. Each gateway adds one level."""

_SCANNED: Final = 16 * 1024
"""The number of characters of a page that are searched. Some patterns take quadratic time."""

# The wording differs between endpoints: "does not support tools", "tools param requires --jinja".
_TOOLS: Final = re.compile(r"\btools?\b|\bfunction[ _-]?call", re.IGNORECASE)
_REFUSED: Final = re.compile(
    r"\b(?:not? (?:\w+ )?(?:support|allow|permit)|unsupported|requires? --|unrecogni[sz]ed|unknown)"
    r"|\bthat support\b",
    re.IGNORECASE,
)
_CALLERS: Final = frozenset({400, 404, 405, 422, 500, 501})
"""The status codes with which endpoints refuse a request because of its content."""

_TEXT_ONLY_HINT: Final = (
    "if this model does not support tools, pass no tools, or set "
    'refuses={"tools"} in the ChatDialect of its profile to send only text'
)

_HTML_TITLE: Final = re.compile(r"<title[^<>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_HTML_HIDDEN: Final = re.compile(r"<(script|style)\b.*?</\1>", re.IGNORECASE | re.DOTALL)
_HTML_TAG: Final = re.compile(r"<[^<>]*>")


def message_of(error: JsonValue, depth: int = _DEEPEST) -> str:
    """Return the message in an error of any form, at most `depth` levels deep; else empty."""
    if isinstance(error, str):
        return error.strip()
    if not depth:
        return ""
    if isinstance(error, list):
        return "; ".join(filter(None, (message_of(item, depth - 1) for item in error)))
    if not isinstance(error, dict):
        return ""
    inner = (message_of(error.get(key), depth - 1) for key in _MESSAGE_KEYS)
    message = next(filter(None, inner), "")
    failed = error.get("failed_generation")
    if isinstance(failed, str) and failed:
        message = f"{message} (the model wrote: {failed[:_SHOWN]})"
    return message


def code_of(error: JsonValue, depth: int = _DEEPEST) -> str:
    """Return the endpoint's own error code as text, at most `depth` levels deep; else empty."""
    if isinstance(error, dict) and depth:
        for key in ("code", "status", "type"):
            value = error.get(key)
            if isinstance(value, bool) or value in ("", _ENVELOPE):
                continue
            if isinstance(value, str | int):
                return str(value)
        return code_of(error.get("error"), depth - 1)
    return ""


def message_of_body(body: bytes) -> str:
    """Return the error message in the body of a failed response: JSON, HTML or plain text."""
    text = body.decode("utf-8", "replace").strip()
    if looks_like_html(text):
        return _text_of_page(text)
    if text.startswith(("{", "[", '"')):
        try:
            return mend_surrogates(message_of(read_json(text))) or text[:_SHOWN]
        except NotJsonError:
            pass
    return text[:_SHOWN]


def in_band_error(
    error: JsonValue, *, endpoint: str, code: str, text: str = ""
) -> ProviderInBandError:
    """Return the exception for an error inside a response that began successfully.

    Args:
        error: The error, in any form.
        endpoint: The name of the endpoint in error messages.
        code: The endpoint's own error code; empty if there is none.
        text: The text to show if the error has no message.
    """
    return ProviderInBandError(
        mend_surrogates(message_of(error))
        or text
        or "the endpoint reported an error without a message",
        endpoint=endpoint,
        code=mend_surrogates(code),
    )


def parse_error(data: str) -> JsonValue:
    """Return the error that an event or an error line reports, in JSON or plain text."""
    try:
        return read_json(data)
    except NotJsonError:
        return data


def explain_refused_tools(error: ProviderStatusError) -> None:
    """Add a hint to the failure if the likely cause is that tools are not supported."""
    text = error.body_message
    if error.status in _CALLERS and _TOOLS.search(text) and _REFUSED.search(text):
        error.add_hint(_TEXT_ONLY_HINT)


def looks_like_html(text: str) -> bool:
    """Return whether the text is the beginning of an HTML page, not of events or JSON."""
    return text.lstrip().startswith("<")


def _text_of_page(page: str) -> str:
    page = page[:_SCANNED]
    title = _HTML_TITLE.search(page)
    visible = title.group(1) if title else _HTML_TAG.sub(" ", _HTML_HIDDEN.sub(" ", page))
    return " ".join(visible.split())[:_SHOWN]
