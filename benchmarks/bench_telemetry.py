"""The cost of telemetry: no cost without an instrumentation, and little cost with OpenTelemetry.

A turn is a run on a new session. The model responds over HTTP, from a separate process. The
baseline is measured twice; the difference between its two rows is noise.
"""

import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import trio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.telemetry import MemoryTraceRecorder, TracingHook
from agent_actors.telemetry.otel import OpenTelemetry
from benchmarks.endpoint import pin
from benchmarks.harness import endpoint
from benchmarks.record import QUICK, ROUNDS, report, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_actors.abc import Instrumentation
    from agent_actors.hooks import Hooks

RUNS: Final = 20 if QUICK else 60
# Many short rounds: a temporary load on the machine affects only a few of them.
MANY: Final = ROUNDS * 6
DELTAS: Final = 50
SHAPES: Final = (
    (f"burst/{DELTAS}/{DELTAS}", "telemetry_turn", f"CPU per turn of {DELTAS} deltas"),
    (
        f"tools/1/{DELTAS}",
        "telemetry_tools",
        f"CPU per run of two model calls ({DELTAS} deltas) and one tool call",
    ),
)


@tool(name="work")
async def work(item: int) -> str:
    """Do a little."""
    return "done"


def open_telemetry() -> "Instrumentation":
    """Return the adapter, whose spans and metrics stay in memory."""
    spans = TracerProvider(shutdown_on_exit=False)
    spans.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    return OpenTelemetry(tracer_provider=spans, meter_provider=meters)


def take(
    url: str, observe: "Callable[[], Instrumentation | None]" = lambda: None, hooks: "Hooks" = ()
) -> float:
    """Return the CPU seconds of a run."""
    instrumentation = observe()
    options = AgentOptions(model="m", base_url=url, api_key="k", tools=[work], hooks=hooks)

    async def runs() -> float:
        async with open_runtime(instrumentation=instrumentation) as opened:
            await opened.run("Go.", options)
            began = time.process_time()
            for _ in range(RUNS):
                async with opened.stream("Go.", options) as events:
                    async for _ in events:
                        pass
            return (time.process_time() - began) / RUNS

    gc.collect()
    return trio.run(runs)


def main() -> None:
    """Run the benchmark."""
    pin(0)
    with endpoint() as served:
        for answer, claim, title in SHAPES:
            run = partial(take, served.base_url(answer))
            run()  # the first run pays the one-time costs
            contenders: dict[str, Callable[[], float]] = {
                "no instrumentation": run,
                "the same again (noise)": run,
                "OpenTelemetry, spans and metrics in memory": partial(run, open_telemetry),
                "TracingHook, spans in memory": partial(
                    run, hooks=[TracingHook(MemoryTraceRecorder())]
                ),
            }
            rows = take_turns(contenders, rounds=MANY, scale=1e6)
            report(claim, title, "µs", rows, runs=RUNS)


if __name__ == "__main__":
    main()
