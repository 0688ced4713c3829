"""The user's own tools are loaded by name."""

import sys
from pathlib import Path

import pytest

from agent_actors.cli.user_tools import load_tools
from agent_actors.errors import ConfigError


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "chat_tools_here.py").write_text(
        "from agent_actors import tool\n"
        "def plain(n: int) -> int:\n    'A function.'\n    return n\n"
        "@tool\ndef made() -> str:\n    'A tool.'\n    return ''\n"
        "class Holder:\n    ALL = [made, plain]\n"
        "number = 3\n"
    )
    (tmp_path / "chat_tools_broken.py").write_text("raise RuntimeError('no\\nway')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("chat_tools_here", "chat_tools_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "chat_tools_here"


def test_tools_functions_and_lists_are_loaded(module: str) -> None:
    assert [t.name for t in load_tools([f"{module}:made", f"{module}:plain"])] == ["made", "plain"]
    assert [t.name for t in load_tools([f"{module}:Holder.ALL"])] == ["made", "plain"]


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("chat_tools_here", "expected module:attribute"),
        (":x", "expected module:attribute"),
        ("chat_tools_here:none.at.all", "has no 'none.at.all'"),
        ("chat_tools_here:number", "--tools chat_tools_here:number: "),
        ("chat_tools_broken:x", "cannot be imported: RuntimeError: no"),
        ("..:x", "cannot be imported"),
    ],
)
def test_unloadable_tool_is_named(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        load_tools([spec])
