import signal
import socket
import subprocess
import sys
from typing import Final

import httpx
import pytest

from tests.testing.raw_client import QUESTION

# Seconds; only a failing test waits so long.
PATIENCE: Final = 20.0


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "agent_actors.testing", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_program_prints_url_and_follows_stdin() -> None:
    with start("--port", "0", "--tools", "0", "--deltas", "3", "--every", "0") as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        answer = httpx.post(f"{url}/chat/completions", json=QUESTION, timeout=PATIENCE)
        assert answer.text.count('"content"') == 4
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("arguments", [[], ["--keep"]])
def test_ctrl_c_prints_no_traceback(arguments: list[str]) -> None:
    with start(*arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_program_may_run_without_stdin() -> None:
    with start("--keep", "--tools", "0") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()
        process.stdin.close()
        assert httpx.get(f"{url}/models", timeout=PATIENCE).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 0


@pytest.mark.parametrize(
    ("port", "status", "expected"),
    [("", 1, "another port, or 0"), ("70000", 2, "65535; got 70000"), ("x", 2, "'x'")],
)
def test_unusable_port_is_named_without_traceback(port: str, status: int, expected: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = port or str(taken.getsockname()[1])
        with start("--port", port) as process:
            out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (status, "")
    assert port in err
    assert expected in err
    assert "Traceback" not in err
