"""Remove an endpoint's credentials from its errors and notices.

Some endpoints and gateways repeat the key, or all headers of a request, in the body of an error.
Errors and notices reach logs, stores, terminals and other people. This module knows the credentials
of one provider and replaces them. It does not change the content of a response: whether it found a
key there would depend on how the response was split into deltas.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast
from urllib.parse import SplitResult, parse_qsl, quote, unquote

from agent_actors.errors import ProviderError
from agent_actors.profiles.resolve import NO_API_KEY

REDACTED: Final = "[redacted]"

_SECRET_NAME: Final = re.compile(
    r"auth|key|token|secret|cookie|passw|credential|signature|\bsig\b", re.IGNORECASE
)
"""Matches the names of headers and query parameters whose values are credentials."""

_SEPARATORS: Final = re.compile(r"[\s;,=]+")

_SHORTEST_KEY: Final = 4
"""Characters. A shorter key is a placeholder, and could occur inside ordinary words."""

_SHORTEST_PART: Final = 8
"""Characters. The minimum length of a part of a header that is treated as secret. `Bearer` and
`session` are shorter.
"""

_LONG: Final = 12
"""Characters. A longer secret is replaced everywhere, even if it was cut off after at least this
many, because error messages often show only the beginning of a body. A shorter secret is replaced
only as a complete word.
"""


class Secrets:
    """The credentials of one provider.

    Args:
        key: The API key; a placeholder is not a secret.
        headers: The headers of the requests. If the name of a header suggests a credential, its
            value is a secret.
        base: The base URL. Its password is a secret, and so are query parameters whose names
            suggest a credential.
    """

    def __init__(self, key: str, headers: Mapping[str, str], base: SplitResult) -> None:
        found = set(_parts_of(headers, base))
        if len(key) >= _SHORTEST_KEY:
            found.add(key)
        found.discard(NO_API_KEY)
        # The forms in which an error may show a value.
        forms = {
            form
            for secret in found
            for form in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, ""))
        }
        ordered = sorted(forms, key=len, reverse=True)
        # Grouped by their beginnings, because several forms of one secret may begin in the same
        # way.
        self._long: dict[str, list[str]] = {}
        for secret in ordered:
            if len(secret) > _LONG:
                self._long.setdefault(secret[:_LONG], []).append(secret)
        short = "|".join(re.escape(secret) for secret in ordered if len(secret) <= _LONG)
        self._short = re.compile(rf"(?<![^\W_])(?:{short})(?![^\W_])") if short else None

    def redact(self, text: str) -> str:
        """Return the text with all credentials replaced."""
        for start, secrets in self._long.items():
            if start in text:
                text = "".join(_without(text, start, secrets))
        return text if self._short is None else self._short.sub(REDACTED, text)

    def hide(self, error: ProviderError) -> None:
        """Remove the credentials from an error and its causes: messages, attributes and notes."""
        seen: set[int] = set()
        left: list[BaseException | None] = [error]
        while left:
            current = left.pop()
            if current is None or id(current) in seen:
                continue
            seen.add(id(current))
            self._hide_in(current)
            left.append(current.__cause__)
            if not current.__suppress_context__:
                left.append(current.__context__)
            if isinstance(current, BaseExceptionGroup):
                left += cast("BaseExceptionGroup[BaseException]", current).exceptions

    def _hide_in(self, error: BaseException) -> None:
        # The error may be a context that belongs to the caller, so only values that contain a
        # credential are changed.
        args = tuple(self._redacted(value) for value in error.args)
        if args != error.args:
            error.args = args
        attributes = vars(error)
        for name, value in tuple(attributes.items()):
            redacted = self._redacted(value)
            if redacted is not value and redacted != value:
                attributes[name] = redacted

    def _redacted(self, value: object) -> object:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            named = cast("dict[object, object]", value)
            return {name: self._redacted(item) for name, item in named.items()}
        if isinstance(value, list):
            return [self._redacted(item) for item in cast("list[object]", value)]
        return value


def _parts_of(headers: Mapping[str, str], base: SplitResult) -> Iterator[str]:
    pairs: Iterable[tuple[str, str]] = (*headers.items(), *parse_qsl(base.query))
    for name, value in pairs:
        if _SECRET_NAME.search(name):
            # For example the scheme and the key of `authorization`, or the parts of a cookie.
            yield from (part for part in _SEPARATORS.split(value) if len(part) >= _SHORTEST_PART)
    password = unquote(base.password or "")
    if len(password) >= _SHORTEST_KEY:
        yield password


def _without(text: str, start: str, secrets: Iterable[str]) -> Iterator[str]:
    """Yield the text with each secret replaced; of several matches, the longest counts."""
    kept = 0
    while (at := text.find(start, kept)) >= 0:
        yield text[kept:at]
        yield REDACTED
        kept = at + max(_common_length(secret, text[at : at + len(secret)]) for secret in secrets)
    yield text[kept:]


def _common_length(secret: str, text: str) -> int:
    """Return the length of the common beginning; `text` is at most as long as `secret`."""
    return next((at for at, letter in enumerate(text) if letter != secret[at]), len(text))
