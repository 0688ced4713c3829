"""The option `checkpoints`: its short forms, and its errors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_actors import AgentOptions, Checkpoints
from agent_actors.errors import ConfigError

build: Callable[..., AgentOptions] = AgentOptions


def made(value: object) -> Checkpoints | None:
    return build(model="m", base_url="http://localhost:1/v1", checkpoints=value).checkpoints


def test_short_forms_become_checkpoints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    default = Checkpoints(directory=tmp_path / "agent-actors/checkpoints")
    assert [made(None), made(False), made(True), made(default)] == [None, None, default, default]
    assert made("copies") == Checkpoints(directory=Path.cwd() / "copies")
    table = {"directory": tmp_path, "max_files": 3}
    assert made(table) == Checkpoints(directory=tmp_path, max_files=3)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Checkpoints().directory == tmp_path / ".local/state/agent-actors/checkpoints"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "checkpoints must be True, False, a directory, a table or Checkpoints; got 5"),
        ({"max_file": 1}, "has no field 'max_file'; did you mean"),
        ({"max_files": 0}, "max_files must be an integer of at least 1; got 0"),
        ({"max_bytes": True}, "max_bytes must be an integer of at least 1; got True"),
        ({"directory": 5}, "directory must be a path; got 5"),
    ],
)
def test_invalid_checkpoints_are_refused(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(value)


def test_checkpoints_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("checkpoints: {directory: copies, max_files: 7}\n")
    options = AgentOptions.from_file(path, model="m", base_url="http://localhost:1/v1")
    assert options.checkpoints is not None
    assert options.checkpoints.max_files == 7
