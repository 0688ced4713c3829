"""The tracing hook, its recorders, and the drawing of a trace."""

import json
import logging
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.cli.trace import waterfall
from agent_actors.errors import ConfigError, ProviderStatusError
from agent_actors.telemetry import (
    JsonlTraceRecorder,
    MemoryTraceRecorder,
    TraceRecord,
    TracingHook,
    current_trace_recorder,
    read_trace,
    use_trace_recorder,
)
from agent_actors.testing import ScriptedModel, call, fail, say

LONG: Final = "x" * 600


@tool
async def shout(text: str) -> str:
    """Repeat a text."""
    recorder = current_trace_recorder()
    if recorder is not None:
        recorder.record_event("shouted", volume=11)
    if text == "fail":
        raise ValueError("too quiet")
    return text


def traced(text: str = LONG) -> AgentOptions:
    model = ScriptedModel([[say(LONG), call("shout", {"text": text}, id="c1")], "Done."])
    return AgentOptions(model="m", provider=model, tools=[shout], hooks=[TracingHook()])


@pytest.mark.feature("WICK-073", "WICK-074", "WICK-075", "WICK-077", "WICK-105")
async def test_model_and_tool_calls_are_spans() -> None:
    recorder = MemoryTraceRecorder()
    async with open_runtime() as runtime:
        with use_trace_recorder(recorder):
            await runtime.run("Go.", traced())
    first, event, ran, last = recorder.records
    assert (first.name, ran.name, last.name) == ("llm.call", "tool.call", "llm.call")
    assert first.attributes["message_count"] == 1
    assert first.attributes["content_length"] == 600
    assert first.attributes["content_preview"] == "x" * 500
    assert first.attributes["tool_calls_count"] == 1
    assert first.attributes["tool_call_names"] == ["shout"]
    assert last.attributes["message_count"] == 3
    assert ran.attributes["tool_name"] == "shout"
    assert ran.attributes["tool_call_id"] == "c1"
    assert ran.attributes["tool_args"] == {"text": LONG}
    assert ran.attributes["output_length"] == 600
    assert ran.attributes["output_preview"] == "x" * 500
    assert (event.kind, event.name, event.parent_id) == ("event", "shouted", ran.id)
    assert event.attributes == {"volume": 11}


@pytest.mark.feature("WICK-076")
async def test_hook_without_recorder_changes_nothing() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", traced())
    assert result.text == "Done."
    assert result.tool_calls[0].content == LONG
    assert current_trace_recorder() is None


@pytest.mark.feature("WICK-104")
async def test_failed_calls_record_their_errors() -> None:
    recorder = MemoryTraceRecorder()
    refused = fail(ProviderStatusError(endpoint="m", status=400, body_message="no", headers={}))
    async with open_runtime() as runtime:
        hooks = [TracingHook(recorder)]
        options = AgentOptions(model="m", provider=ScriptedModel([refused]), hooks=hooks)
        with pytest.raises(ProviderStatusError):
            await runtime.run("Go.", options)
        with use_trace_recorder(recorder):
            await runtime.run("Go.", traced(text="fail"))
    assert recorder.records[0].error == "ProviderStatusError: m: HTTP 400: no"
    (ran,) = (record for record in recorder.records if record.name == "tool.call")
    assert ran.attributes["is_error"] is True
    assert "too quiet" in str(ran.attributes["output_preview"])


async def test_cancelled_call_ends_its_span(autojump_clock: MockClock) -> None:
    recorder = MemoryTraceRecorder()

    @tool
    async def forever() -> None:
        """Wait."""
        await trio.sleep_forever()

    model = ScriptedModel([call("forever")])
    options = AgentOptions(
        model="m", provider=model, tools=[forever], hooks=[TracingHook(recorder)]
    )
    async with open_runtime() as runtime:
        with trio.move_on_after(1):
            await runtime.run("Go.", options)
    assert [(one.name, one.error) for one in recorder.records] == [
        ("llm.call", None),
        ("tool.call", "cancelled"),
    ]
    assert recorder.records[1].attributes["tool_name"] == "forever"


