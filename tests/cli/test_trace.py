"""`agent-actors trace`: it draws a file, and reports files that it cannot read."""

from pathlib import Path

import pytest

from agent_actors.cli import main
from agent_actors.cli.outcome import FAILED, MISUSED
from agent_actors.telemetry import JsonlTraceRecorder


def test_trace_of_a_file_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    with JsonlTraceRecorder(path) as recorder, recorder.start_span("outer\x1b"):
        recorder.record_event("inner")
    assert main(["trace", str(path)]) == 0
    _, outer, inner = capsys.readouterr().out.splitlines()
    assert outer.startswith("outer")
    assert "\x1b" not in outer
    assert "#" in outer
    assert inner.startswith("  inner")


def test_unreadable_traces_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    assert main(["trace", str(path)]) == FAILED
    assert "No such file" in capsys.readouterr().err
    path.write_text("hello\n")
    assert main(["trace", str(path)]) == MISUSED
    assert "line 1: expected a record of a trace" in capsys.readouterr().err
