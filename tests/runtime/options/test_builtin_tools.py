"""Built-in tools that the options of an agent name."""

import pytest

from agent_actors import AgentOptions
from agent_actors.errors import ConfigError
from agent_actors.runtime.options.builtin_tools import BuiltinTools
from agent_actors.testing import MemoryWorkspace, ScriptedModel
from agent_actors.toolbox import presets
from agent_actors.tools.builtin_names import VOCABULARIES


def agent(*names: str) -> AgentOptions:
    return AgentOptions(
        model="m",
        provider=ScriptedModel(["Done."]),
        builtin_tools=names,
        workspace=MemoryWorkspace({}),
    )


def test_options_know_the_names_of_all_tools() -> None:
    assert dict(presets.PRESETS) == dict(VOCABULARIES)


def test_runs_share_the_tools_and_the_options() -> None:
    tools = BuiltinTools(presets.select)
    options, other = agent("Read", "Grep"), agent("Read", "Grep")
    completed = tools.added_to(options, has_workspace=True)
    assert [tool.name for tool in completed.tools] == ["Read", "Grep"]
    assert tools.added_to(options, has_workspace=True) is completed
    assert tools.added_to(other, has_workspace=True).tools == completed.tools


def test_confined_tool_needs_a_workspace() -> None:
    tools = BuiltinTools(presets.select)
    with pytest.raises(ConfigError, match="'Read' requires a workspace"):
        tools.added_to(agent("Read"), has_workspace=False)
