"""One request to the examined endpoint, and its complete result.

Each request uses the real provider over an exchange that keeps a copy of the response, and has a
time limit. If the endpoint rejects a request because of one of its fields, the request is repeated
without that field.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlunsplit

import attrs
import trio

from agent_actors.abc import ByteExchange, ModelProvider
from agent_actors.cli.doctor.capture import MAX_KEPT, Capture, CapturingExchange, Replay, Stopwatch
from agent_actors.cli.doctor.recommendations import (
    Recommendation,
    apply_recommendation,
    recommend_after_refusal,
)
from agent_actors.cli.doctor.stream_quirks import ResponseFindings, read_answer
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest, ModelSettings, ToolSpec
from agent_actors.domain.provenance import public_url
from agent_actors.errors import (
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderStatusError,
)
from agent_actors.profiles.resolve import NO_API_KEY, ResolvedProvider
from agent_actors.providers.anthropic.client import DEFAULT_VERSION, AnthropicMessages
from agent_actors.providers.base_url import checked_headers, split_base_url
from agent_actors.providers.openai_chat.client import OpenAIChat
from agent_actors.providers.secrets import Secrets

if TYPE_CHECKING:
    from agent_actors.cli.doctor.findings import ObservedQuirk
    from agent_actors.profiles.dialect import ChatDialect

MAX_TOKENS: Final = 2048
"""Token limit of each response; a model that thinks first needs this many tokens before it
responds.
"""

TEMPERATURE: Final = 0.7
"""The temperature that agents send by default, to find out whether the endpoint rejects it."""

_EXAMPLE_URL: Final = "http://localhost:1234/v1"

_BAD_REQUEST: Final = frozenset({400, 422})


@attrs.frozen
class ProbeResult:
    """The result of one request.

    Attributes:
        answer: The response; None if the request failed.
        failure: The error, if the request failed.
        capture: The bytes of the response.
        watch: The times of its deltas.
        seconds: The duration.
        reading: The quirks of the response.
    """

    answer: ModelCompleted | None
    failure: ProviderError | None
    capture: Capture
    watch: Stopwatch
    seconds: float
    reading: ResponseFindings

    @property
    def first_token(self) -> float | None:
        """Seconds to the first delta; None if there was none."""
        return None if self.watch.first is None else self.watch.first - self.watch.started


class EndpointProbe:
    """Sends requests to one endpoint.

    Args:
        target: The resolved endpoint, with its key and its dialect.
        exchange: Sends the requests.
        timeout: Seconds for each request.

    Attributes:
        dialect: The dialect, including the settings learned so far.
        recommendations: The settings learned so far.
        observed_quirks: The observed quirks, by number.
        cumulative: True if deltas repeated earlier text.
    """

    def __init__(
        self, target: ResolvedProvider, exchange: CapturingExchange, *, timeout: float
    ) -> None:
        self.target: ResolvedProvider = target
        self.dialect: ChatDialect = target.dialect
        self.recommendations: list[Recommendation] = []
        self.observed_quirks: dict[int, ObservedQuirk] = {}
        self.cumulative: bool = False
        self._exchange = exchange
        self._timeout = timeout
        self._known_ids: set[str] = set()
        base = split_base_url(target.base_url, example=_EXAMPLE_URL)
        self._secrets = Secrets(target.api_key or "", {}, base)

    @property
    def endpoint(self) -> str:
        """The URL of the endpoint, without secrets."""
        return public_url(self.target.base_url)

    async def ask(
        self,
        messages: Messages,
        *,
        tools: tuple[ToolSpec, ...] = (),
        parallel: bool | None = None,
    ) -> ProbeResult:
        """Send a request, and change it if the endpoint reports which field it rejects.

        No request is sent twice: each field is changed at most once.

        Cancellation: closes the connection.
        """
        before = self.dialect, self.recommendations
        changed: set[str] = set()
        outcome = await self._ask(self._request(messages, tools, parallel), self._provider())
        while (lesson := self._lesson(outcome)) is not None:
            if lesson.name in changed:  # the endpoint rejects both values, so no change helps
                self.dialect, self.recommendations = before
                break
            # `refuses` is a list of fields, so it may change several times.
            changed |= {lesson.name} - {"refuses"}
            self.learn(lesson)
            outcome = await self._ask(self._request(messages, tools, parallel), self._provider())
        self._note(outcome)
        return outcome

    async def read_again(
        self, outcome: ProbeResult, messages: Messages, *, tools: tuple[ToolSpec, ...]
    ) -> ProbeResult:
        """Read the bytes of a response again, with the settings learned since.

        Cancellation: safe.
        """
        provider = self._provider(exchange=Replay(outcome.capture))
        try:
            answer = await provider.stream(self._request(messages, tools, None), Stopwatch())
        except ProviderError:
            return outcome
        return attrs.evolve(outcome, answer=answer)

    async def send_invalid(
        self, *, model: str | None = None, key: str | None = None
    ) -> ProbeResult:
        """Send a request with a model or a key that does not exist.

        Cancellation: closes the connection.
        """
        request = self._request(Messages().user("Hello"), (), None, model=model)
        return await self._ask(request, self._provider(key))

    async def models(self) -> Capture:
        """Request the list of models.

        Raises:
            ProviderError: No response arrived.

        Cancellation: closes the connection.
        """
        base = split_base_url(self.target.base_url, example=_EXAMPLE_URL)
        path = base.path.rstrip("/")
        if self.target.profile.protocol == "anthropic":
            path = path.removesuffix("/v1/messages").removesuffix("/v1") + "/v1"
        path = path.removesuffix("/chat/completions") + "/models"
        url = urlunsplit((base.scheme, base.netloc, path, base.query, ""))
        with trio.move_on_after(self._timeout):
            return await self._exchange.fetch(url, self._headers())
        raise self._late("first_token")

    def learn(self, recommendation: Recommendation) -> None:
        """Apply this recommendation to all subsequent requests."""
        self.dialect = apply_recommendation(recommendation, self.dialect)
        self.recommendations = [
            one for one in self.recommendations if one.name != recommendation.name
        ] + [recommendation]

    def redacted(self, text: str) -> str:
        """Remove the credentials from a text, since an endpoint may repeat them in its messages."""
        return self._secrets.redact(text)

    def _lesson(self, outcome: ProbeResult) -> Recommendation | None:
        failure = outcome.failure
        if not isinstance(failure, ProviderStatusError) or failure.status not in _BAD_REQUEST:
            return None
        lesson = recommend_after_refusal(failure.body_message, self.dialect)
        if lesson is not None and self.target.profile.protocol == "anthropic":
            # No other setting affects the requests of this protocol.
            refused = set(apply_recommendation(lesson, self.dialect).refuses)
            return lesson if "temperature" in refused.difference(self.dialect.refuses) else None
        return lesson

    def _note(self, outcome: ProbeResult) -> None:
        self._known_ids.update(outcome.reading.call_ids)
        self.cumulative = self.cumulative or outcome.reading.cumulative
        for one in outcome.reading.observed_quirks:
            self.observed_quirks.setdefault(
                one.number, attrs.evolve(one, seen=self.redacted(one.seen))
            )

    async def _ask(self, request: ModelRequest, provider: ModelProvider) -> ProbeResult:
        watch = Stopwatch()
        answer: ModelCompleted | None = None
        failure: ProviderError | None = None
        try:
            with trio.move_on_after(self._timeout):
                answer = await provider.stream(request, watch)
        except ProviderError as error:
            failure = error
        if answer is None and failure is None:
            failure = self._late("first_token" if watch.first is None else "total")
        capture = self._exchange.last or Capture()
        seconds = trio.current_time() - watch.started
        return ProbeResult(
            answer, failure, capture, watch, seconds, self._reading(capture, failure)
        )

    def _late(self, kind: str) -> ProviderDeadlineError:
        return ProviderDeadlineError(
            endpoint=self.endpoint,
            kind="total" if kind == "total" else "first_token",
            seconds=self._timeout,
        )

    def _reading(self, capture: Capture, failure: ProviderError | None) -> ResponseFindings:
        answered = 200 <= capture.status < 300
        if self.target.profile.protocol != "openai" or not answered:
            return ResponseFindings()
        body = bytes(capture.body)
        if body.lstrip()[:1] == b"<":  # a web page is not a model's response
            return ResponseFindings()
        broken = isinstance(failure, ProviderDeadlineError | ProviderConnectError)
        ended = not broken and len(body) < MAX_KEPT
        return read_answer(body, known_ids=self._known_ids, ended=ended)

    def _request(
        self,
        messages: Messages,
        tools: tuple[ToolSpec, ...],
        parallel: bool | None,
        *,
        model: str | None = None,
    ) -> ModelRequest:
        settings = ModelSettings(
            model=self.target.model if model is None else model,
            max_tokens=MAX_TOKENS,
            temperature=None if "temperature" in self.dialect.refuses else TEMPERATURE,
            parallel_tool_calls=parallel,
        )
        return ModelRequest(
            messages=messages,
            settings=settings,
            tools=tools,
            turn=1 + len(messages.assistant_messages()),
            known_call_ids=frozenset(
                call.id for message in messages for call in message.tool_calls
            ),
        )

    def _provider(
        self, key: str | None = None, exchange: ByteExchange | None = None
    ) -> ModelProvider:
        target = self.target
        exchange = exchange or self._exchange
        api_key = target.api_key if key is None else key
        if target.profile.protocol == "anthropic":
            return AnthropicMessages(
                base_url=target.base_url, api_key=api_key or "", exchange=exchange
            )
        return OpenAIChat(
            base_url=target.base_url,
            api_key=NO_API_KEY if api_key is None else api_key,
            api_key_header=target.api_key_header,
            dialect=self.dialect,
            exchange=exchange,
        )

    def _headers(self) -> Mapping[str, str]:
        key = self.target.api_key or ""
        made = {"accept": "application/json"}
        if self.target.profile.protocol == "anthropic":
            made["anthropic-version"] = DEFAULT_VERSION
            made["x-api-key"] = key
        elif self.target.api_key_header:
            made[self.target.api_key_header] = key
        elif key:
            made["authorization"] = f"Bearer {key}"
        return checked_headers(made, {}, key=key)
