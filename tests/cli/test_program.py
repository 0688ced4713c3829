"""The program's name, its help, and its messages for wrong arguments."""

import json
import os
import pty
from pathlib import Path

import pytest
import trio

from agent_actors import __version__
from tests.cli.helpers import PATIENCE, PROGRAM, Ended, agent_actors, environment


@pytest.mark.feature("OAGS-002")
async def test_help_names_the_program_and_its_commands() -> None:
    ended = await agent_actors("--help")

    assert (ended.status, ended.err) == (0, "")
    assert "Usage: agent-actors COMMAND" in ended.out
    assert "demo" in ended.out
    assert "run" in ended.out


@pytest.mark.feature("OAGS-001")
async def test_program_runs_anywhere_and_prints_version() -> None:
    (folder,) = environment()["PYTHONPATH"].split(os.pathsep)
    assert not (Path(folder) / "agent_actors").exists()
    assert await agent_actors("--version", fresh=True) == Ended(0, f"{__version__}\n", "")


@pytest.mark.feature("OAGS-002")
async def test_a_demo_prints_one_json_object() -> None:
    ended = await agent_actors("demo", "--sessions", "20", "--tools", "8", "--json")

    assert (ended.status, ended.err) == (0, "")
    assert ended.out.count("\n") == 1
    report = json.loads(ended.out)
    assert list(report) == [
        "sessions",
        "runs",
        "tool_calls",
        "max_tools_in_parallel",
        "deltas",
        "deltas_per_s",
        "ttft_ms_p50",
        "ttft_ms_p99",
        "busy_rejections",
        "leaked_tasks",
        "leaked_connections",
    ]
    # Each session has an opening of five words and a response of fifty.
    assert (report["sessions"], report["runs"], report["deltas"]) == (20, 20, 20 * 55)
    assert report["tool_calls"] == 160
    assert 8 < report["max_tools_in_parallel"] <= 160
    assert report["busy_rejections"] == 2
    assert (report["leaked_tasks"], report["leaked_connections"]) == (0, 0)
    assert report["deltas_per_s"] > 0
    assert 0 < report["ttft_ms_p50"] <= report["ttft_ms_p99"]


async def test_demo_shows_progress_then_table() -> None:
    ours, theirs = pty.openpty()
    try:
        with trio.fail_after(PATIENCE):
            done = await trio.run_process(
                [*PROGRAM, "demo", "--sessions", "3", "--tools", "4"],
                stdout=theirs,
                env=environment({"TERM": "xterm"}),
            )
        os.set_blocking(ours, False)
        shown = b""
        while len(piece := _read(ours)):
            shown += piece
    finally:
        os.close(ours)
        os.close(theirs)

    assert done.returncode == 0
    text = shown.decode()
    assert "sessions done" in text
    assert "3 of 3" in text
    assert text.index("tools running") < text.index("most tools at once")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except BlockingIOError:
        return b""
