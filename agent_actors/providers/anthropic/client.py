"""A model behind an endpoint that speaks Anthropic's Messages API.

This module sends requests to one endpoint and names the endpoint in errors. It keeps no state
between calls, so any number of calls may be in progress at once. `encode` builds the request,
`response` parses the response, and a `ByteExchange` handles HTTP.

An endpoint that runs tools itself may pause a long response. It then expects a new request that
contains the response so far. This module sends that request; the caller sees one stream and gets
one response.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

import attrs

from agent_actors.abc import BudgetSink, ByteExchange, ExchangeStatistics, HttpRequest, ModelSink
from agent_actors.codec.json_text import NotJsonError, read_json
from agent_actors.domain.blocks import ToolUseBlock, ToolUseError
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Message
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.provenance import Origin, marked
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderError, ProviderProtocolError
from agent_actors.protocol.sse import DEFAULT_MAX_EVENT_BYTES, DEFAULT_MAX_LINE_BYTES
from agent_actors.providers.anthropic.block_builders import PROVIDER
from agent_actors.providers.anthropic.encode import (
    DEFAULT_MAX_TOKENS,
    CachePoint,
    EncodeOptions,
    encode_count,
    encode_request,
)
from agent_actors.providers.anthropic.response import MessageResponseParser
from agent_actors.providers.anthropic.stream_error import in_band
from agent_actors.providers.base_url import (
    checked_headers,
    explain_unknown_path,
    keyed_headers,
    shown_url,
    split_base_url,
)
from agent_actors.providers.end_of_response import Grace
from agent_actors.providers.error_body import message_of_body
from agent_actors.providers.output_tool import OutputTool
from agent_actors.providers.response_body import StreamLimits
from agent_actors.providers.response_sink import BodySink, DroppingSink, ResponseSink
from agent_actors.providers.secrets import Secrets
from agent_actors.transport.backends.select import client_headers, make_exchange
from agent_actors.transport.pool import DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_CONNECTIONS

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
DEFAULT_VERSION: Final = "2023-06-01"
"""The version of the protocol; there is no later version."""

KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"

_PATH: Final = "/v1/messages"
_COUNT: Final = "/count_tokens"
_MAX_CONTINUATIONS: Final = 8
"""The maximum number of pauses per response; there is one after about ten server tool calls."""


class AnthropicMessages:
    """`ModelProvider` for Anthropic's API and endpoints that speak its protocol.

    The provider always requests a stream, even if the caller does not need one. It can also be used
    without a runtime. Request fields without an option in this class (`thinking`, `top_k`,
    `metadata` …) can be set with `ModelSettings.extra_body`.

    Args:
        base_url: For example `https://api.anthropic.com` or `http://localhost:1234/v1`. Missing
            parts of `/v1/messages` are added. The URL's query is kept.
        api_key: Sent as `x-api-key`; empty: no key is sent. None: requests to Anthropic's own API
            use the environment variable `ANTHROPIC_API_KEY`. Other endpoints get no key, so that
            they never receive the value of the variable.
        version: Sent as `anthropic-version`.
        betas: Names of beta features, sent as `anthropic-beta`.
        headers: Additional headers; they override the headers that this class sets.
        exchange: Sends the requests. None: the provider creates an exchange, which `aclose` closes.
        connect_timeout: The time limit for connecting, in seconds, if the provider creates the
            exchange.
        max_connections: The maximum number of concurrent requests, if the provider creates the
            exchange.
        max_tokens: The maximum number of tokens of a response, if the settings do not specify one.
        cache: The parts to mark for the endpoint's prompt cache, each up to its end: `system`,
            `tools`, `messages`. The `extra` of a block can also contain a mark.
        cache_ttl: The lifetime of the cache: `5m` or `1h`; empty: the endpoint's default.
        server_tools: Tools that the endpoint runs itself, in the endpoint's format, for example
            `{"type": "web_search_20250305", "name": "web_search"}`.
        eager_tool_input: Whether the endpoint streams arguments at once, without validating them.
        echo_unsigned_thinking: Whether to also send thinking without a signature. Anthropic refuses
            unsigned thinking; some other endpoints require it.
        max_continuations: How often a response that the endpoint pauses is continued.
        max_line_bytes: The longest accepted line of a response, in bytes.
        max_event_bytes: The maximum size of the data in one event of a response, in bytes.

    Raises:
        ConfigError: The URL is not http(s), a header is not printable ASCII, or a limit is not
            positive.

    Example:
        ```python
        model = AnthropicMessages(cache=["system", "tools"])
        options = AgentOptions(model="claude-sonnet-4-5", provider=model)
        ```

    Source: https://platform.claude.com/docs/en/api/messages
    """

    def __init__(
        self,
        *,
        base_url: str = DEFAULT_BASE_URL,
        api_key: str | None = None,
        version: str = DEFAULT_VERSION,
        betas: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        exchange: ByteExchange | None = None,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        max_connections: float = DEFAULT_MAX_CONNECTIONS,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        cache: Collection[CachePoint] = (),
        cache_ttl: str = "",
        server_tools: Sequence[Mapping[str, JsonValue]] = (),
        eager_tool_input: bool = False,
        echo_unsigned_thinking: bool = False,
        max_continuations: int = _MAX_CONTINUATIONS,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        base = split_base_url(base_url, example=DEFAULT_BASE_URL)
        self._url = _messages_url(base, "")
        self._count_url = _messages_url(base, _COUNT)
        self._name = shown_url(base)
        if api_key is None:
            theirs = base.hostname == urlsplit(DEFAULT_BASE_URL).hostname
            api_key = os.environ.get(KEY_VARIABLE, "") if theirs else ""
        self._headers = _headers(api_key, version, betas, headers or {})
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
        self._options = EncodeOptions(
            max_tokens=max_tokens,
            cache=cache,
            cache_ttl=cache_ttl,
            server_tools=server_tools,
            eager_tool_input=eager_tool_input,
            echo_unsigned_thinking=echo_unsigned_thinking,
        )
        self._max_continuations = max_continuations

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
        try:
            return await self._stream(request, sink)
        except ProviderError as error:
            self._secrets.hide(error)
            raise

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Send a request and return the complete response.

        Raises:
            ProviderError: The request failed at the endpoint or on the way to it.

        Cancellation: closes the connection.
        """
        return await self.stream(request, DroppingSink())

    async def count_tokens(self, request: ModelRequest) -> int:
        """Let the endpoint count the input tokens of a request, without generating a response.

        Raises:
            ProviderError: The request failed at the endpoint or on the way to it. Some endpoints
                cannot count tokens.

        Cancellation: closes the connection.
        """
        reading = BodySink(endpoint=self._name, secrets=self._secrets)
        body = encode_count(request, self._options, self._name)
        try:
            await reading.fetch(self._exchange, HttpRequest(self._count_url, self._headers, body))
            return _count_of(reading.document(), endpoint=self._name)
        except ProviderError as error:
            explain_unknown_path(error, self._count_url)
            self._secrets.hide(error)
            raise

    def statistics(self) -> ExchangeStatistics:
        """Return the statistics of the exchange, which may be the caller's own."""
        return self._exchange.statistics()

    async def aclose(self) -> None:
        """Close the connections, unless the caller passed in the exchange. Idempotent."""
        if self._owns_exchange:
            await self._exchange.aclose()

    async def _stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        # The sink of the output tool supports neither deadlines nor budgets.
        asker = sink
        tool: OutputTool | None = None
        if request.output is not None:
            force = not _thinks(request)
            tool = OutputTool.of(request, request.output, force=force)
            request, sink = tool.request, tool.sink(sink)
        answer, paused = await self._ask(request, sink, asker)
        for number in range(1, self._max_continuations + 1):
            if not paused or not _has_room(asker, answer.usage):
                break
            more, paused = await self._ask(_continued(request, answer, number), sink, asker)
            answer = _joined(answer, more)
        answer = marked(answer, Origin(PROVIDER, self._name, request.settings.model))
        return answer if tool is None else tool.answer(answer)

    async def _ask(
        self, request: ModelRequest, sink: ModelSink, asker: ModelSink
    ) -> tuple[ModelCompleted, bool]:
        """Send one request; return its response, and whether the endpoint paused it."""
        body = encode_request(request, self._options, self._name)
        grace = Grace(asker)

        def reader(content_type: str) -> MessageResponseParser:
            made = MessageResponseParser(
                request,
                endpoint=self._name,
                content_type=content_type,
                limits=self._limits,
                redact=self._secrets.redact,
                # A paused response is not complete: deadlines still apply to it.
                on_end_marked=lambda ends: grace.on_finish_reason(ends, complete=not made.paused),
            )
            return made

        reading = ResponseSink(
            sink, reader, endpoint=self._name, grace=grace, secrets=self._secrets
        )
        headers = keyed_headers(self._headers, request)
        try:
            await reading.fetch(self._exchange, HttpRequest(self._url, headers, body))
            read = reading.whole()
            answer = read.finish()
        except ProviderError as error:
            explain_unknown_path(error, self._url)
            raise
        # If client-side tool calls are open, the endpoint waits for their results, not for a
        # continuation.
        calls = any(isinstance(block, ToolUseBlock | ToolUseError) for block in answer.blocks)
        return answer, read.paused and not calls


