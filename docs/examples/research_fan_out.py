"""Let one agent start several researchers at once, within one budget."""

import trio

from agent_actors import AgentDefinition, AgentOptions, UsageLimits, open_runtime, tool
from agent_actors.domain.model import ModelRequest
from agent_actors.testing import ScriptedModel, Turn, call

NOTES = {"tides": "The moon causes two tides a day.", "wind": "Sea wind begins at noon."}


@tool(read_only=True, open_world=False)
async def search_notes(topic: str) -> str:
    """Search the notes for a topic."""
    return NOTES[topic]


def script(request: ModelRequest) -> Turn:
    """Replace a model: the root starts a researcher per topic; each of them searches once."""
    last = request.messages.last()
    assert last is not None
    if request.system_prompt.startswith("You research"):
        return (
            last.content if last.role == "tool" else call("search_notes", {"topic": last.content})
        )
    if last.role == "tool":
        return "The report is ready."
    return [call("Task", {"agent": "researcher", "prompt": topic}) for topic in NOTES]


options = AgentOptions(
    model="scripted",
    provider=ScriptedModel(script),
    tools=[search_notes],
    agents={
        "researcher": AgentDefinition(
            "Finds out all about one topic.",
            "You research one topic and answer in one sentence.",
            tools=["search_notes"],
            timeout=120,
        )
    },
    limits=UsageLimits(requests=20),
)


async def main() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Write a report about the sea.", options)
        print(result.text)
        for agent in sorted(result.subagents, key=lambda one: one.text):
            print(f"{agent.agent_name}: {agent.text} ({agent.stop_reason})")
        print(result.usage_total.total_tokens > result.usage.total_tokens)

        direct = await runtime.run("tides", options, target_subagent="researcher")
        print(direct.text)


if __name__ == "__main__":
    trio.run(main)
