"""A model behind an endpoint that speaks OpenAI's chat completions.

This module sends requests to one endpoint and names the endpoint in errors. It keeps no state
between calls, so any number of calls may be in progress at once. `encode` builds the request,
`response` parses the response, and a `ByteExchange` handles HTTP.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import SplitResult, urlunsplit

from agent_actors.abc import ByteExchange, ExchangeStatistics, HttpRequest, ModelSink
from agent_actors.codec.openai_messages import PROVIDER
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.provenance import Origin, marked
from agent_actors.errors import ProviderError, ProviderStatusError
from agent_actors.profiles.dialect import PLAIN, ChatDialect
from agent_actors.protocol.sse import DEFAULT_MAX_EVENT_BYTES, DEFAULT_MAX_LINE_BYTES
from agent_actors.providers.base_url import (
    checked_headers,
    explain_unknown_path,
    keyed_headers,
    shown_url,
    split_base_url,
    url_with_version,
)
from agent_actors.providers.end_of_response import Grace
from agent_actors.providers.error_body import explain_refused_tools
from agent_actors.providers.openai_chat.encode import RequestHeads, encode_request
from agent_actors.providers.openai_chat.response import ChatResponseParser
from agent_actors.providers.openai_chat.structured import ask_for_output
from agent_actors.providers.response_body import StreamLimits
from agent_actors.providers.response_sink import DroppingSink, ResponseSink
from agent_actors.providers.secrets import Secrets
from agent_actors.transport.backends.select import client_headers, make_exchange
from agent_actors.transport.pool import DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_CONNECTIONS

_PATH: Final = "/chat/completions"


class OpenAIChat:
    """`ModelProvider` for OpenAI-compatible endpoints. It can also be used without a runtime.

    The provider always requests a stream, even if the caller does not need one.

    Args:
        base_url: For example `http://localhost:1234/v1`; `/chat/completions` is added. A query is
            kept.
        api_key: Sent as `Authorization: Bearer …`; empty: no key is sent. Local endpoints need no
            key and accept the default.
        api_key_header: The name of a header that carries the bare key instead.
        headers: Additional headers; they override the headers that this class sets.
        exchange: Sends the requests. None: the provider creates an exchange, which `aclose` closes.
        connect_timeout: The time limit for connecting, in seconds, if the provider creates the
            exchange.
        max_connections: The maximum number of concurrent requests, if the provider creates the
            exchange.
        dialect: The requirements and peculiarities of the endpoint.
        max_line_bytes: The longest accepted line of a response, in bytes.
        max_event_bytes: The maximum size of the data in one event of a response, in bytes.

    Raises:
        ConfigError: The URL is not http(s), a header is not printable ASCII, or a limit is not
            positive.

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
        dialect: ChatDialect = PLAIN,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        base = split_base_url(base_url, example="http://localhost:1234/v1")
        self._url = _completions_url(base)
        self._name = shown_url(base)
        self._url_with_version = url_with_version(base, _PATH)
        self._headers = _headers(api_key, api_key_header, headers or {})
        self._secrets = Secrets(api_key, {**client_headers(exchange), **self._headers}, base)
        self._limits = StreamLimits(
            provider=type(self).__name__,
            max_line_bytes=max_line_bytes,
            max_event_bytes=max_event_bytes,
        )
        self._owns_exchange = exchange is None
        self._exchange: ByteExchange = exchange or make_exchange(
            base_url, connect_timeout=connect_timeout, max_connections=max_connections
        )
        self._dialect = dialect
        self._heads = RequestHeads()

    @property
    def name(self) -> str:
        """The base URL."""
        return self._name

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        """Send a request, feed deltas to `sink` as they arrive, and return the complete response.

        Raises:
            ProviderError: The request failed at the endpoint or on the way to it.

        Cancellation: closes the connection; `sink` keeps the deltas that it has received.
        """
        grace = Grace(sink)
        adapted = ask_for_output(request, sink, self._dialect)
        request, sink = adapted.request, adapted.sink
        reading = ResponseSink(
            sink,
            partial(self._parser, request, sink, grace),
            endpoint=self._name,
            grace=grace,
            secrets=self._secrets,
        )
        try:
            body = encode_request(request, self._dialect, self._name, self._heads)
            headers = keyed_headers(self._headers, request)
            await reading.fetch(self._exchange, HttpRequest(self._url, headers, body))
            answer = adapted.answer(reading.whole().finish())
        except ProviderError as error:
            if isinstance(error, ProviderStatusError) and request.tools:
                explain_refused_tools(error)
            explain_unknown_path(error, self._url, suggestion=self._url_with_version)
            self._secrets.hide(error)
            raise
        return marked(answer, Origin(PROVIDER, self._name, request.settings.model))

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Send a request and return the complete response.

        Raises:
            ProviderError: The request failed at the endpoint or on the way to it.

        Cancellation: closes the connection.
        """
        return await self.stream(request, DroppingSink())

    def statistics(self) -> ExchangeStatistics:
        """Return the statistics of the exchange, which may be the caller's own."""
        return self._exchange.statistics()

    async def aclose(self) -> None:
        """Close the connections, unless the caller passed in the exchange. Idempotent."""
        if self._owns_exchange:
            await self._exchange.aclose()

    def _parser(
        self, request: ModelRequest, sink: ModelSink, grace: Grace, content_type: str
    ) -> ChatResponseParser:
        return ChatResponseParser(
            request,
            endpoint=self._name,
            content_type=content_type,
            limits=self._limits,
            redact=self._secrets.redact,
            dialect=self._dialect,
            on_end_marked=grace.on_finish_reason,
            sees_text=bool(getattr(sink, "sees_text", True)),
            sees_arguments=bool(getattr(sink, "sees_arguments", True)),
        )


def _completions_url(base: SplitResult) -> str:
    path = base.path.rstrip("/")
    if not path.endswith(_PATH):
        path += _PATH
    return urlunsplit((base.scheme, base.netloc, path, base.query, ""))


def _headers(key: str, key_header: str | None, own: Mapping[str, str]) -> Mapping[str, str]:
    made = {"content-type": "application/json", "accept": "text/event-stream"}
    if key_header:
        made[key_header] = key
    elif key:
        made["authorization"] = f"Bearer {key}"
    return checked_headers(made, own, key=key)