def _has_room(asker: ModelSink, used: Usage) -> bool:
    """Return whether one more request may be made for this response; if so, count the request."""
    return not isinstance(asker, BudgetSink) or asker.take_request(used)


def _count_of(body: bytes, *, endpoint: str) -> int:
    """Return the token count in a document.

    Raises:
        ProviderError: The document contains no token count.
    """
    try:
        value = read_json(body)
    except NotJsonError:
        value = None
    if isinstance(value, dict):
        if value.get("error"):
            raise in_band(value, endpoint=endpoint)
        count = value.get("input_tokens")
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    raise ProviderProtocolError(
        f"expected a token count, but got {message_of_body(body) or 'nothing'}", endpoint=endpoint
    )


def _thinks(request: ModelRequest) -> bool:
    """Return whether thinking is enabled; with thinking, a request must not force a tool call."""
    thinking = request.settings.extra_body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") != "disabled"


def _continued(request: ModelRequest, answer: ModelCompleted, number: int) -> ModelRequest:
    """Return the request that continues this response; continuations are numbered from 1."""
    message = Message("assistant", answer.blocks)
    # This is a different request. If the idempotency key were the same, the endpoint might return
    # the response that this request continues.
    key = f"{request.idempotency_key}-{number}" if request.idempotency_key else ""
    return attrs.evolve(request, messages=request.messages.append(message), idempotency_key=key)


def _joined(answer: ModelCompleted, more: ModelCompleted) -> ModelCompleted:
    return attrs.evolve(
        more,
        blocks=(*answer.blocks, *more.blocks),
        usage=answer.usage + more.usage,
        damaged_lines=answer.damaged_lines + more.damaged_lines,
        model=more.model or answer.model,
    )


def _messages_url(base: SplitResult, suffix: str) -> str:
    path = base.path.rstrip("/").removesuffix(_PATH).removesuffix("/v1")
    return urlunsplit((base.scheme, base.netloc, path + _PATH + suffix, base.query, ""))


def _headers(
    key: str, version: str, betas: Sequence[str], own: Mapping[str, str]
) -> Mapping[str, str]:
    made = {"content-type": "application/json", "accept": "text/event-stream"}
    if version:
        made["anthropic-version"] = version
    if betas:
        made["anthropic-beta"] = ",".join(betas)
    if key:
        made["x-api-key"] = key
    return checked_headers(made, own, key=key)
