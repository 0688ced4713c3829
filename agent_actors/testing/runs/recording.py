"""Recorded HTTP exchanges with an endpoint: the file, its secrets, and the matching of requests."""

import base64
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, cast
from urllib.parse import urlsplit

import attrs
import msgspec

from agent_actors.domain.provenance import public_url
from agent_actors.providers.secrets import Secrets

# Other headers contain dates, ids, cookies and the names of accounts.
_KEPT_HEADERS: Final = frozenset({"content-encoding", "content-type", "retry-after"})


class RecordingMismatch(AssertionError):
    """A request is not in the recording."""


@attrs.frozen
class RecordedRequest:
    """A request without its headers, which may contain credentials.

    Attributes:
        method: The HTTP method.
        url: The URL without credentials and query.
        body: The body as JSON; as text if it is not JSON.
    """

    method: str
    url: str
    body: object


@attrs.frozen
class RecordedResponse:
    """A response.

    Attributes:
        status: The HTTP status.
        headers: The headers that matter for decoding the body and for retries.
        body: The lines of the body, or the body in Base64 if it is not text.
        broken: True if the connection broke before the end of the body.
    """

    status: int
    headers: Mapping[str, str]
    body: tuple[str, ...] | str
    broken: bool = False

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        if isinstance(self.body, str):
            return base64.b64decode(self.body)
        return "".join(self.body).encode()


@attrs.frozen
class Exchange:
    """A request and its response."""

    request: RecordedRequest
    response: RecordedResponse


@attrs.frozen
class _Document:
    """The content of a file."""

    exchanges: tuple[Exchange, ...]
    version: Literal[1] = 1


class Recording:
    """The exchanges of one file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._exchanges: list[Exchange] = []
        self._secrets = Secrets("", {}, urlsplit(""))

    def load(self) -> None:
        """Read the file.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: The file is not a recording.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"the recording {self._path} does not exist; make it with live=True, "
                "or with pytest --record-traffic"
            ) from None
        try:
            self._exchanges = [*msgspec.json.decode(data, type=_Document).exchanges]
        except msgspec.DecodeError as error:
            raise ValueError(
                f"{self._path} is not a recording: {error}; record it again"
            ) from error

    def save(self) -> None:
        """Write the file, without credentials."""
        document = _Document(tuple(map(self._redacted, self._exchanges)))
        text = msgspec.json.format(msgspec.json.encode(document), indent=1).decode()
        text = self._secrets.redact(text)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        draft.write_text(f"{text}\n", encoding="utf-8")
        draft.replace(self._path)

    def learn(self, url: str, headers: Mapping[str, str]) -> None:
        """Note the credentials of a request or a response, which no file may contain."""
        self._secrets.learn(url, headers)

    def request(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes
    ) -> RecordedRequest:
        """Return a request as it is recorded and compared."""
        self.learn(url, headers)
        text = self._secrets.redact(content.decode(errors="replace"))
        body: object = text
        with contextlib.suppress(msgspec.DecodeError):
            body = msgspec.json.decode(text)
        return RecordedRequest(method, public_url(url), body)

    def add(self, exchange: Exchange) -> None:
        """Add an exchange."""
        self._exchanges.append(exchange)

    def take(self, request: RecordedRequest) -> RecordedResponse:
        """Return the response to a request; each recorded response is returned once.

        Raises:
            RecordingMismatch: The recording has no such request, or its response was used.
        """
        for place, exchange in enumerate(self._exchanges):
            if exchange.request == request:
                return self._exchanges.pop(place).response
        if not self._exchanges:
            problem = "all its responses have been used"
        else:
            expected = self._exchanges[0].request
            differences = _differences(_values(expected), _values(request), "")
            problem = f"it differs from the next recorded one: {next(differences)}"
        raise RecordingMismatch(
            f"{self._path} has no response to this request, because {problem}; "
            "if the change is intended, record it again"
        )

    def _redacted(self, exchange: Exchange) -> Exchange:
        # Before the lines become JSON strings, in which a credential has another form.
        response = exchange.response
        if isinstance(response.body, str):
            return exchange
        body = tuple(map(self._secrets.redact, response.body))
        return attrs.evolve(exchange, response=attrs.evolve(response, body=body))


def response_of(
    status: int, headers: Mapping[str, str], content: bytes, *, broken: bool
) -> RecordedResponse:
    """Return a response as it is recorded; the names of the headers are in lower case."""
    kept = {name: value for name, value in headers.items() if name in _KEPT_HEADERS}
    return RecordedResponse(status, kept, _body_of(content), broken)


def _body_of(content: bytes) -> tuple[str, ...] | str:
    with contextlib.suppress(UnicodeDecodeError):
        # Not `splitlines`, which also splits at other characters.
        return tuple(f"{line}\n" for line in content.decode().split("\n"))[:-1] + _rest(content)
    return base64.b64encode(content).decode()


def _rest(content: bytes) -> tuple[str, ...]:
    rest = content.rpartition(b"\n")[2].decode()
    return (rest,) if rest else ()


def _values(request: RecordedRequest) -> dict[str, object]:
    return {"method": request.method, "url": request.url, "body": request.body}


def _differences(recorded: object, sent: object, place: str) -> Iterator[str]:
    """Yield the differences of two values, with their places."""
    if isinstance(recorded, dict) and isinstance(sent, dict):
        first, second = cast("dict[str, object]", recorded), cast("dict[str, object]", sent)
        for name in {**first, **second}:
            yield from _differences(
                first.get(name, "(missing)"), second.get(name, "(missing)"), f"{place}.{name}"
            )
    elif isinstance(recorded, list) and isinstance(sent, list):
        first_items = cast("list[object]", recorded)
        second_items = cast("list[object]", sent)
        for number, (one, other) in enumerate(zip(first_items, second_items, strict=False)):
            yield from _differences(one, other, f"{place}[{number}]")
        if len(first_items) != len(second_items):
            yield f"{place[1:]} has {len(second_items)} items, recorded: {len(first_items)}"
    elif recorded != sent:
        yield f"{place[1:]} is {sent!r:.200}, recorded: {recorded!r:.200}"
