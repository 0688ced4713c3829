"""The options `workspace` and `builtin_tools`: accepted forms, errors, and files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_actors import AgentOptions
from agent_actors.abc import Workspace
from agent_actors.domain.run import RunInfo
from agent_actors.domain.workspace.processes import ProcessLimits
from agent_actors.errors import ConfigError
from agent_actors.options.workspace_config import (
    WorkspaceConfig,
    WorkspaceSource,
    as_workspace,
    same_source,
)

build: Callable[..., AgentOptions] = AgentOptions
URL = "http://localhost:1/v1"


def made(**fields: object) -> AgentOptions:
    return build(model="m", base_url=URL, **fields)


def test_workspace_table_becomes_a_configuration() -> None:
    table = {
        "type": "bubblewrap",
        "network": ["pypi.org"],
        "allowed_paths": ["/data"],
        "limits": {"processes": 9, "cpu_seconds": None},
    }
    config = made(workspace=table).workspace
    assert isinstance(config, WorkspaceConfig)
    assert config.type == "bubblewrap"
    assert config.settings["limits"] == ProcessLimits(processes=9, cpu_seconds=None)
    assert config.settings["allowed_paths"] == ("/data",)
    assert config.settings["network"] == ("pypi.org",)
    assert config == as_workspace(table)
    assert hash(config) == hash(as_workspace(table))
    assert config != as_workspace({**table, "network": False})
    assert made(workspace=config).evolve(model="n").workspace == config


def test_workspace_settings_are_validated() -> None:
    wrong: list[tuple[dict[str, object], str]] = [
        ({"type": "locl"}, "unknown type 'locl'; did you mean 'local'"),
        ({"root": "."}, "type is missing; expected one of local"),
        ({"type": "local", "rot": "."}, "has no field 'rot'; did you mean 'root'"),
        ({"type": "local", "root": 5}, "root must be a path; got 5"),
        ({"type": "local", "read_only": 1}, "read_only must be True or False; got 1"),
        ({"type": "local", "allowed_paths": "/x"}, "allowed_paths must be a list of strings"),
        ({"type": "local", "protected": [5]}, "protected must be a list of strings"),
        ({"type": "local", "processes": "free"}, "must be 'refused' or 'unconfined'; got 'free'"),
        ({"type": "bubblewrap", "network": "x"}, "network must be True, False or a list of hosts"),
        ({"type": "bubblewrap", "network": [5]}, "network must be a list of strings"),
        ({"type": "bubblewrap", "network": ["https://x"]}, "network: domain:https://x: expected"),
        ({"type": "local", "limits": 5}, "limits must be a ProcessLimits or a table; got 5"),
        (
            {"type": "local", "limits": {"processs": 1}},
            "no field 'processs'; did you mean",
        ),
        ({"type": "local", "limits": {"processes": 0}}, "processes must be a number above 0"),
        ({"type": "docker"}, "type 'docker' requires image, for example"),
        ({"type": "podman", "image": ""}, "image must be a text that is not empty; got ''"),
        ({"type": "podman", "image": "x", "root": "."}, "type 'podman' has no field 'root'"),
        (
            {"type": "docker", "image": "x", "mounts": ["."]},
            "mounts must be a table of directories",
        ),
    ]
    for fields, message in wrong:
        with pytest.raises(ConfigError, match=message):
            made(workspace=fields)
    with pytest.raises(ConfigError, match="workspace must be a Workspace, a function"):
        made(workspace=5)
    with pytest.raises(ConfigError, match=r"not a class; write workspace=Path\(...\)"):
        made(workspace=Path)
    limits = ProcessLimits(processes=1)
    config = as_workspace({"type": "bubblewrap", "network": True, "limits": limits})
    assert isinstance(config, WorkspaceConfig)
    assert dict(config.settings) == {"network": True, "limits": limits}


def test_container_table_becomes_a_configuration() -> None:
    table = {"type": "podman", "image": "python:3.13", "workdir": "/w", "mounts": {Path("a"): "/w"}}
    config = as_workspace(table)
    assert isinstance(config, WorkspaceConfig)
    assert dict(config.settings) == {
        "image": "python:3.13",
        "workdir": "/w",
        "mounts": {"a": "/w"},
    }
    assert config == as_workspace(table)


def test_equal_functions_are_the_same_factory() -> None:
    def factory(root: str) -> WorkspaceSource:
        def make(info: RunInfo) -> Workspace:
            raise LookupError(info, root)

        return make

    one, same, other = factory("a"), factory("a"), factory("b")
    assert same_source(one, same)
    assert not same_source(one, other)

    def early(_: RunInfo) -> Workspace:
        raise LookupError(later)

    assert not same_source(early, one)
    assert same_source(early, early)
    later = 5


@pytest.mark.feature("ASDK-062")
def test_builtin_names_are_checked_early() -> None:
    assert made(builtin_tools="code").builtin_tools == ("code",)
    assert made(builtin_tools=["Read", "ls"], tool_choice="ls").tool_choice == "ls"
    with pytest.raises(ConfigError, match="unknown built-in tool 'Raed'; did you mean 'Read'"):
        made(builtin_tools=["Raed"])
    with pytest.raises(ConfigError, match="tool_choice 'Bash' is not a tool"):
        made(builtin_tools=["Read"], tool_choice="Bash")


def test_root_is_relative_to_its_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("builtin_tools: [code]\nworkspace: {type: local, root: src}\n")
    config = AgentOptions.from_file(path, model="m", base_url=URL).workspace
    assert isinstance(config, WorkspaceConfig)
    assert config.settings["root"] == tmp_path / "src"
    path.write_text("workspace: {type: docker, image: python, mounts: {src: /w}}\n")
    config = AgentOptions.from_file(path, model="m", base_url=URL).workspace
    assert isinstance(config, WorkspaceConfig)
    assert config.settings["mounts"] == {str(tmp_path / "src"): "/w"}
    path.write_text("workspace: local\n")
    with pytest.raises(ConfigError, match="workspace must be a table"):
        AgentOptions.from_file(path, model="m", base_url=URL)
