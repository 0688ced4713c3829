"""Traces and statistics of runs: a tracing hook with recorders, and metrics for Prometheus.

The OpenTelemetry adapter is `agent_actors.telemetry.otel`, which requires the extra `otel`.
"""

from agent_actors.telemetry.prometheus import prometheus_text as prometheus_text
from agent_actors.telemetry.recorders import JsonlTraceRecorder as JsonlTraceRecorder
from agent_actors.telemetry.recorders import MemoryTraceRecorder as MemoryTraceRecorder
from agent_actors.telemetry.recorders import SpanHandle as SpanHandle
from agent_actors.telemetry.recorders import TraceRecord as TraceRecord
from agent_actors.telemetry.recorders import TraceRecorder as TraceRecorder
from agent_actors.telemetry.recorders import current_trace_recorder as current_trace_recorder
from agent_actors.telemetry.recorders import read_trace as read_trace
from agent_actors.telemetry.recorders import use_trace_recorder as use_trace_recorder
from agent_actors.telemetry.tracing_hook import TracingHook as TracingHook
