"""Test an agent: a script replaces the model, and a simulated hour takes no time."""

import trio
import trio.testing

from agent_actors import AgentOptions, RunResult, open_runtime, tool
from agent_actors.testing import ScriptedModel, call, say


@tool
async def bake(minutes: int) -> str:
    """Bake a cake."""
    await trio.sleep(minutes * 60)
    return "golden"


async def baked(model: ScriptedModel) -> RunResult:
    options = AgentOptions(model="scripted", provider=model, tools=[bake], tool_timeout=7200)
    async with open_runtime() as runtime:
        return await runtime.run("Bake two cakes.", options)


async def test_cakes_are_baked_in_parallel(autojump_clock: trio.testing.MockClock) -> None:
    calls = [call("bake", {"minutes": 60}), call("bake", {"minutes": 40})]
    model = ScriptedModel([calls, [say("Both are done.")]])
    result = await baked(model)
    assert result.text == "Both are done."
    assert [one.content for one in result.tool_calls] == ["golden", "golden"]
    assert result.duration < 61 * 60


async def test_model_learns_of_missing_argument(autojump_clock: trio.testing.MockClock) -> None:
    model = ScriptedModel([[call("bake", {"hours": 1})], [say("I see.")]])
    result = await baked(model)
    assert result.tool_calls[0].is_error
    assert "minutes" in model.requests[1].messages.last_content()


if __name__ == "__main__":
    for test in (test_cakes_are_baked_in_parallel, test_model_learns_of_missing_argument):
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(test, clock, clock=clock)
        print(test.__name__, "ok")
