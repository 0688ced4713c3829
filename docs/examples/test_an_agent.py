"""Test an agent without a model: a script replaces the model, and time is virtual."""

import trio
import trio.testing

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.testing import ScriptedModel, call, say


@tool
async def slow_add(a: int, b: int) -> int:
    """Add two numbers, slowly."""
    await trio.sleep(60)
    return a + b


async def main() -> None:
    model = ScriptedModel([[call("slow_add", {"a": 1, "b": 2})], [say("It is 3.")]])
    options = AgentOptions(model="scripted", provider=model, tools=[slow_add])
    async with open_runtime() as runtime:
        result = await runtime.run("What is 1 + 2?", options)
    assert result.text == "It is 3."
    assert [c.content for c in result.tool_calls] == ["3"]
    print("ok")


trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
