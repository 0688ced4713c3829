"""Agents in the options, from code and from files."""

from pathlib import Path

import pytest

from agent_actors import AgentDefinition, AgentOptions, PermissionPolicy, tool
from agent_actors.errors import ConfigError
from agent_actors.testing import ScriptedModel

WORKER = AgentDefinition("Works.", "You are a worker.")


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in {where}"


@pytest.mark.feature("WICK-103")
def test_file_defines_agents(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "model: m\nagents:\n  worker:\n    description: Works.\n    prompt: Work!\n"
        "    tools: [look]\n    max_iterations: 3\n    permissions: plan\n"
    )
    options = AgentOptions.from_file(path, provider=ScriptedModel([]), tools=[look])
    worker = options.agents["worker"]
    assert (worker.prompt, worker.tools, worker.max_iterations) == ("Work!", ("look",), 3)
    assert isinstance(worker.permissions, PermissionPolicy)


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ({"worker": 1}, "expected an AgentDefinition or a table; got 1"),
        ({"worker": AgentDefinition}, "an instance, not the class"),
        ({"a worker": WORKER}, "is invalid"),
        ({"worker": {"prompt": "x"}}, "description is missing"),
        ({"worker": {"description": "x", "tool": []}}, "did you mean 'tools'"),
        ({"worker": AgentDefinition("x", tools=["luok"])}, "unknown tool 'luok'"),
        ([WORKER], "agents must map names"),
    ],
)
def test_wrong_agents_are_refused(agents: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AgentOptions(model="m", provider=ScriptedModel([]), tools=[look], agents=agents)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"description": " "}, "description must not be blank"),
        ({"description": 1}, "description must be a string; got 1"),
        ({"model": ""}, "model must be the name of a model"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0"),
        ({"max_iterations": 0}, "max_iterations must be an integer of at least 1"),
        ({"permissions": 1}, "permissions must be a PermissionPolicy"),
        ({"inherit_context": "yes"}, "inherit_context must be True or False"),
        ({"handler": "f"}, "handler must be a function"),
        ({"tools": "look"}, "tools must be a list of names and tools"),
    ],
)
def test_wrong_definitions_are_refused(fields: dict[str, object], message: str) -> None:
    table = {"description": "Works.", **fields}
    with pytest.raises(ConfigError, match=message):
        AgentOptions(model="m", provider=ScriptedModel([]), agents={"worker": table})
