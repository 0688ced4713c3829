"""`OpenTelemetry`: spans and metrics of a runtime, by the semantic conventions for generative AI.

The adapter needs the OpenTelemetry API only; the application configures the SDK and the exporters.
A span is attached to the context of the task that performs its operation. Therefore spans that a
tool or a provider starts, also in trio threads, and the runs that a tool starts, are its children.
"""

import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, assert_never
from urllib.parse import urlsplit

import trio
from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from agent_actors.abc import Observation
from agent_actors.abc.operations import (
    CommitOperation,
    HookOperation,
    ModelOperation,
    Operation,
    Outcome,
    RunOperation,
    RunOutcome,
    ToolOperation,
    WaitOperation,
)
from agent_actors.codec.json_values import clean_text
from agent_actors.domain.model import ModelCompleted, ModelSettings
from agent_actors.domain.run import ToolCallResult
from agent_actors.domain.usage import TokenStats, Usage
from agent_actors.errors import ProviderStatusError
from agent_actors.kernel.request import RequestCancelled
from agent_actors.telemetry.content import (
    input_messages,
    json_text,
    output_messages,
    system_instructions,
)
from agent_actors.version import __version__

if TYPE_CHECKING:
    from contextvars import Token

SEMANTIC_CONVENTIONS: Final = "0.1.0"
"""The version of the OpenTelemetry semantic conventions for generative AI that is followed."""

_Attributes: TypeAlias = dict[str, AttributeValue]

_SCOPE: Final = "agent_actors"
_NO_HEADERS: Final[Mapping[str, str]] = {}
_CANCELLED: Final = "agent_actors.cancelled"
# The context of measurements: it has no span, because taking exemplars would double their cost.
_NO_SPAN: Final = Context()
_PROPAGATOR: Final = TraceContextTextMapPropagator()

# The bucket boundaries that the conventions recommend, in seconds and in tokens.
_SECONDS: Final = tuple(0.01 * 2**step for step in range(14))
_TOKENS: Final = tuple(float(4**step) for step in range(14))


class OpenTelemetry:
    """An `Instrumentation` that creates OpenTelemetry spans and metrics.

    Spans: `invoke_agent {agent}` for a run, `chat {model}` for each attempt of a model call, and
    `execute_tool {tool}` for a tool call. Metrics: the durations of these operations, the time to
    the first chunk, tokens, active runs, retries, and the durations of queue waits and hooks. Names
    and attributes follow version `SEMANTIC_CONVENTIONS` of the conventions; names that begin with
    `agent_actors` are additions.

    Args:
        tracer_provider: Creates the tracer; None: the global provider.
        meter_provider: Creates the meter; None: the global provider.
        capture_content: True to record prompts, responses, arguments and results, and the messages
            of exceptions. They may contain personal data.
        trace_endpoints: True to send the header `traceparent` to the endpoints of models.

    Example:
        ```python
        async with open_runtime(instrumentation=OpenTelemetry()) as runtime:
            ...
        ```
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        capture_content: bool = False,
        trace_endpoints: bool = False,
    ) -> None:
        provider = trace.get_tracer_provider() if tracer_provider is None else tracer_provider
        meters = metrics.get_meter_provider() if meter_provider is None else meter_provider
        self.tracer: Final = provider.get_tracer(_SCOPE, __version__)
        self.meters: Final = _Meters(meters.get_meter(_SCOPE, __version__))
        self.capture_content: Final = capture_content
        self.trace_endpoints: Final = trace_endpoints

    def observe(self, operation: Operation) -> Observation:
        """Return an observation of an operation that is about to begin."""
        match operation:
            case RunOperation():
                return _RunSpan(self, operation)
            case ModelOperation():
                return _model_span(self, operation)
            case ToolOperation():
                return _tool_span(self, operation)
            case HookOperation(hook=hook, phase=phase):
                about: _Attributes = {"agent_actors.hook.name": hook, "agent_actors.phase": phase}
                return _Timed(self.meters.hook, about)
            case WaitOperation(resource=resource):
                return _Timed(self.meters.wait, {"agent_actors.resource": resource})
            case CommitOperation():
                return _UNOBSERVED  # each turn has several commits, and a metric costs 10 to 30 µs
            case _:
                assert_never(operation)

    def count_tokens(self, stats: TokenStats) -> None:
        """Record the tokens of a model call in `gen_ai.client.token.usage`."""
        about = _about_model("chat", stats.provider_name, stats.model)
        counts: tuple[tuple[Literal["input", "output"], int], ...] = (
            ("input", stats.input_tokens),
            ("output", stats.output_tokens),
        )
        for kind, count in counts:
            about["gen_ai.token.type"] = kind
            self.meters.tokens.record(count, about, _NO_SPAN)


class _Meters:
    """The instruments of the adapter."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str) -> Histogram:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=_SECONDS
            )

        self.tokens: Final = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Input and output tokens of model calls",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.model: Final = seconds(
            "gen_ai.client.operation.duration", "Duration of attempts of model calls"
        )
        self.first_chunk: Final = seconds(
            "gen_ai.client.operation.time_to_first_chunk",
            "Time from the request to the first content of the response",
        )
        self.run: Final = seconds("gen_ai.invoke_agent.duration", "Duration of runs")
        self.tool: Final = seconds("gen_ai.execute_tool.duration", "Duration of tool calls")
        self.hook: Final = seconds("agent_actors.hook.duration", "Duration of calls of hooks")
        self.wait: Final = seconds("agent_actors.queue.wait", "Time spent in queues")
        # Observed when metrics are collected, so that a run does not pay for the measurement.
        self.active_runs: int = 0
        meter.create_observable_up_down_counter(
            "agent_actors.runs.active", [self._observe_runs], "{run}", "Live runs"
        )
        self.retries: Final = meter.create_counter(
            "agent_actors.retries", "{attempt}", "Attempts that retried a model call"
        )

    def _observe_runs(self, options: CallbackOptions) -> Iterator[metrics.Observation]:
        yield metrics.Observation(self.active_runs)


