"""The vocabularies: names, schemas, permissions and documentation of the built-in tools."""

import re
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import JsonObject
from agent_actors.errors import ConfigError
from agent_actors.permissions import Allow, Ask, Deny, PermissionPolicy
from agent_actors.permissions.grants import DecisionContext
from agent_actors.schema.strict import strict_form
from agent_actors.testing import MemoryWorkspace
from agent_actors.toolbox.operations import ToolLimits
from agent_actors.toolbox.presets import by_name, code, filesystem, select
from agent_actors.tools import Tool
from tests.toolbox.helpers import Context, Tools

PAGE = Path(__file__).parents[2] / "docs/how-to/built-in-tools.md"
WEB = ("WebFetch", "WebSearch")
# The web tools have pages and tests of their own.
ALL = tuple(tool for tool in (*code(), *filesystem()) if tool.name not in WEB)


def properties(tool: Tool) -> dict[str, JsonObject]:
    assert tool.input_schema is not None
    return cast("dict[str, JsonObject]", tool.input_schema["properties"])


def test_vocabularies_have_the_documented_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "key")
    assert " ".join(tool.name for tool in code()) == (
        "Read Write Edit ApplyPatch Glob Grep Bash BashOutput KillBash TodoWrite WebFetch WebSearch"
    )
    assert " ".join(tool.name for tool in filesystem()) == (
        "ls read_file write_file edit_file glob grep execute bash_output kill_bash write_todos"
    )


def test_search_needs_a_key_only_if_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    assert "WebSearch" not in [tool.name for tool in code()]
    with pytest.raises(ConfigError, match="TAVILY_API_KEY"):
        select(["code", "WebSearch"])


def test_tools_are_selected_by_name() -> None:
    names = [tool.name for tool in select(["grep", "code", "Read"])]
    assert names == ["grep", *(tool.name for tool in code())]
    assert by_name("Bash", ToolLimits(timeout_s=5)).timeout == 35
    with pytest.raises(ConfigError, match="unknown built-in tool 'read'; did you mean 'Read'"):
        by_name("read")
    with pytest.raises(ConfigError, match="expected one of Read, Write"):
        select(["???"])
    with pytest.raises(ConfigError, match="got the string 'Read'"):
        select("Read")


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_schemas_are_described_and_strict(tool: Tool) -> None:
    assert tool.input_schema is not None
    assert strict_form(tool.input_schema) is not None
    assert len(tool.description) > 20
    for name, schema in properties(tool).items():
        assert schema.get("description"), name


EDITS = ("Write", "Edit", "ApplyPatch", "write_file", "edit_file")
READS = ("Read", "Glob", "Grep", "ls", "read_file", "glob", "grep")
OWN = ("TodoWrite", "write_todos", "BashOutput", "bash_output")
COMMANDS = ("Bash", "execute")
PATCH = "*** Begin Patch\n*** Update File: src/a.py\n-a\n+b\n*** End Patch"
ARGUMENTS: dict[str, JsonObject] = {
    "Bash": {"command": "git status"},
    "execute": {"command": "git status"},
    "Edit": {"file_path": "src/a.py", "old": "a", "new": "b"},
    "Write": {"file_path": "src/a.py", "content": ""},
    "Read": {"file_path": "src/a.py"},
    "edit_file": {"path": "src/a.py", "old_text": "a", "new_text": "b"},
    "write_file": {"path": "src/a.py", "content": ""},
    "read_file": {"path": "src/a.py"},
    "grep": {"path": "src/a.py", "pattern": "a"},
    "Grep": {"path": "src/a.py", "query": "a"},
    "ApplyPatch": {"patch": PATCH},
}


