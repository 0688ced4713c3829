"""An agent with two tools, a retry and a nested run, and readers of spans and metrics."""

# The SDK does not type its metrics completely.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator, Sequence

import attrs
import trio
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import format_span_id

from agent_actors import AgentOptions, Runtime, tool
from agent_actors.errors import ProviderStatusError
from agent_actors.telemetry.otel import OpenTelemetry
from agent_actors.testing import ScriptedModel, Turn, call, fail, interleave, say, usage

BUSY = fail(ProviderStatusError(endpoint="m", status=503, body_message="busy", headers={}))


@attrs.define(eq=False)
class SpanCounter(SpanProcessor):
    """Keeps every span that starts, and counts how often each of them ends."""

    started: list[Span] = attrs.field(factory=list[Span])
    ends: dict[str, int] = attrs.field(factory=dict[str, int])

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started.append(span)
        self.ends[_id(span)] = 0

    def on_end(self, span: ReadableSpan) -> None:
        self.ends[_id(span)] += 1

    def named(self, name: str) -> Span:
        """Return the only span with this name."""
        (span,) = (span for span in self.started if span.name == name)
        return span

    def parents(self) -> list[tuple[str, str]]:
        """Return the names of each span and its parent, in the order in which they started."""
        names = {_id(span): span.name for span in self.started}
        return [
            (span.name, "" if span.parent is None else names[format_span_id(span.parent.span_id)])
            for span in self.started
        ]


def _id(span: ReadableSpan) -> str:
    found = span.get_span_context()
    assert found is not None
    return format_span_id(found.span_id)


@attrs.define(eq=False)
class Telemetry:
    """An adapter for OpenTelemetry, with its spans and its metrics in memory."""

    spans: SpanCounter = attrs.field(factory=SpanCounter)
    reader: InMemoryMetricReader = attrs.field(factory=InMemoryMetricReader)
    capture_content: bool = False
    trace_endpoints: bool = False
    otel: OpenTelemetry = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.spans)
        self.otel = OpenTelemetry(
            tracer_provider=provider,
            meter_provider=MeterProvider([self.reader], shutdown_on_exit=False),
            capture_content=self.capture_content,
            trace_endpoints=self.trace_endpoints,
        )

    def points(self) -> dict[str, list[tuple[dict[str, object], float, int]]]:
        """Return the attributes, the sum and the count of all points, by metric."""
        found: dict[str, list[tuple[dict[str, object], float, int]]] = {}
        data = self.reader.get_metrics_data()
        for resource in [] if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = list(_points(metric.data.data_points))
        return found

    def tokens(self) -> dict[object, float]:
        """Return the tokens of all model calls, by type."""
        totals: dict[object, float] = {"input": 0, "output": 0}
        for about, total, _ in self.points().get("gen_ai.client.token.usage", []):
            totals[about["gen_ai.token.type"]] += total
        return totals


def _points(points: Sequence[object]) -> Iterator[tuple[dict[str, object], float, int]]:
    for point in points:
        if isinstance(point, HistogramDataPoint):
            yield dict(point.attributes or {}), point.sum, point.count
        elif isinstance(point, NumberDataPoint):
            yield dict(point.attributes or {}), point.value, 1


def family(runtime: Runtime) -> AgentOptions:
    """Return an agent whose first attempt fails and whose tools run in parallel.

    One of its tools runs another agent, on the session `child`.
    """
    child_turns: list[Turn] = [[say("Rain."), usage(7, 3)]]
    child = AgentOptions(model="small", provider=ScriptedModel(child_turns), agent_name="weather")

    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        await trio.sleep(1)
        return a + b

    @tool
    async def ask_weather() -> str:
        """Ask another agent."""
        return (await runtime.run("Weather?", child, session_id="child")).text

    calls = interleave(call("add", {"a": 1, "b": 2}), call("ask_weather"))
    turns: list[Turn] = [
        [say("Well, let me see."), BUSY],
        [calls, usage(20, 10)],
        [say("3, and rain."), usage(40, 5)],
    ]
    return AgentOptions(
        model="large",
        provider=ScriptedModel(turns),
        tools=[add, ask_weather],
        agent_name="guide",
        temperature=0.5,
    )
