"""Servers from other projects, as processes that end with the tests.

- aimock, from npm: a mock of many providers that responds from fixtures and can produce faults
- llmock, from PyPI: a mock that gets its instructions over HTTP and judges its clients
- llama.cpp's server, from PyPI as xllamacpp: real inference, with the model of `tiny_model`

`make foreign` installs each of them in its own environment. Each server listens on loopback, on a
port that the kernel chooses, and prints its address.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import pytest

from tests.conventions.tree import ROOT

ServerName = Literal["aimock", "llmock", "llama.cpp"]

PYTHON: Final = ROOT / ".venv-foreign" / "bin" / "python"
AIMOCK: Final = (
    ROOT / ".node-foreign" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
)
REQUIRED: Final = "FOREIGN_REQUIRED"
"""If this environment variable is set, a missing server fails a test instead of skipping it."""

_HELD: Final = Path(__file__).parent / "held.py"
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:[1-9]\d*")
# Seconds; a busy machine starts an interpreter slowly.
_START: Final = 60.0
_POLL: Final = 0.02


def missing(name: ServerName) -> str:
    """Return the missing parts of a server's installation; empty if it can be started."""
    if name == "aimock" and shutil.which("node") is None:
        return "aimock needs node, which is not installed"
    program = AIMOCK if name == "aimock" else PYTHON
    return "" if program.exists() else f"{name} is not installed: `make foreign` does it"


def _command(name: ServerName, fixtures: Sequence[Mapping[str, object]], at: Path) -> list[str]:
    if name == "aimock":
        file = at / "fixtures.json"
        file.write_text(json.dumps({"fixtures": list(fixtures)}), encoding="utf-8")
        return ["node", str(AIMOCK), "--port", "0", "--fixtures", str(file)]
    if name == "llmock":
        app = ["uvicorn", "--factory", "llmock.main:create_app"]
        return [str(PYTHON), "-m", *app, "--port", "0"]
    return [str(PYTHON), "-m", "tests.foreign_llm.llama_server", str(at / "tiny.gguf")]


@contextmanager
def served(
    name: ServerName, at: Path, fixtures: Sequence[Mapping[str, object]] = ()
) -> Generator[str]:
    """Start a server with its files in `at`, yield its address, and kill it at the end of the
    block.

    If the server is not installed, the test is skipped, or fails if `FOREIGN_REQUIRED` is set.
    """
    lacking = missing(name)
    if lacking and os.environ.get(REQUIRED):
        pytest.fail(lacking, pytrace=False)
    if lacking:
        pytest.skip(lacking)
    log = at / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, str(_HELD), *_command(name, fixtures, at)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as held,
    ):
        # The end of the block closes the server's standard input, which ends it, and waits for its
        # exit.
        yield _address(name, log, held)


def _address(name: str, log: Path, held: subprocess.Popen[bytes]) -> str:
    give_up = time.monotonic() + _START
    while time.monotonic() < give_up and held.poll() is None:
        if found := _ADDRESS.search(log.read_text(errors="replace")):
            return found[0]
        time.sleep(_POLL)
    said = log.read_text(errors="replace")[-2000:]
    pytest.fail(f"{name} did not start; it said:\n{said}", pytrace=False)
