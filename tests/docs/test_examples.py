"""Every snippet in the docs comes from a file, and every file runs as printed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.program_helpers import output_of

ROOT = Path(__file__).parents[2]
# Examples with their own tests: one names an endpoint, and two are servers that run until stopped.
APART = {"first_agent", "web_service", "web_service_asyncio"}
EXAMPLES = [e for e in sorted((ROOT / "docs/examples").glob("*.py")) if e.stem not in APART]
# The endpoint's URL in the README's first agent.
FIRST_AGENT_URL = "http://localhost:1234/v1"


@pytest.fixture(scope="module")
def endpoint_url() -> Iterator[str]:
    """The base URL of a scripted endpoint that runs in its own process."""
    with subprocess.Popen(
        [sys.executable, "-m", "agent_actors.testing", "--every", "0.001"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(timeout=10)


def run(example: Path, base_url: str) -> str:
    env = {**os.environ, "BASE_URL": base_url, "MODEL": "scripted"}
    return output_of(["-W", "error", str(example)], env=env)


@pytest.mark.feature("OAS-119")
def test_first_agent_runs_against_scripted_endpoint(endpoint_url: str, tmp_path: Path) -> None:
    printed = (ROOT / "docs/examples/first_agent.py").read_text(encoding="utf-8")
    assert printed.count(FIRST_AGENT_URL) == 1
    agent = tmp_path / "first_agent.py"
    # On a developer's machine, a real endpoint may use the port that the example names.
    agent.write_text(printed.replace(FIRST_AGENT_URL, endpoint_url), encoding="utf-8")
    assert "All tools have returned" in run(agent, endpoint_url)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.stem)
def test_every_example_runs(example: Path, endpoint_url: str) -> None:
    assert run(example, endpoint_url).strip()


def test_readme_agent_is_the_example_file() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source = (ROOT / "docs/examples/first_agent.py").read_text(encoding="utf-8")
    marked = re.search(
        r"<!-- docs/examples/first_agent\.py -->\n```python\n(.*?)```", readme, re.DOTALL
    )
    assert marked is not None
    assert marked[1] == source
    assert len(source.splitlines()) == 15


def test_named_files_exist() -> None:
    for page in (ROOT / "README.md", ROOT / "docs/architecture.md"):
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\((?!http)([^)#]+)\)", text)
        tests = re.findall(r"`(tests/[^`]+)`", text)
        for name in links:
            assert (page.parent / name).exists(), f"{page.name} names {name}"
        for pattern in tests:
            assert list(ROOT.glob(pattern.rstrip("/"))), f"{page.name} names {pattern}"
