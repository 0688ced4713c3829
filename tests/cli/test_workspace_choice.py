"""`--tools`, `--workspace` and `--unconfined` choose the tools and the confinement."""

import shutil
from pathlib import Path

import pytest

from agent_actors.cli.workspace_choice import choose_tools
from agent_actors.errors import ConfigError


@pytest.mark.parametrize(
    ("program", "expected", "note"),
    [
        ("/usr/bin/bwrap", {"type": "bubblewrap"}, "bubblewrap sandbox"),
        (None, {"type": "local"}, "commands are refused"),
    ],
)
def test_commands_need_a_sandbox_or_consent(
    program: str | None,
    expected: dict[str, object],
    note: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def which(name: str) -> str | None:
        return program

    monkeypatch.setattr(shutil, "which", which)
    chosen = choose_tools(["code"], str(tmp_path), unconfined=False)
    assert chosen.workspace == {**expected, "root": tmp_path}
    assert note in chosen.note
    assert (chosen.tools, chosen.builtin_tools) == ((), ("code",))
    freely = choose_tools(["code"], str(tmp_path), unconfined=True)
    assert freely.workspace == {"type": "local", "processes": "unconfined", "root": tmp_path}
    assert "your rights" in freely.note


@pytest.mark.parametrize(
    ("specs", "workspace", "unconfined", "message"),
    [
        (["code"], "", False, "Read requires a workspace; pass --workspace"),
        ([], "", True, "--unconfined requires --workspace"),
        (["Read"], "/no/such/place", False, "is not a directory"),
    ],
)
def test_wrong_arguments_name_the_option(
    specs: list[str], workspace: str, unconfined: bool, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_tools(specs, workspace, unconfined=unconfined)


def test_web_tools_need_no_workspace() -> None:
    chosen = choose_tools(["WebFetch"], "", unconfined=False)
    assert (chosen.builtin_tools, chosen.workspace, chosen.note) == (("WebFetch",), None, "")
