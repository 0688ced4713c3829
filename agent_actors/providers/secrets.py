"""Remove an endpoint's credentials from its errors and notices.

Some endpoints and gateways repeat the key, or all headers of a request, in the body of an error.
Errors and notices reach logs, stores, terminals and other people. This module knows the credentials
of one provider and replaces them. It does not change the content of a response: whether it found a
key there would depend on how the response was split into deltas.
"""

import base64
import binascii
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from agent_actors.errors import ProviderError
from agent_actors.profiles.resolve import NO_API_KEY

REDACTED: Final = "[redacted]"

_SECRET_NAME: Final = re.compile(
    r"auth|(?<!idempotency-)key|token|secret|cookie|passw|credential|signature|\bsig\b",
    re.IGNORECASE,
)
"""Matches the names of headers and query parameters whose values are credentials."""

_SEPARATORS: Final = re.compile(r"[\s;,=]+")
_PUBLIC_PARAMETER: Final = re.compile(
    r"""(?<=[\s,])(?:algorithm|nc|qop|realm|signedheaders|uri|username)=(?:"[^"]*"|[^\s,]*)""",
    re.IGNORECASE,
)
"""Matches the parameters of the header `authorization` that are not credentials."""

_PARAMETER_NAMES: Final = frozenset({"credential", "response", "signature"})
"""The names, in lower case, of parameters of `authorization` that are credentials. The names are
ordinary words, which may occur in an error message.
"""

_MAX_LEARNED: Final = 128
"""The maximum number of credentials learned from requests. Clients replace their tokens and
cookies; the least recently sent ones are forgotten.
"""

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
        self._configured = set(_parts_of(headers, base))
        if len(key) >= _SHORTEST_KEY:
            self._configured.add(key)
        self._configured.discard(NO_API_KEY)
        self._learned: OrderedDict[str, None] = OrderedDict()
        self._index()

    def learn(self, url: str, headers: Mapping[str, str]) -> None:
        """Add the credentials of a request that a user's HTTP client has sent.

        The client may have added them itself: from its cookies, parameters, authentication or event
        hooks.
        """
        changed = False
        for part in _parts_of(headers, urlsplit(url)):
            if part not in self._configured and part != NO_API_KEY:
                changed |= part not in self._learned
                self._learned[part] = None
                self._learned.move_to_end(part)
        if changed:
            while len(self._learned) > _MAX_LEARNED:
                self._learned.popitem(last=False)
            self._index()

    def _index(self) -> None:
        # The forms in which an error may show a value.
        forms = {
            form
            for secret in (*self._configured, *self._learned)
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
            yield from (
                part for part in _parts_of_value(name, value) if len(part) >= _SHORTEST_PART
            )
        if name.lower() == "authorization":
            yield from _passwords_of(value)
    password = unquote(base.password or "")
    if len(password) >= _SHORTEST_KEY:
        yield password


def _parts_of_value(name: str, value: str) -> Iterable[str]:
    """Return the parts of a header or parameter that may be credentials."""
    if name.lower() in ("cookie", "set-cookie"):
        cookies = value.split(";")
        if name.lower() == "set-cookie":
            del cookies[1:]  # the attributes of the cookie
        return [cookie.partition("=")[2].strip('" ') for cookie in cookies]
    if name.lower() != "authorization":
        return _SEPARATORS.split(value)
    scheme, _, rest = value.partition(" ")
    parts = _SEPARATORS.split(_PUBLIC_PARAMETER.sub("", f" {rest}")) if rest else [scheme]
    return [part.strip('"') for part in parts if part.lower() not in _PARAMETER_NAMES]


def _passwords_of(value: str) -> Iterator[str]:
    """Yield the password of basic authentication, which an endpoint reads and may repeat."""
    scheme, _, encoded = value.partition(" ")
    if scheme.lower() != "basic":
        return
    try:
        password = base64.b64decode(encoded).decode(errors="replace").partition(":")[2]
    except binascii.Error:
        return
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
