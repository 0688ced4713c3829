"""Test an agent over real HTTP: a local endpoint serves a script with faults."""

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.events import AttemptRestarted
from agent_actors.testing import (
    EndpointScript,
    ScriptedEndpoint,
    call,
    disconnect,
    reply,
    say,
    status,
)


@tool(read_only=True)
async def now() -> str:
    """Return the time of day."""
    return "noon"


async def main() -> None:
    script: EndpointScript = [
        status(503),  # retried
        call("now"),
        reply(say("It is "), disconnect(reset=True)),  # breaks off in the middle; also retried
        "It is noon.",
    ]
    restarts: list[str] = []

    async def note(event: AttemptRestarted) -> None:
        restarts.append(event.reason)

    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        options = AgentOptions(model="any", base_url=endpoint.base_url, tools=[now])
        with runtime.events.subscribe(note, AttemptRestarted) as watching:
            result = await runtime.run("What time is it?", options)
        await watching.ended.wait()

        assert result.text == "It is noon."
        assert [one.content for one in result.tool_calls] == ["noon"]
        assert len(endpoint.requests) == 4
        assert endpoint.requests[3].last_content == "noon"
        assert endpoint.requests[3].tool_names == ["now"]
        assert len(restarts) == 1
    assert endpoint.open_connections == 0
    print("ok")


trio.run(main)