class _Timed:
    """An observation that records only the duration."""

    __slots__ = ("_about", "_began", "_histogram")

    def __init__(self, histogram: Histogram, about: _Attributes) -> None:
        self._histogram = histogram
        self._about: _Attributes = about
        self._began = 0.0

    @property
    def request_headers(self) -> Mapping[str, str]:
        return _NO_HEADERS

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        if exc is not None:
            self._about |= _about_end(exc)
        self._histogram.record(time.perf_counter() - self._began, self._about, _NO_SPAN)

    def note_first_token(self) -> None:
        return

    def note_outcome(self, outcome: Outcome) -> None:
        return


class _Unobserved:
    """An observation that records nothing."""

    @property
    def request_headers(self) -> Mapping[str, str]:
        return _NO_HEADERS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def note_first_token(self) -> None:
        return

    def note_outcome(self, outcome: Outcome) -> None:
        return


_UNOBSERVED: Final = _Unobserved()


class _SpanObservation(_Timed):
    """An observation with a span, which is the current span of its task meanwhile."""

    __slots__ = ("_attributes", "_end", "_kind", "_name", "_span", "_telemetry", "_token")

    def __init__(
        self,
        telemetry: OpenTelemetry,
        name: str,
        attributes: _Attributes,
        histogram: Histogram,
        about: _Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        super().__init__(histogram, about)
        self._telemetry = telemetry
        self._name = name
        self._attributes = attributes
        self._kind = kind
        # The attributes that are known at the end; setting them together is cheaper.
        self._end: _Attributes = {}
        self._span: Span = trace.INVALID_SPAN
        self._token: Token[Context] | None = None

    @property
    def request_headers(self) -> Mapping[str, str]:
        if not self._telemetry.trace_endpoints:
            return _NO_HEADERS
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers)
        return headers

    def __enter__(self) -> Self:
        self._span = self._telemetry.tracer.start_span(
            self._name, kind=self._kind, attributes=self._attributes
        )
        self._token = context.attach(trace.set_span_in_context(self._span))
        return super().__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        if self._token is not None:
            context.detach(self._token)
        if exc is not None:
            self._note_error(exc)
        super().__exit__(None, None, None)
        self._span.set_attributes(self._end)
        self._span.end()

    def note_first_token(self) -> None:
        seconds = time.perf_counter() - self._began
        self._end["gen_ai.response.time_to_first_chunk"] = seconds
        self._telemetry.meters.first_chunk.record(seconds, self._about, _NO_SPAN)

    def note_outcome(self, outcome: Outcome) -> None:
        match outcome:
            case Exception():
                self._note_error(outcome)
            case RunOutcome():
                self._end |= _usage(outcome.usage)
                self._end["agent_actors.stop_reason"] = outcome.stop_reason
            case ModelCompleted():
                self._end |= _response(outcome)
                if self._telemetry.capture_content:
                    self._end["gen_ai.output.messages"] = output_messages(outcome)
            case ToolCallResult():
                self._note_result(outcome)
            case _:
                assert_never(outcome)

    def _note_result(self, result: ToolCallResult) -> None:
        if self._telemetry.capture_content:
            self._end["gen_ai.tool.call.result"] = json_text(result.content)
        if not result.is_error:
            return
        if result.exception is not None:
            self._note_error(result.exception)
        else:
            self._note_failure("tool_error")

    def _note_error(self, error: BaseException) -> None:
        about = _about_end(error)
        self._about |= about
        self._end |= about
        if _CANCELLED in about:
            return
        kind = str(about["error.type"])
        self._span.set_status(Status(StatusCode.ERROR, kind))
        if self._telemetry.capture_content:
            self._span.record_exception(error)
        else:  # the message and the traceback may repeat a prompt or arguments
            self._span.add_event("exception", {"exception.type": type(error).__qualname__})

    def _note_failure(self, kind: str) -> None:
        self._about["error.type"] = kind
        self._end["error.type"] = kind
        self._span.set_status(Status(StatusCode.ERROR, kind))


