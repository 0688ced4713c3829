"""A model behind an endpoint that speaks OpenAI's chat completions.

Owns the request to one endpoint and the errors that name it. It keeps no state between calls, so
any number may be under way at once. How a request is put stands in `encode`, how an answer is read
in `answer`, HTTP behind `ByteExchange`.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from agent_actors.abc import ByteExchange, ExchangeStatistics, HttpRequest, ModelSink
from agent_actors.domain.model import ModelFinished, ModelRequest
from agent_actors.errors import (
    ConfigError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
)
from agent_actors.providers.openai.answer import AnswerReader
from agent_actors.providers.openai.encode import encode_request
from agent_actors.providers.openai.failure import message_of_body
from agent_actors.providers.sinks import DroppingSink
from agent_actors.transport.default import make_exchange
from agent_actors.transport.pool import DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_CONNECTIONS

_PATH: Final = "/chat/completions"
_MAX_ERROR_BODY: Final = 64 * 1024
"""Bytes of a failure's body that are read: its message stands at the beginning."""


class OpenAIChat:
    """`ModelProvider` for OpenAI-compatible endpoints. Works without a runtime too.

    Always streams, whatever the caller wants to see of it.

    Args:
        base_url: Such as `http://localhost:1234/v1`; `/chat/completions` is added. A query stays.
        api_key: Sent as `Authorization: Bearer …`; empty: not sent. Local endpoints need none, and
            take the default.
        api_key_header: The name of a header that gets the bare key instead.
        headers: Further headers; they win over those made here.
        exchange: What to send by; without one, one is made, and closed by `aclose`.
        connect_timeout: Seconds to connect in, for the exchange made here.
        max_connections: Requests under way at once, for the exchange made here.
        include_usage: Whether to ask for token counts; a few endpoints refuse the question.
        echo_reasoning: Whether to send thoughts back as `reasoning_content`; a few endpoints demand
            it between tool calls, others refuse it.
        cumulative: True if the endpoint is known to repeat all the text in each chunk; without it
            this is recognised from long texts only.

    Raises:
        ConfigError: The URL is not http(s), or a header is not printable ASCII.

    Example:
        ```python
        model = OpenAIChat(base_url="http://localhost:1234/v1")
        answer = await model.complete(ModelRequest(Messages().user("Hello"), ModelSettings("qwen")))
        ```
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str = "not-needed",
        api_key_header: str | None = None,
        headers: Mapping[str, str] | None = None,
        exchange: ByteExchange | None = None,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        max_connections: float = DEFAULT_MAX_CONNECTIONS,
        include_usage: bool = True,
        echo_reasoning: bool = False,
        cumulative: bool = False,
    ) -> None:
        base = _split(base_url)
        self._url = _completions_url(base)
        # Errors and logs show the name: no password, and no key in a query.
        host = base.netloc.rpartition("@")[2]
        self._name = urlunsplit((base.scheme, host, base.path.rstrip("/"), "", ""))
        self._headers = _headers(api_key, api_key_header, headers or {})
        self._owns_exchange = exchange is None
        self._exchange: ByteExchange = exchange or make_exchange(
            base_url, connect_timeout=connect_timeout, max_connections=max_connections
        )
        self._include_usage = include_usage
        self._echo_reasoning = echo_reasoning
        self._cumulative = cumulative

    @property
    def name(self) -> str:
        """The base URL."""
        return self._name

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelFinished:
        """Ask the model; pieces go to `sink` as they come, the whole answer is returned.

        Raises:
            ProviderError: Whatever failed on the model's side.

        Cancellation: closes the connection; what `sink` got stays there.
        """
        body = encode_request(
            request, include_usage=self._include_usage, echo_reasoning=self._echo_reasoning
        )
        reading = _ChatSink(sink, request, endpoint=self._name, cumulative=self._cumulative)
        await self._exchange.exchange(HttpRequest(self._url, self._headers, body), reading)
        return reading.result()

    async def complete(self, request: ModelRequest) -> ModelFinished:
        """Ask the model and wait for the whole answer.

        Raises:
            ProviderError: Whatever failed on the model's side.

        Cancellation: closes the connection.
        """
        return await self.stream(request, DroppingSink())

    def statistics(self) -> ExchangeStatistics:
        """What its connections do; those of a caller's exchange too."""
        return self._exchange.statistics()

    async def aclose(self) -> None:
        """Close the connections, unless the exchange is the caller's; idempotent."""
        if self._owns_exchange:
            await self._exchange.aclose()


