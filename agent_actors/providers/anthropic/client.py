"""A model behind an endpoint that speaks Anthropic's Messages.

Owns the request to one endpoint and the errors that name it. It keeps no state between calls, so
any number may be under way at once. How a request is put stands in `encode`, how an answer is read
in `answer`, HTTP behind `ByteExchange`.

An endpoint that runs tools itself may pause a long answer and want to be asked again with what it
has said so far. That is done here: whoever asked sees one stream and gets one answer.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

import attrs

from agent_actors.abc import BudgetSink, ByteExchange, ExchangeStatistics, HttpRequest, ModelSink
from agent_actors.domain.blocks import ToolUseBlock, ToolUseError
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Message
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.provenance import Origin, marked
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderProtocolError
from agent_actors.providers.anthropic.block_builders import PROVIDER
from agent_actors.providers.anthropic.encode import (
    DEFAULT_MAX_TOKENS,
    CachePoint,
    EncodeOptions,
    encode_count,
    encode_request,
)
from agent_actors.providers.anthropic.response import AnswerReader
from agent_actors.providers.anthropic.stream_error import in_band
from agent_actors.providers.base_url import (
    checked_headers,
    keyed_headers,
    shown_url,
    split_base_url,
)
from agent_actors.providers.end_of_response import Grace
from agent_actors.providers.error_body import message_of_body
from agent_actors.providers.forwarding_sink import DroppingSink
from agent_actors.providers.output_tool import OutputTool
from agent_actors.providers.response_sink import AnswerSink, Reading
from agent_actors.providers.wire_json import NotJsonError, read_json
from agent_actors.transport.backends.select import make_exchange
from agent_actors.transport.pool import DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_CONNECTIONS

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
DEFAULT_VERSION: Final = "2023-06-01"
"""The protocol's version; there has been no later one."""

KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"

_PATH: Final = "/v1/messages"
_COUNT: Final = "/count_tokens"
_MAX_CONTINUATIONS: Final = 8
"""How often one answer may pause: each stands for some ten of the endpoint's own tool calls."""


