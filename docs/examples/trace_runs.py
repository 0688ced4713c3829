"""Trace a run with OpenTelemetry and with the trace recorder, and count its tokens."""

import tempfile
from pathlib import Path

import trio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_actors import AgentOptions, TokenStats, open_runtime, tool
from agent_actors.telemetry import (
    JsonlTraceRecorder,
    TracingHook,
    prometheus_text,
    read_trace,
    use_trace_recorder,
)
from agent_actors.telemetry.otel import OpenTelemetry
from agent_actors.testing import ScriptedModel, call

exporter = InMemorySpanExporter()  # use the OTLP exporter to send the spans to a collector
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))


def show(stats: TokenStats) -> None:
    print(f"{stats.model}: {stats.total_tokens} tokens")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    model = ScriptedModel([call("add", {"a": 1, "b": 2}), "3"])
    options = AgentOptions(
        model="scripted",
        provider=model,
        tools=[add],
        agent_name="calculator",
        hooks=[TracingHook()],
        token_callback=show,
    )
    trace_file = Path(tempfile.mkdtemp()) / "trace.jsonl"
    async with open_runtime(instrumentation=OpenTelemetry(tracer_provider=provider)) as runtime:
        with JsonlTraceRecorder(trace_file) as recorder, use_trace_recorder(recorder):
            await runtime.run("1 + 2?", options, session_id="s")
        stats = await runtime.session_stats("s")
        metrics = prometheus_text(runtime.statistics())

    for span in exporter.get_finished_spans():
        print(span.name)
    for record in read_trace(trace_file):
        print(record.name, record.attributes.get("tool_name", ""))
    assert stats is not None
    print(stats.usage.total_tokens, "tokens in", stats.requests, "requests")
    print(metrics.splitlines()[1])


trio.run(main)
