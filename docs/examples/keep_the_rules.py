"""Apply the deny rules of a run to an executor thread that one of its tools starts."""

from concurrent.futures import ThreadPoolExecutor

import trio

from agent_actors import AgentOptions, in_current_run, open_runtime, run_sync, tool
from agent_actors.permissions import PermissionPolicy
from agent_actors.testing import ScriptedModel, call, say


@tool
async def shell(command: str) -> str:
    """Run a shell command."""
    return f"ran {command}"


def ask_helper() -> str:
    # This second agent has no policy of its own. A script replaces its model.
    script = ScriptedModel([[call("shell", {"command": "rm notes"})], [say("I tried.")]])
    helper = AgentOptions(model="scripted", provider=script, tools=[shell])
    return str(run_sync("Tidy up.", helper).tool_calls[0].content)


@tool
def delegate() -> str:
    """Let another agent do the work in an executor thread."""
    with ThreadPoolExecutor() as executor:
        return executor.submit(in_current_run(ask_helper)).result()


async def main() -> None:
    options = AgentOptions(
        model="scripted",
        provider=ScriptedModel([[call("delegate")], [say("Done.")]]),
        tools=[delegate],
        permissions=PermissionPolicy(mode="bypass", deny=["shell(rm *)"]),
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Tidy my notes up.", options)
    print(result.tool_calls[0].content)


trio.run(main)
