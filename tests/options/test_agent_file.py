"""Files that describe an agent by names."""

import logging
from pathlib import Path

import pytest

from agent_actors import AgentOptions, AgentRegistry, tool
from agent_actors.errors import ConfigError
from agent_actors.options.workspace_config import WorkspaceConfig
from agent_actors.testing import ScriptedModel

EXAMPLE = Path(__file__).parents[2] / "docs/examples/agents/code-assistant.yaml"
START = "name: a\nmodel: m\nbase_url: http://localhost:1/v1\n"


@tool
def look() -> str:
    """Look."""
    return "ok"


async def gate(_: object) -> None:
    """Allow everything."""


REGISTRY = AgentRegistry(
    tools={"look": look},
    hooks={"gate": {"before_tool": gate}},
    providers={"mine": ScriptedModel(["Hi."])},
)


def load(folder: Path, text: str) -> AgentOptions:
    path = folder / "agent.yaml"
    path.write_text(text)
    return AgentOptions.from_file(path, registry=REGISTRY)


@pytest.mark.feature("WICK-086", "WICK-087")
def test_example_describes_an_agent() -> None:
    options = AgentOptions.from_file(EXAMPLE)
    assert (options.agent_name, options.model) == ("code-assistant", "qwen3-32b")
    assert (options.base_url, options.temperature) == ("http://localhost:1234/v1", 0.2)
    assert options.builtin_tools == ("Read", "Glob", "Grep", "Edit", "TodoWrite")
    root = EXAMPLE.parent / "../../.."
    assert options.workspace == WorkspaceConfig("local", {"root": root})
    assert options.skill_paths == (root / ".agents/skills",)
    assert options.memory_paths == (root / "AGENTS.md",)


@pytest.mark.feature("WICK-088")
def test_names_are_resolved_in_the_registry(tmp_path: Path) -> None:
    text = START + "tools: [look, WebFetch]\nhooks: [gate]\nprovider: mine\n"
    options = load(tmp_path, text.replace("base_url: http://localhost:1/v1\n", ""))
    assert list(options.tools_by_name) == ["look"]
    assert options.builtin_tools == ("WebFetch", "TodoWrite")
    assert options.hook_chain
    assert options.provider is REGISTRY.providers["mine"]


@pytest.mark.feature("WICK-090", "WICK-091")
def test_files_are_used_only_with_backend(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    text = START + "tools: [Read, code]\nskills: {paths: [s]}\nmemory: {paths: [m.md]}\n"
    without = load(tmp_path, text)
    assert without.builtin_tools == ("TodoWrite",)
    assert (without.skill_paths, without.memory_paths) == ((), ())
    assert "skills of the agent 'a' are not used without a backend" in caplog.text
    backed = load(tmp_path, text + "backend: {type: local}\n")
    assert backed.builtin_tools == ("Read", "code")
    assert backed.skill_paths == (tmp_path / "s",)
    assert backed.memory_paths == (tmp_path / "m.md",)
    assert load(tmp_path, START).builtin_tools == ("TodoWrite",)
    assert load(tmp_path, START + "backend: {type: local}\n").builtin_tools == ("code",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tools: [lok]\n", "there is no tool 'lok'; did you mean 'look'"),
        ("hooks: [gat]\n", "there is no hook 'gat'; did you mean 'gate'"),
        ("tools: look\n", "tools must be a list of names; got 'look'"),
        ("skills: [a]\n", "skills must be a table with the field paths"),
        ("memory: {paths: a}\n", "memory.paths must be a list of names"),
        ("agent_name: b\n", "name and agent_name are the same field"),
        ("colour: red\n", "unknown field 'colour'"),
        ("skill_paths: [1]\n", "skill_paths must be a list of paths"),
        ("project_dir: 1\n", "project_dir must be a path"),
        ("setting_sources: [projct]\n", "setting_sources must contain only 'user', 'project'"),
    ],
)
def test_invalid_agent_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, START + text)
    assert expected in str(caught.value)
    assert "agent.yaml: " in str(caught.value)


def test_model_table_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="model has no field 'temprature'; did you mean"):
        load(tmp_path, "name: a\nmodel: {name: m, temprature: 1}\n")
    with pytest.raises(ConfigError, match="temperature is set both inside model"):
        load(tmp_path, "name: a\ntemperature: 1\nmodel: {name: m, temperature: 1}\n")
