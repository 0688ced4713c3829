"""Observe the events of a session, replay earlier events, and publish your own events."""

from functools import partial
from typing import ClassVar

import attrs
import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.events import Event, ResultEvent, ToolResult
from agent_actors.testing import ScriptedModel, call


@attrs.frozen
class Deployed(Event):
    type: ClassVar[str] = "app.deployed"
    recorded: ClassVar[bool] = False
    release: str


async def watch(event: Event) -> None:
    print(f"{event.session_id}: {event.seq or '-'} {event.type}")


async def count(event: Event) -> None:
    print("late:", event.seq, event.type)


async def main() -> None:
    async with open_runtime() as runtime:

        @tool
        async def deploy(release: str) -> str:
            """Deploy a release."""
            runtime.events.notify("Half way.")  # belongs to the current run
            runtime.events.publish(partial(Deployed, release=release))
            return "deployed"

        model = ScriptedModel([call("deploy", {"release": "1.2"}), "Done.", "You are welcome."])
        options = AgentOptions(model="scripted", provider=model, tools=[deploy])
        with runtime.events.subscribe(watch, session_id="s") as watching:
            await runtime.run("Deploy 1.2.", options, session_id="s")
        await watching.ended.wait()

        # Recorded events arrive first, then new events; each record arrives exactly once.
        late = runtime.events.subscribe(count, ToolResult, ResultEvent, session_id="s", replay=True)
        await runtime.run("Thank you.", options, session_id="s")
    print("late:", late.end_reason, late.statistics().delivered)


trio.run(main)
