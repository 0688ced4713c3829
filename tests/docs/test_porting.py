"""An agent written for open-agent-sdk 0.4.2 ports with fewer than five lines changed."""

import difflib
import os
import re
import sys
from pathlib import Path

import pytest
import trio

from agent_actors.testing import EndpointRequest, Reply, ScriptedEndpoint, call, reply, say

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BEFORE = HERE / "open_agent_sdk_calculator.txt"
AFTER = ROOT / "docs/examples/calculator_by_hand.py"
AUTOMATIC = ROOT / "docs/examples/calculator_automatic.py"


def changes() -> list[str]:
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (BEFORE, AFTER))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
    return [line for line in lines if not line.startswith("@@")]


@pytest.mark.feature("OAS-117")
def test_fewer_than_five_lines_change() -> None:
    changed = changes()
    gone = [line for line in changed if line.startswith("-")]
    come = [line for line in changed if line.startswith("+")]
    assert len(gone) == len(come) == 3
    assert "open_agent" in BEFORE.read_text(encoding="utf-8")


def test_the_page_shows_these_lines() -> None:
    page = (ROOT / "docs/how-to/client.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- diff -->\n```diff\n(.*?)\n```", page, re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines() == changes()


def calculating(request: EndpointRequest) -> Reply:
    """Adds, then multiplies, then says what it came to."""
    messages = request.body["messages"]
    assert isinstance(messages, list)
    results = [m["content"] for m in messages if isinstance(m, dict) and m["role"] == "tool"]
    match len(results):
        case 0:
            return reply(say("Let me see. "), call("add", {"a": 2, "b": 3}))
        case 1:
            return reply(call("multiply", {"a": 5, "b": 4}))
        case _:
            return reply(say(f"It is {results[-1]}."))


@pytest.mark.feature("OAS-118")
@pytest.mark.parametrize(
    ("example", "told"),
    [
        (AFTER, 'Let me see. It is {"result": 20}.'),
        (AUTOMATIC, "-> multiply({'a': 5, 'b': 4})\n<- 20"),
    ],
)
async def test_the_calculator_calculates(example: Path, told: str) -> None:
    async with ScriptedEndpoint(calculating) as endpoint:
        done = await trio.run_process(
            [sys.executable, "-W", "error", str(example)],
            env={**os.environ, "BASE_URL": endpoint.base_url, "MODEL": "scripted"},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert told in done.stdout.decode()
