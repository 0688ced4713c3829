"""The servers of these tests end with the tests, and a server that is not installed is named."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.foreign_llm import servers
from tests.foreign_llm.servers import REQUIRED, served
from tests.foreign_llm.tiny_model import ANSWER, CITIES, GREETING, LOOKING, vocabulary

HELD = Path(servers.__file__).parent / "held.py"
# A program with a child process; both hold the standard output open.
FAMILY = "import subprocess, sys; print(1, flush=True); subprocess.run(['sleep', '600'])"


def held(program: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HELD), sys.executable, "-c", program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_server_tree_ends_with_stdin() -> None:
    with held(FAMILY) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.stdin.close()
        # The read ends only when no process is left that could write to the pipe.
        assert process.stdout.read() == b""
    assert process.returncode != 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_server_tree_ends_with_signal(number: signal.Signals) -> None:
    with held(FAMILY) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(number)
        assert process.stdout.read() == b""
    assert process.returncode == 128 + number


def test_exit_status_is_passed_on() -> None:
    with held("raise SystemExit(3)") as process:
        assert process.wait() == 3


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Path("/nowhere")
    monkeypatch.setattr(servers, "PYTHON", nowhere)
    monkeypatch.setattr(servers, "AIMOCK", nowhere)
    monkeypatch.delenv(REQUIRED, raising=False)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("name", ["aimock", "llmock", "llama.cpp"])
def test_missing_server_is_named(
    name: servers.ServerName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(pytest.skip.Exception, match=f"{name} .*not installed"),
        served(name, tmp_path),
    ):
        pass
    monkeypatch.setenv(REQUIRED, "1")
    with (
        pytest.raises(pytest.fail.Exception, match=f"{name} .*not installed"),
        served(name, tmp_path),
    ):
        pass


def test_tiny_model_repeats_its_texts() -> None:
    tokens, kinds, paths = vocabulary()
    assert len(tokens) == len(set(tokens)) == len(kinds)
    inner = [token for path in paths for token in path[:-1]]
    assert len(inner) == len(set(inner))
    texts = [text_of(path[1:-1]) for path in paths]
    assert texts[0] == GREETING
    assert texts[1].startswith(LOOKING)
    assert [texts[1].count(city) for city in CITIES] == [1, 1]
    assert texts[2] == ANSWER


def text_of(tokens: list[str]) -> str:
    """Return the text that a tokenizer makes of these tokens."""
    found = b""
    for token in tokens:
        if token.startswith("<0x"):
            found += bytes([int(token[1:-1], 16)])
        else:
            found += token.replace("\u2581", " ").encode()
    return found.decode()
