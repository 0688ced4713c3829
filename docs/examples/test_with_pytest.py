"""Test an agent with the fixtures for pytest."""

import subprocess
import sys

import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, tool
from agent_actors.events import ResultEvent, ToolResult, ToolUse
from agent_actors.testing import call, check_events, like, status
from agent_actors.testing.pytest_plugin import MakeModel, StartEndpoint, UseRecording


@tool
async def bake(minutes: int) -> str:
    """Bake a cake."""
    await trio.sleep(minutes * 60)
    return "golden"


async def test_cake_is_baked(
    runtime: Runtime, scripted_model: MakeModel, virtual_clock: MockClock
) -> None:
    model = scripted_model([call("bake", {"minutes": 40}), "It is done."])
    agent = AgentOptions(model="scripted", provider=model, tools=[bake], tool_timeout=7200)
    async with runtime.stream("Bake a cake.", agent) as stream:
        events = [event async for event in stream]
    check_events(
        events,
        like(ToolUse, name="bake", input={"minutes": 40}),
        like(ToolResult, content="golden", is_error=False),
        like(ResultEvent, stop_reason="completed"),
    )


async def test_busy_endpoint_is_asked_again(
    runtime: Runtime, scripted_endpoint: StartEndpoint
) -> None:
    endpoint = scripted_endpoint([status(503, headers={"retry-after": "0"}), "It is done."])
    agent = AgentOptions(model="any", base_url=endpoint.base_url)
    assert (await runtime.run("Bake a cake.", agent)).text == "It is done."
    assert len(endpoint.requests) == 2


async def test_real_model_answers(runtime: Runtime, recorded_client: UseRecording) -> None:
    agent = AgentOptions(
        model="qwen3-32b",
        base_url="http://localhost:1234/v1",
        http_client=recorded_client(record="recordings/noon.json"),
    )
    result = await runtime.run("Say noon.", agent)
    assert result.text == "It is noon."


if __name__ == "__main__":
    # In a project, name the plugin in conftest.py, and run pytest.
    plugin = ["-p", "agent_actors.testing.pytest_plugin"]
    subprocess.run([sys.executable, "-m", "pytest", "-q", *plugin, __file__], check=True)
