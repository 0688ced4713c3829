"""Log what a runtime does, with the run's ids on each line."""

import logging

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.logs import RunIds
from agent_actors.testing import ScriptedModel, call

log = logging.getLogger("my_tools")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    log.info("add was called")
    return a + b


async def main() -> None:
    handler = logging.StreamHandler()
    handler.addFilter(RunIds())
    handler.setFormatter(
        logging.Formatter("%(levelname)s %(session_id)s %(request_id)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("agent_actors").setLevel(logging.DEBUG)

    model = ScriptedModel([call("add", {"a": 1, "b": 2}), "3"])
    options = AgentOptions(model="scripted", provider=model, tools=[add])
    async with open_runtime() as runtime:
        result = await runtime.run("1 + 2?", options, session_id="s", request_id="r")
    print(result.text)


trio.run(main)