class AnthropicMessages:
    """`ModelProvider` for Anthropic's API and the endpoints that speak its protocol.

    Always streams, whatever the caller wants to see of it. Works without a runtime too. Fields that
    have no option here (`thinking`, `top_k`, `metadata` …) go by `ModelSettings.extra_body`.

    Args:
        base_url: Such as `https://api.anthropic.com` or `http://localhost:1234/v1`;
            `/v1/messages`, or what of it is missing, is added. A query stays.
        api_key: Sent as `x-api-key`; empty: not sent. None: for Anthropic's own API the
            environment variable `ANTHROPIC_API_KEY`, for any other endpoint none, so that the key
            is shown to nobody else.
        version: Sent as `anthropic-version`.
        betas: Names of beta features, sent as `anthropic-beta`.
        headers: Further headers; they win over those made here.
        exchange: What to send by; without one, one is made, and closed by `aclose`.
        connect_timeout: Seconds to connect in, for the exchange made here.
        max_connections: Requests under way at once, for the exchange made here.
        max_tokens: The most tokens of an answer, where the settings say nothing.
        cache: What to mark for the endpoint's prompt cache: `system`, `tools`, `messages`, each
            up to its end. A block's own mark goes by its `extra`.
        cache_ttl: How long it is kept: `5m` or `1h`; empty: the endpoint's default.
        server_tools: Tools that the endpoint runs itself, in its own form, such as
            `{"type": "web_search_20250305", "name": "web_search"}`.
        eager_tool_input: Whether arguments are to stream as they are made, unchecked.
        echo_unsigned_thinking: Whether to send thoughts without a seal too; Anthropic refuses them,
            other endpoints want them.
        max_continuations: How often an answer that the endpoint pauses is gone on with.

    Raises:
        ConfigError: The URL is not http(s), or a header is not printable ASCII.

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
    ) -> None:
        base = split_base_url(base_url, example=DEFAULT_BASE_URL)
        self._url = _messages_url(base, "")
        self._count_url = _messages_url(base, _COUNT)
        self._name = shown_url(base)
        if api_key is None:
            theirs = base.hostname == urlsplit(DEFAULT_BASE_URL).hostname
            api_key = os.environ.get(KEY_VARIABLE, "") if theirs else ""
        self._headers = _headers(api_key, version, betas, headers or {})
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
        """Ask the model; pieces go to `sink` as they come, the whole answer is returned.

        Raises:
            ProviderError: Whatever failed on the model's side.

        Cancellation: closes the connection; what `sink` got stays there.
        """
        # Output's own sink knows nothing of deadlines and budgets.
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

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Ask the model and wait for the whole answer.

        Raises:
            ProviderError: Whatever failed on the model's side.

        Cancellation: closes the connection.
        """
        return await self.stream(request, DroppingSink())

    async def count_tokens(self, request: ModelRequest) -> int:
        """Ask how many tokens the input of this request has; nothing is generated.

        Raises:
            ProviderError: Whatever failed on the endpoint's side; some do not count.

        Cancellation: closes the connection.
        """
        reading = Reading(endpoint=self._name)
        body = encode_count(request, self._options, self._name)
        await reading.fetch(self._exchange, HttpRequest(self._count_url, self._headers, body))
        return _count_of(reading.document(), endpoint=self._name)

    def statistics(self) -> ExchangeStatistics:
        """What its connections do; those of a caller's exchange too."""
        return self._exchange.statistics()

    async def aclose(self) -> None:
        """Close the connections, unless the exchange is the caller's; idempotent."""
        if self._owns_exchange:
            await self._exchange.aclose()

    async def _ask(
        self, request: ModelRequest, sink: ModelSink, asker: ModelSink
    ) -> tuple[ModelCompleted, bool]:
        """One request: its answer, and whether the endpoint paused in it."""
        body = encode_request(request, self._options, self._name)
        grace = Grace(asker)

        def reader(content_type: str) -> AnswerReader:
            made = AnswerReader(
                request,
                endpoint=self._name,
                content_type=content_type,
                # With a pause the answer is not whole: then what is late is late.
                on_told_end=lambda ends: grace.told(ends, whole=not made.paused),
            )
            return made

        reading = AnswerSink(sink, reader, endpoint=self._name, grace=grace)
        headers = keyed_headers(self._headers, request)
        await reading.fetch(self._exchange, HttpRequest(self._url, headers, body))
        read = reading.whole()
        answer = read.finish()
        # With calls of ours open, it is their results that the endpoint waits for.
        calls = any(isinstance(block, ToolUseBlock | ToolUseError) for block in answer.blocks)
        return answer, read.paused and not calls


def _has_room(asker: ModelSink, used: Usage) -> bool:
    """True if another request may be made for this answer; it counts as made."""
    return not isinstance(asker, BudgetSink) or asker.take_request(used)


def _count_of(told: bytes, *, endpoint: str) -> int:
    """The count of tokens that a document tells.

    Raises:
        ProviderError: It tells none.
    """
    try:
        value = read_json(told)
    except NotJsonError:
        value = None
    if isinstance(value, dict):
        if value.get("error"):
            raise in_band(value, endpoint=endpoint)
        count = value.get("input_tokens")
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    raise ProviderProtocolError(
        f"expected a count of tokens, got {message_of_body(told) or 'nothing'}", endpoint=endpoint
    )


def _thinks(request: ModelRequest) -> bool:
    """True if the model is to think, beside which it may not be made to call a tool."""
    thinking = request.settings.extra_body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") != "disabled"


def _continued(request: ModelRequest, answer: ModelCompleted, number: int) -> ModelRequest:
    """The request that goes on with this answer; the continuations are counted from 1."""
    said = Message("assistant", answer.blocks)
    # It is another request: under the same key it might get the answer that it goes on with.
    key = f"{request.idempotency_key}-{number}" if request.idempotency_key else ""
    return attrs.evolve(request, messages=request.messages.append(said), idempotency_key=key)


def _joined(answer: ModelCompleted, more: ModelCompleted) -> ModelCompleted:
    return attrs.evolve(
        more,
        blocks=(*answer.blocks, *more.blocks),
        usage=answer.usage + more.usage,
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