class _ChatSink:
    """Reads one HTTP answer, whatever it turns out to be, and hands on what is to be shown."""

    def __init__(
        self, sink: ModelSink, request: ModelRequest, *, endpoint: str, cumulative: bool
    ) -> None:
        self._sink = sink
        self._request = request
        self._endpoint = endpoint
        self._cumulative = cumulative
        self._status = 0
        self._response_headers: dict[str, str] = {}
        self._error_body = bytearray()
        self._answer: AnswerReader | None = None

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to take more."""
        return self._sink.full

    @property
    def done(self) -> bool:
        """True when the answer, or the message of a failure, is whole."""
        if self._answer is not None:
            return self._answer.done
        return len(self._error_body) >= _MAX_ERROR_BODY

    async def wait_room(self) -> None:
        """Return when `full` is no longer set.

        Cancellation: safe.
        """
        await self._sink.wait_room()

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The answer's head."""
        self._status = status
        self._response_headers = dict(headers)
        if 200 <= status < 300:
            self._answer = AnswerReader(
                self._request,
                endpoint=self._endpoint,
                content_type=headers.get("content-type", ""),
                cumulative=self._cumulative,
            )

    def feed(self, data: bytes) -> bool | None:
        """One read's worth of the body."""
        if self._answer is None:
            self._error_body += data
            return None
        deltas = self._answer.feed(data)
        if not deltas:
            return None
        return self._sink.feed(deltas) and not self._answer.done

    def result(self) -> ModelFinished:
        """The whole answer, now that the exchange has ended.

        Raises:
            ProviderError: Why there is none.
        """
        if self._answer is None:
            raise self._failure()
        rest = self._answer.close()
        if rest:
            self._sink.feed(rest)
        return self._answer.finish()

    def _failure(self) -> ProviderError:
        if not self._status:
            return ProviderProtocolError(
                "the exchange ended without an answer", endpoint=self._endpoint
            )
        message = message_of_body(bytes(self._error_body[:_MAX_ERROR_BODY]))
        location = self._response_headers.get("location")
        if 300 <= self._status < 400 and location:
            message = f"redirects to {location}, which is not followed; set base_url to it"
        return ProviderStatusError(
            endpoint=self._endpoint,
            status=self._status,
            body_message=message,
            headers=self._response_headers,
        )


def _split(base_url: str) -> SplitResult:
    try:
        base = urlsplit(base_url.strip())
        usable = base.scheme in {"http", "https"} and base.hostname and base.port != 0
    except ValueError as error:
        raise ConfigError(f"base_url {base_url!r} is no URL: {error}") from error
    if not usable:
        raise ConfigError(
            f"base_url must begin with http:// or https:// and name a host, got {base_url!r}; "
            "for example http://localhost:1234/v1"
        )
    return base


def _completions_url(base: SplitResult) -> str:
    path = base.path.rstrip("/")
    if not path.endswith(_PATH):
        path += _PATH
    return urlunsplit((base.scheme, base.netloc, path, base.query, ""))


def _headers(key: str, key_header: str | None, own: Mapping[str, str]) -> Mapping[str, str]:
    made = {"content-type": "application/json", "accept": "text/event-stream"}
    if key_header:
        made[key_header.lower()] = key
    elif key:
        made["authorization"] = f"Bearer {key}"
    made.update({name.lower(): value for name, value in own.items()})
    for name, value in made.items():
        if not (name and name.isascii() and name.isprintable() and " " not in name):
            raise ConfigError(f"{name!r} is no name of an HTTP header")
        if not (value.isascii() and value.isprintable()):
            what = "the API key" if key and key in value else "its value"
            raise ConfigError(
                f"header {name!r}: {what} must be printable ASCII without line breaks; "
                "look for a stray newline or quotation mark"
            )
    return made