class _RunSpan(_SpanObservation):
    """The observation of a run, which is counted as active meanwhile."""

    __slots__ = ()

    def __init__(self, telemetry: OpenTelemetry, run: RunOperation) -> None:
        about = _about_model("invoke_agent", run.provider_name, run.model)
        if run.agent_name is not None:
            about["gen_ai.agent.name"] = run.agent_name
        attributes: _Attributes = {
            **about,
            "gen_ai.conversation.id": clean_text(run.session_id),
            "agent_actors.runs.id": run.run_id,
            "agent_actors.request.id": clean_text(run.request_id),
        }
        if run.parent_run_id is not None:
            attributes["agent_actors.parent_run.id"] = run.parent_run_id
        if run.parent_tool_use_id is not None:
            attributes["agent_actors.parent_tool_call.id"] = clean_text(run.parent_tool_use_id)
        name = "invoke_agent" if run.agent_name is None else f"invoke_agent {run.agent_name}"
        super().__init__(telemetry, name, attributes, telemetry.meters.run, about)

    def __enter__(self) -> Self:
        self._telemetry.meters.active_runs += 1
        return super().__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        self._telemetry.meters.active_runs -= 1
        super().__exit__(exc_type, exc, traceback)


def _model_span(telemetry: OpenTelemetry, call: ModelOperation) -> Observation:
    settings = call.request.settings
    about = _about_model("chat", call.provider_name, settings.model)
    attributes: _Attributes = {
        **about,
        **_server(call.endpoint),
        "gen_ai.request.stream": True,
        **_settings(settings),
    }
    if call.request.output is not None:
        attributes["gen_ai.output.type"] = "json"
    if telemetry.capture_content:
        attributes["gen_ai.input.messages"] = input_messages(call.request.messages)
        if call.request.system_prompt:
            attributes["gen_ai.system_instructions"] = system_instructions(
                call.request.system_prompt
            )
    if call.retry:
        attributes["agent_actors.retry"] = True
        telemetry.meters.retries.add(1, about)
    if call.fallback:
        attributes["agent_actors.fallback"] = True
    name = f"chat {settings.model}"
    return _SpanObservation(
        telemetry, name, attributes, telemetry.meters.model, about, kind=SpanKind.CLIENT
    )


def _tool_span(telemetry: OpenTelemetry, call: ToolOperation) -> Observation:
    name = clean_text(call.name)
    about: _Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
    }
    attributes: _Attributes = {**about, "gen_ai.tool.call.id": clean_text(call.call_id)}
    if call.description:
        attributes["gen_ai.tool.description"] = clean_text(call.description)
    if telemetry.capture_content:
        attributes["gen_ai.tool.call.arguments"] = json_text(call.arguments)
    return _SpanObservation(
        telemetry, f"execute_tool {name}", attributes, telemetry.meters.tool, about
    )


def _about_model(operation: str, provider: str, model: str) -> _Attributes:
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }


def _about_end(error: BaseException) -> _Attributes:
    """Return the attributes of an operation that an exception ended."""
    if isinstance(error, trio.Cancelled | RequestCancelled):
        return {_CANCELLED: True}
    if isinstance(error, ProviderStatusError):
        return {"error.type": str(error.status)}
    return {"error.type": type(error).__qualname__}


@lru_cache(maxsize=256)
def _server(endpoint: str) -> Mapping[str, AttributeValue]:
    """Return the attributes of the server; empty if the endpoint is not a URL."""
    try:
        url = urlsplit(endpoint)
        port = url.port
    except ValueError:
        return {}
    if not url.hostname:
        return {}
    default = 443 if url.scheme == "https" else 80
    return {"server.address": url.hostname, "server.port": port or default}


def _settings(settings: ModelSettings) -> _Attributes:
    given: dict[str, AttributeValue | None] = {
        "gen_ai.request.max_tokens": settings.max_tokens,
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.request.stop_sequences": settings.stop or None,
        "gen_ai.request.seed": settings.seed,
        "gen_ai.request.presence_penalty": settings.presence_penalty,
        "gen_ai.request.frequency_penalty": settings.frequency_penalty,
    }
    return {name: value for name, value in given.items() if value is not None}


def _response(answer: ModelCompleted) -> _Attributes:
    attributes = _usage(answer.usage)
    attributes["gen_ai.response.finish_reasons"] = (answer.finish_reason,)
    if answer.model:
        attributes["gen_ai.response.model"] = clean_text(answer.model)
    if answer.response_id:
        attributes["gen_ai.response.id"] = clean_text(answer.response_id)
    return attributes


def _usage(usage: Usage) -> _Attributes:
    attributes: _Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cache_read_tokens:
        attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read_tokens
    if usage.cache_creation_tokens:
        attributes["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_creation_tokens
    if usage.reasoning_tokens:
        attributes["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
    return attributes
