"""Every snippet of the docs is a file, and every file runs as printed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Those that tests of their own run: one names a port, and one serves for ever.
APART = {"first_agent", "web_service"}
EXAMPLES = [e for e in sorted((ROOT / "docs/examples").glob("*.py")) if e.stem not in APART]
# What the README's first agent names; nothing else in the tests listens on it.
FIRST_AGENT_PORT = 1234


@pytest.fixture
def endpoint_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a scripted endpoint in a process of its own."""
    command = [sys.executable, "-m", "agent_actors.testing", "--every", "0.001"]
    with subprocess.Popen(
        [*command, "--port", str(request.param)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()
        yield int(url.removesuffix("/v1").rpartition(":")[2])
        process.stdin.close()
        process.wait(timeout=10)


def run(example: Path, base_url: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        env={**os.environ, "BASE_URL": base_url, "MODEL": "scripted"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("endpoint_port", [FIRST_AGENT_PORT], indirect=True)
def test_the_first_agent_runs_as_printed(endpoint_port: int) -> None:
    output = run(ROOT / "docs/examples/first_agent.py", f"http://127.0.0.1:{endpoint_port}/v1")
    assert "All tools have answered" in output


@pytest.mark.parametrize("endpoint_port", [0], indirect=True)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.stem)
def test_every_example_runs(example: Path, endpoint_port: int) -> None:
    assert run(example, f"http://127.0.0.1:{endpoint_port}/v1").strip()


def test_the_first_agent_of_the_readme_is_the_file_and_fits_fifteen_lines() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source = (ROOT / "docs/examples/first_agent.py").read_text(encoding="utf-8")
    marked = re.search(
        r"<!-- docs/examples/first_agent\.py -->\n```python\n(.*?)```", readme, re.DOTALL
    )
    assert marked is not None
    assert marked[1] == source
    assert len(source.splitlines()) == 15


def test_every_file_that_readme_and_architecture_name_is_there() -> None:
    for page in (ROOT / "README.md", ROOT / "docs/architecture.md"):
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\((?!http)([^)#]+)\)", text)
        tests = re.findall(r"`(tests/[^`]+)`", text)
        for name in links:
            assert (page.parent / name).exists(), f"{page.name} names {name}"
        for pattern in tests:
            assert list(ROOT.glob(pattern.rstrip("/"))), f"{page.name} names {pattern}"
