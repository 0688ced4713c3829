"""Agents written for open-agent-sdk 0.4.2, and their ports to this library."""

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from agent_actors.testing import EndpointRequest, Reply, ScriptedEndpoint, call, reply, say
from tests.program_helpers import run_program

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "docs/examples"


@attrs.frozen
class Port:
    """An agent before and after porting, and a script for an endpoint that serves both versions."""

    before: Path
    after: Path
    script: Callable[[EndpointRequest], Reply]

    def changes(self) -> list[str]:
        """Return the changed lines, as a diff shows them; blank lines do not count."""
        before, after = (
            path.read_text(encoding="utf-8").splitlines() for path in (self.before, self.after)
        )
        lines = difflib.unified_diff(before, after, lineterm="", n=0)
        return [line for line in lines if line[:3] not in ("---", "+++", "@@ ") and line[1:]]

    async def output(self, python: Path | None = None) -> str:
        """Return the port's output, or with a Python that has open-agent-sdk, the original's."""
        async with ScriptedEndpoint(self.script) as endpoint:
            env = {**os.environ, "BASE_URL": endpoint.base_url, "MODEL": "scripted"}
            if python is None:
                done = await run_program(["-W", "error", str(self.after)], env=env)
            else:
                done = await trio.run_process(
                    [str(python), str(self.before)],
                    env=env,
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


def calculating(request: EndpointRequest) -> Reply:
    """Script an agent that adds, then multiplies, then reports the result."""
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    match len(results):
        case 0:
            return reply(say("Let me see. "), call("add", {"a": 2, "b": 3}))
        case 1:
            return reply(call("multiply", {"a": 5, "b": 4}))
        case _:
            return reply(say(f"It is {results[-1]}."))


def helping(request: EndpointRequest) -> Reply:
    """Script an agent that classifies a message in one word and uses tools to help with orders."""
    # open-agent-sdk adds an empty user message after tool results.
    last = next(m for m in reversed(request.messages) if m["role"] != "user" or m["content"])
    text = str(last["content"])
    if not request.tool_schemas:
        return reply("order" if "order" in text else "other")
    match text:
        case _ if last["role"] == "tool" and "lost" in text:
            return reply(call("refund", {"order": "b2", "euros": 80}))
        case _ if last["role"] == "tool":
            return reply(say("Found: ", text))
        case "Where is order a1?":
            return reply(call("find_order", {"order": "a1"}))
        case "My order b2 never came. I paid with a card and want my 80 euros back.":
            return reply(say("I see. "), call("find_order", {"order": "b2"}))
        case _:
            return reply("You are welcome.")


CALCULATOR = Port(
    HERE / "open_agent_sdk_calculator.txt", EXAMPLES / "calculator_by_hand.py", calculating
)
HELP_DESK = Port(HERE / "open_agent_sdk_help_desk.txt", EXAMPLES / "help_desk.py", helping)
