"""The docs' claims about open-agent-sdk 0.4.2 hold, if the package is installed.

`python -m benchmarks.peers_setup` installs it into its own environment. It uses asyncio, so it runs
in separate processes, against our scripted endpoint.
"""

import json
import os
from pathlib import Path
from typing import cast

import pytest
import trio

from agent_actors.domain.json import JsonObject
from agent_actors.testing import (
    EndpointRequest,
    ReplyTurn,
    ScriptedEndpoint,
    call,
    chunk,
    hang,
    pause,
    reply,
    say,
    wait,
)
from benchmarks.peers_setup import python_of
from tests.docs.port_helpers import CALCULATOR, HELP_DESK, Port

PYTHON = python_of("open_agent_sdk")
SURPRISES = Path(__file__).parent / "open_agent_sdk_surprises.txt"
# Seconds; a program takes far less, so that only a hang fails.
PATIENCE = 60

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="`python -m benchmarks.peers_setup` installs open-agent-sdk"
)


@pytest.mark.parametrize("port", [CALCULATOR, HELP_DESK], ids=lambda port: port.after.stem)
async def test_original_and_port_print_the_same(port: Port) -> None:
    with trio.fail_after(PATIENCE):
        assert await port.output(PYTHON) == await port.output()


async def test_each_row_about_open_agent_sdk_holds() -> None:
    with trio.fail_after(PATIENCE):
        both = trio.Event()

        def script(request: EndpointRequest) -> ReplyTurn:
            if request.model == "echoes-slowly":
                if any(one.model == request.model for one in endpoint.requests[:-1]):
                    both.set()
                # Both responses begin long before either of them ends.
                return [say(request.last_content, "."), wait(both), pause(0.3), say(".")]
            return surprising(request)

        async with ScriptedEndpoint(script) as endpoint:
            done = await trio.run_process(
                [str(PYTHON), str(SURPRISES)],
                env={**os.environ, "BASE_URL": endpoint.base_url},
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
    assert done.returncode == 0, done.stderr.decode()
    results = cast("JsonObject", json.loads(done.stdout))
    mixed, errors = results.pop("two runs"), results.pop("two runs, errors")
    assert isinstance(mixed, list)
    assert isinstance(errors, list)
    # It is random which run comes first, and which of them fails.
    assert sorted(map(str, mixed[:2])) == ["a", "b"]
    assert mixed[2:] in (["a.."], ["b.."])
    assert sorted(map(str, errors)) == ["AttributeError", "NoneType"]
    assert results == {
        "tools": ["begins", "ends", "begins", "ends"],
        "first block": "waits for the last",
        "interrupt, tool": "still runs",
        "interrupt, open calls": 2,
        "blocked, history": [
            {"role": "user", "content": "Do both."},
            {"role": "assistant", "content": ""},
        ],
        "turns of at most 1": 2,
        "answers of at most 2": 3,
        "after the last, open calls": 1,
        "ha, ha, !": "ha!",
        "text and call": ["text"],
        "object arguments": ["{}"],
        "goes on with": ["user ''"],
        "sent": ["system system user"],
        "results of two calls": 4,
        "asked in the loop": ["user", "assistant", "tool", "user"],
        "asked in the loop, then": "Call query() or _continue_turn() first",
        "beats while a sync tool runs": 0,
        "cut to two": ["tool", "assistant"],
    }


def surprising(request: EndpointRequest) -> ReplyTurn:
    """Return what the program's rows need; the model's name selects the row."""
    last = request.messages[-1]
    if request.model == "always-calls":
        return call("slow", {})
    if request.model == "tells-the-last-role" and len(request.messages) > 2:
        return f"{last['role']} {last['content']!r}"
    if any(message["role"] == "tool" for message in request.messages):
        return "Done."
    match request.model:
        case "two-slow":
            return [call("slow", {}), call("slow", {})]
        case "says-and-hangs":
            return [say("one"), hang()]
        case "ha-ha":
            return say("ha", "ha", "!")
        case "text-and-call":
            return reply(chunk(delta("Look.", "slow", "{}")))
        case "object-arguments":
            return reply(chunk(delta("", "add", {"a": 1})))
        case "tells-the-last-role" | "one-call":
            return call("add", {"a": 1})
        case "tells-the-roles":
            return " ".join(str(message["role"]) for message in request.messages)
        case _:
            return "Fine."


def delta(text: str, name: str, arguments: str | JsonObject) -> JsonObject:
    """Return a chunk that contains both text and a tool call."""
    entry: JsonObject = {
        "index": 0,
        "id": "c",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    choice: JsonObject = {
        "index": 0,
        "delta": {"role": "assistant", "content": text, "tool_calls": [entry]},
        "finish_reason": "tool_calls",
    }
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}
