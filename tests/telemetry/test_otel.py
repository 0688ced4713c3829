"""Spans and metrics of runs, with every cancellation, and over OTLP to a receiver."""

import json
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest
import trio
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ReceivedSpan
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode
from trio.lowlevel import Task
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.telemetry.otel import OpenTelemetry
from agent_actors.testing import (
    ScriptedEndpoint,
    ScriptedModel,
    StepOutcome,
    call,
    cancel_at_every_step,
    say,
    usage,
)
from tests.telemetry.helpers import Telemetry, family

# Shows the trace of the agent `guide` as text.
PAGE: Final = Path(__file__).parents[2] / "docs/how-to/trace.md"
# The tree of spans of the agent `guide`.
FAMILY: Final = {
    ("invoke_agent guide", ""),
    ("chat large", "invoke_agent guide"),
    ("execute_tool add", "invoke_agent guide"),
    ("execute_tool ask_weather", "invoke_agent guide"),
    ("invoke_agent weather", "execute_tool ask_weather"),
    ("chat small", "invoke_agent weather"),
}


@pytest.mark.feature("ASDK-112", "ASDK-113")
async def test_runs_models_and_tools_have_spans(autojump_clock: MockClock) -> None:
    seen = Telemetry()
    async with open_runtime(instrumentation=seen.otel) as runtime:
        result = await runtime.run("Go.", family(runtime), session_id="s", request_id="r")
    assert set(seen.spans.parents()) == FAMILY
    assert set(seen.spans.ends.values()) == {1}
    root = seen.spans.named("invoke_agent guide").attributes or {}
    assert root["gen_ai.operation.name"] == "invoke_agent"
    assert root["gen_ai.conversation.id"] == "s"
    assert root["agent_actors.runs.id"] == result.run_id
    assert root["gen_ai.usage.input_tokens"] == result.usage.input_tokens
    assert root["agent_actors.stop_reason"] == "completed"
    child = seen.spans.named("invoke_agent weather").attributes or {}
    assert child["agent_actors.parent_run.id"] == result.run_id
    failed, answered, _ = [span for span in seen.spans.started if span.name == "chat large"]
    assert (failed.attributes or {})["error.type"] == "503"
    assert failed.status.status_code is StatusCode.ERROR
    chat = answered.attributes or {}
    assert chat["agent_actors.retry"] is True
    assert chat["gen_ai.request.temperature"] == 0.5
    assert chat["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert (chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]) == (20, 10)
    assert "gen_ai.response.time_to_first_chunk" in chat
    called = seen.spans.named("execute_tool add").attributes or {}
    assert called["gen_ai.tool.description"] == "Add two numbers."
    assert called["gen_ai.tool.call.id"] == result.tool_calls[0].id


async def test_metrics_count_every_operation(autojump_clock: MockClock) -> None:
    seen = Telemetry()
    async with open_runtime(instrumentation=seen.otel) as runtime:
        await runtime.run("Go.", family(runtime))
    points = seen.points()
    counts = {name: sum(count for *_, count in found) for name, found in points.items()}
    assert counts["gen_ai.invoke_agent.duration"] == 2
    assert counts["gen_ai.client.operation.duration"] == 4
    assert counts["gen_ai.client.operation.time_to_first_chunk"] == 4
    assert counts["gen_ai.execute_tool.duration"] == 2
    assert [value for _, value, _ in points["agent_actors.retries"]] == [1]
    assert [value for _, value, _ in points["agent_actors.runs.active"]] == [0]
    failures = [
        about["error.type"]
        for about, *_ in points["gen_ai.client.operation.duration"]
        if "error.type" in about
    ]
    assert failures == ["503"]


async def test_tokens_add_up_to_the_logs(autojump_clock: MockClock) -> None:
    seen = Telemetry()
    async with open_runtime(instrumentation=seen.otel) as runtime:
        await runtime.run("Go.", family(runtime), session_id="s")
        await check_tokens(runtime, seen)
    assert seen.tokens()["input"] == 67


def is_service(task: Task) -> bool:
    """Return whether a task belongs to the endpoints, which outlive their runs."""
    return task.name.endswith("ActorLoop._background")


async def check_tokens(runtime: Runtime, seen: Telemetry) -> None:
    """Check that the metrics are the usage in the logs of both sessions."""
    logged = [await runtime.session_stats(session_id) for session_id in ("s", "child")]
    usages = [stats.usage for stats in logged if stats is not None]
    assert seen.tokens() == {
        "input": sum(one.input_tokens for one in usages),
        "output": sum(one.output_tokens for one in usages),
    }


def test_every_span_ends_once_when_cancelled() -> None:
    """Each span ends exactly once under the right parent, wherever the run is cancelled."""
    opened: list[Telemetry] = []

    def open_observed() -> Runtime:
        opened.append(Telemetry())
        return open_runtime(instrumentation=opened[-1].otel)

    async def run(runtime: Runtime) -> None:
        await runtime.run("Go.", family(runtime), session_id="s")

    async def check(step: int, outcome: StepOutcome[Runtime]) -> None:
        seen = opened[-1]
        assert set(seen.spans.ends.values()) <= {1}
        assert set(seen.spans.parents()) <= FAMILY
        assert [value for _, value, _ in seen.points().get("agent_actors.runs.active", [])] in (
            [],
            [0],
        )
        await check_tokens(outcome.subject, seen)
        assert trace.get_current_span() is trace.INVALID_SPAN

    steps = cancel_at_every_step(run, around=open_observed, check=check, may_stay=is_service)
    assert steps > 30


async def test_waits_are_measured(autojump_clock: MockClock) -> None:
    seen = Telemetry()

    @tool(exclusive=True)
    async def slow() -> str:
        """Take a while."""
        await trio.sleep(1)
        return "done"

    model = ScriptedModel(lambda request: [say("Hello."), usage(1, 1)])
    busy = AgentOptions(model="m", provider=model)
    calls = AgentOptions(
        model="m", provider=ScriptedModel([[call("slow"), call("slow")], "Done."]), tools=[slow]
    )
    async with (
        open_runtime(instrumentation=seen.otel, on_busy="queue", streams_per_endpoint=1) as runtime,
        trio.open_nursery() as nursery,
    ):
        for _ in range(2):
            nursery.start_soon(run_busy, runtime, busy)
        await runtime.run("Go.", calls)
    points = seen.points()["agent_actors.queue.wait"]
    waited = {about["agent_actors.resource"] for about, *_ in points}
    assert {"session", "tool"} <= waited


async def run_busy(runtime: Runtime, options: AgentOptions) -> None:
    await runtime.run("Go.", options, session_id="busy")


@pytest.mark.parametrize("captured", [False, True])
async def test_content_is_recorded_on_request_only(
    captured: bool, autojump_clock: MockClock
) -> None:
    @tool
    async def fetch(secret: str) -> str:
        """Fail with the argument."""
        raise ValueError(f"no {secret}")

    seen = Telemetry(capture_content=captured)
    model = ScriptedModel([call("fetch", {"secret": "hunter2"}), say("It was hunter2.")])
    options = AgentOptions(model="m", provider=model, tools=[fetch], system_prompt="Know hunter2.")
    async with open_runtime(instrumentation=seen.otel) as runtime:
        await runtime.run("What is hunter2?", options)
    text = "".join(span.to_json() for span in seen.spans.started)
    assert ("hunter2" in text) is captured
    failed = seen.spans.named("execute_tool fetch")
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "ValueError"
    assert (failed.events[0].attributes or {})["exception.type"] == "ValueError"
    if captured:
        last = seen.spans.started[-1].attributes or {}
        (message,) = json.loads(str(last["gen_ai.output.messages"]))
        assert message["parts"] == [{"type": "text", "content": "It was hunter2."}]
        sent = json.loads(str(last["gen_ai.input.messages"]))
        assert [part["type"] for one in sent for part in one["parts"]] == [
            "text",
            "tool_call",
            "tool_call_response",
        ]


async def test_context_reaches_threads_and_tasks() -> None:
    seen = Telemetry()
    tracer = seen.otel.tracer

    @tool
    def in_thread() -> str:
        """Start a span in a thread."""
        with tracer.start_as_current_span("inside"):
            return "done"

    model = ScriptedModel([call("in_thread"), "Done."])
    with tracer.start_as_current_span("caller"):
        async with open_runtime(instrumentation=seen.otel) as runtime:
            await runtime.run("Go.", AgentOptions(model="m", provider=model, tools=[in_thread]))
    parents = dict(seen.spans.parents())
    assert parents["inside"] == "execute_tool in_thread"
    assert parents["invoke_agent"] == "caller"


@pytest.mark.parametrize("traced", [False, True])
async def test_endpoint_gets_trace_context_on_request(traced: bool) -> None:
    seen = Telemetry(trace_endpoints=traced)
    async with (
        ScriptedEndpoint(["Hello."]) as endpoint,
        open_runtime(instrumentation=seen.otel) as runtime,
    ):
        options = AgentOptions(model="m", base_url=endpoint.base_url, api_key="k")
        await runtime.run("Hi.", options)
        headers = endpoint.requests[0].headers
    span = seen.spans.named("chat m")
    found = span.get_span_context()
    assert found is not None
    expected = f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"
    assert headers.get("traceparent") == (expected if traced else None)
    assert (span.attributes or {})["server.address"] == "127.0.0.1"


# A receiver for OTLP over HTTP.


@contextmanager
def otlp_receiver() -> Generator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Receive OTLP over HTTP on loopback; yield its URL and the received requests."""
    received: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so there
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
        finally:
            server.shutdown()
            thread.join()


def test_receiver_gets_the_documented_trace() -> None:
    with otlp_receiver() as (url, received):
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))

        async def run() -> None:
            otel = OpenTelemetry(tracer_provider=provider)
            async with open_runtime(instrumentation=otel) as runtime:
                await runtime.run("Go.", family(runtime))

        trio.run(run, clock=MockClock(autojump_threshold=0))
        provider.shutdown()
    spans = [
        span
        for request in received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert len({span.trace_id for span in spans}) == 1
    spans.sort(key=lambda span: span.start_time_unix_nano)
    (root,) = (span for span in spans if not span.parent_span_id)
    text = "\n".join([root.name, *tree(root.span_id, spans)])
    assert f"```text\n{text}\n```" in PAGE.read_text(encoding="utf-8")


def tree(parent: bytes, spans: Sequence[ReceivedSpan], indent: str = "") -> Iterator[str]:
    """Yield the spans below a span as lines of a tree."""
    children = [span for span in spans if span.parent_span_id == parent]
    for number, span in enumerate(children, 1):
        last = number == len(children)
        line = f"{indent}{'└── ' if last else '├── '}{span.name}"
        notes = [
            f"{one.key}={one.value.string_value or one.value.bool_value}"
            for one in span.attributes
            if one.key in {"error.type", "agent_actors.retry"}
        ]
        yield f"{line:36}{' '.join(notes)}".rstrip()
        yield from tree(span.span_id, spans, indent + ("    " if last else "│   "))