@pytest.mark.feature("WICK-078")
def test_span_is_set_in_a_chain() -> None:
    recorder = MemoryTraceRecorder()
    span = recorder.start_span("work", a=1).set(b=2).set(a=3)
    assert recorder.records == []
    span.end()
    span.end()
    (record,) = recorder.records
    assert record.attributes == {"a": 3, "b": 2}
    assert record.duration > 0


def test_spans_nest_and_restore_their_parent() -> None:
    recorder = MemoryTraceRecorder()
    with recorder.start_span("outer"):
        with pytest.raises(ZeroDivisionError), recorder.start_span("inner"):
            raise ZeroDivisionError("oh")
        recorder.record_event("after")
    inner, after, outer = recorder.records
    assert inner.parent_id == after.parent_id == outer.id
    assert (inner.error, outer.error, outer.parent_id) == ("ZeroDivisionError: oh", None, "")


def test_inner_recorder_applies_in_its_block() -> None:
    outer, inner = MemoryTraceRecorder(), MemoryTraceRecorder()
    with use_trace_recorder(outer):
        with use_trace_recorder(inner):
            assert current_trace_recorder() is inner
        assert current_trace_recorder() is outer
    assert current_trace_recorder() is None


def test_jsonl_trace_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with JsonlTraceRecorder(path) as recorder, recorder.start_span("outer", text="\ud800"):
        recorder.record_event("noted", n=1)
    recorder.record_event("too late")
    with path.open("a") as file:
        file.write('{"kind": "sp')  # a crash can leave an incomplete line
    noted, outer = read_trace(path)
    assert (noted.name, noted.parent_id, noted.attributes) == ("noted", outer.id, {"n": 1})
    assert outer.attributes == {"text": "\ud800"}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("line", ["[]", "{", '{"kind": "span"}', '{"other": 1}'])
def test_other_lines_are_rejected(tmp_path: Path, line: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ConfigError, match="line 1: expected a record of a trace"):
        read_trace(path)


def test_full_disk_drops_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(file: int, line: bytes) -> int:
        raise OSError(28, "No space left on device")

    with JsonlTraceRecorder(tmp_path / "trace.jsonl") as recorder:
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr("agent_actors.telemetry.recorders.os.write", refuse)
            recorder.record_event("lost")
        recorder.record_event("kept")
    assert [one.name for one in read_trace(tmp_path / "trace.jsonl")] == ["kept"]
    assert "No space left" in caplog.text


def span(name: str, begin: float, end: float, parent_id: str = "") -> TraceRecord:
    return TraceRecord("span", name, name, parent_id, begin, end - begin)


def test_waterfall_shows_spans_on_one_axis() -> None:
    records = [
        attrs.evolve(span("late", 5.0, 10.0), error="ValueError: no"),
        attrs.evolve(span("child", 2.5, 5.0, "root"), attributes={"tool_name": "add"}),
        attrs.evolve(span("root", 0.0, 5.0), attributes={"model": "m"}),
        TraceRecord("event", "noted", "", "root", 3.75),
    ]
    assert list(waterfall(records, width=44)) == [
        "                       0            10.00 s",
        "root m         5.00 s |##########          |",
        "  child add    2.50 s |     #####          |",
        "  noted         event |       *            |",
        "late           5.00 s |          ##########|  ValueError: no",
    ]


def test_waterfall_ends_despite_circular_parents() -> None:
    records = [span("a", 0, 1, parent_id="b"), span("b", 0, 1, parent_id="a"), span("c", 0, 0)]
    assert [line.split()[0] for line in list(waterfall(records))[1:]] == ["c"]
    assert list(waterfall([])) == ["the trace has no records"]


def test_record_as_json_has_every_field() -> None:
    record = span("a", 1.0, 2.0)
    assert TraceRecord(**json.loads(json.dumps(record.as_json()))) == record