def verdict(policy: PermissionPolicy, name: str, arguments: JsonObject | None = None) -> str:
    tool = next(tool for tool in ALL if tool.name == name)
    call = ToolUseBlock("c1", name, ARGUMENTS.get(name, {}) if arguments is None else arguments)
    decision = policy.decide(call, tool, DecisionContext(cwd=PurePosixPath("/workspace"), now=0.0))
    names = {Allow: "allow", Ask: "ask", Deny: "deny"}
    return names[type(decision)]


@pytest.mark.parametrize(
    ("mode", "reads", "edits", "commands"),
    [
        ("default", "allow", "ask", "ask"),
        ("accept_edits", "allow", "allow", "ask"),
        ("plan", "allow", "deny", "deny"),
    ],
)
def test_modes_decide_about_built_in_tools(
    mode: str, reads: str, edits: str, commands: str
) -> None:
    policy = PermissionPolicy(mode=mode)
    assert {verdict(policy, name) for name in (*READS, *OWN)} == {reads}
    assert {verdict(policy, name) for name in EDITS} == {edits}
    assert {verdict(policy, name) for name in COMMANDS} == {commands}


@pytest.mark.parametrize(
    "name", ["Edit", "Write", "Read", "edit_file", "write_file", "read_file", "grep", "Grep"]
)
def test_path_rules_apply_to_file_tools(name: str) -> None:
    assert verdict(PermissionPolicy(mode="prompt", allow=[f"{name}(src/**)"]), name) == "allow"
    assert verdict(PermissionPolicy(mode="prompt", allow=[f"{name}(lib/**)"]), name) == "ask"
    assert verdict(PermissionPolicy(mode="bypass", deny=[f"{name}(src/**)"]), name) == "deny"
    assert verdict(PermissionPolicy(mode="bypass", deny=["*(src/**)"]), name) == "deny"


@pytest.mark.parametrize("name", COMMANDS)
def test_command_rules_apply_to_shell_tools(name: str) -> None:
    policy = PermissionPolicy(mode="default", allow=[f"{name}(git *)"])
    assert verdict(policy, name) == "allow"
    assert verdict(policy, name, {"command": "git status; rm -r ."}) == "ask"
    denied = PermissionPolicy(mode="bypass", deny=[f"{name}(rm *)"])
    assert verdict(denied, name, {"command": "sudo rm -r ."}) == "deny"


def test_path_rules_apply_to_patched_paths() -> None:
    move = PATCH.replace("-a", "*** Move to: lib/a.py\n-a")
    both: JsonObject = {"patch": move}
    for policy, single, moved in (
        (PermissionPolicy(mode="prompt", allow=["ApplyPatch(src/**)"]), "allow", "ask"),
        (PermissionPolicy(mode="bypass", deny=["ApplyPatch(lib/**)"]), "allow", "deny"),
        (PermissionPolicy(mode="bypass", deny=["*(*.py)"]), "deny", "deny"),
    ):
        assert (verdict(policy, "ApplyPatch"), verdict(policy, "ApplyPatch", both)) == (
            single,
            moved,
        )


def _rows() -> dict[str, str]:
    """Return the rows of the tables on the page, by the name of the tool."""
    rows = re.findall(r"^\| `(\w+)\(([^`]*)\)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: parameters for name, parameters in rows}  # noqa: C416 - typed as pairs of text


def test_page_shows_the_parameters_of_every_tool() -> None:
    shown: dict[str, str] = {}
    for tool in ALL:
        parts: list[str] = []
        for name, schema in properties(tool).items():
            default = schema.get("default")
            parts.append(name if "default" not in schema else f"{name}={_literal(default)}")
        shown[tool.name] = ", ".join(parts)
    assert _rows() == shown


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


async def test_vocabularies_share_what_was_read() -> None:
    workspace = MemoryWorkspace({"a.txt": "one"})
    box = Tools(select(["read_file", "Edit"]), Context(workspace))
    await box.text("read_file", path="a.txt")
    workspace.put("a.txt", "two")
    assert "has changed" in await box.error("Edit", file_path="a.txt", old="two", new="3")
