"""Remove an endpoint's credentials from its errors and notices.

Some endpoints and gateways repeat the key, or all headers of a request, in the body of an error.
Errors and notices reach logs, stores, terminals and other people. This module knows the credentials
of one provider and replaces them. It does not change the content of a response: whether a key
crosses a boundary of deltas would depend on how the response was split.
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
"""Names of headers and of query parameters whose values are credentials."""

_SEPARATORS: Final = re.compile(r"[\s;,=]+")

_SHORTEST_KEY: Final = 4
"""Characters. A shorter key is a placeholder, and is a part of many words."""

_SHORTEST_PART: Final = 8
"""Characters of a part of a header that counts as secret. `Bearer` and `session` are shorter."""

_LONG: Final = 12
"""Characters. A longer secret is replaced everywhere, also if it was cut after this many: error
messages often show the beginning of a body only. A shorter one is replaced as a complete word only.
"""


class Secrets:
    """The credentials of one provider.

    Args:
        key: The API key; a placeholder is not a secret.
        headers: The headers of the requests. The values of those whose name suggests a credential
            are secrets.
        base: The base URL. Its password, and query parameters whose name suggests a credential, are
            secrets.
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
        # By their beginnings, since the forms of one secret may share it.
        self._long: dict[str, list[str]] = {}
        for secret in ordered:
            if len(secret) > _LONG:
                self._long.setdefault(secret[:_LONG], []).append(secret)
        short = "|".join(re.escape(secret) for secret in ordered if len(secret) <= _LONG)
        self._short = re.compile(rf"(?<![^\W_])(?:{short})(?![^\W_])") if short else None

    def redact(self, text: str) -> str:
        """Return the text without credentials."""
        for start, secrets in self._long.items():
            if start in text:
                text = "".join(_without(text, start, secrets))
        return text if self._short is None else self._short.sub(REDACTED, text)

    def hide(self, error: ProviderError) -> None:
        """Remove the credentials from an error and its causes: messages, attributes and notes."""
        seen: set[int] = set()
        left: list[BaseException | None] = [error]
        while left:
            one = left.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            self._hide_in(one)
            left.append(one.__cause__)
            if not one.__suppress_context__:
                left.append(one.__context__)
            if isinstance(one, BaseExceptionGroup):
                left += cast("BaseExceptionGroup[BaseException]", one).exceptions

    def _hide_in(self, error: BaseException) -> None:
        # A context may be an exception of the caller, so only values with a credential change.
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
            return {name: self._redacted(one) for name, one in named.items()}
        if isinstance(value, list):
            return [self._redacted(one) for one in cast("list[object]", value)]
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
    """Yield the text without the longest match of a secret at each place where one may begin."""
    kept = 0
    while (at := text.find(start, kept)) >= 0:
        yield text[kept:at]
        yield REDACTED
        kept = at + max(_common_length(secret, text[at : at + len(secret)]) for secret in secrets)
    yield text[kept:]


def _common_length(secret: str, text: str) -> int:
    """Return the number of characters with which both begin; `text` is not the longer one."""
    return next((at for at, letter in enumerate(text) if letter != secret[at]), len(text))
