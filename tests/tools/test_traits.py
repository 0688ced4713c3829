"""Annotations of a tool: meanings and defaults as in the Model Context Protocol."""

import attrs
import pytest

from agent_actors.errors import ConfigError
from agent_actors.tools import Tool, as_tool, tool


def traits(made: Tool) -> tuple[bool, bool, bool, bool]:
    return made.read_only, made.destructive, made.idempotent, made.open_world


def look(path: str) -> str:
    """Look."""
    return path


def take(arguments: dict[str, object]) -> dict[str, object]:
    return arguments


def test_untraited_tool_is_assumed_dangerous() -> None:
    assert traits(tool(look)) == (False, True, False, True)
    assert traits(Tool("take", "", None, take)) == (False, True, False, True)


def test_read_only_implies_harmless_and_idempotent() -> None:
    assert traits(tool(read_only=True)(look)) == (True, False, True, True)
    made = tool(read_only=True, destructive=False, idempotent=False, open_world=False)(look)
    assert traits(made) == (True, False, True, False)


def test_changing_tool_declares_its_effect() -> None:
    options = tool("add", "Adds.", {}, destructive=False, idempotent=True, open_world=False)
    made = options(take)
    assert traits(made) == (False, False, True, False)


def test_read_only_and_destructive_conflict() -> None:
    with pytest.raises(
        ConfigError, match="tool 'look': the tool cannot be both read_only and destr"
    ):
        tool(read_only=True, destructive=True)(look)


@pytest.mark.parametrize("trait", ["read_only", "destructive", "idempotent", "open_world"])
def test_trait_must_be_boolean(trait: str) -> None:
    @attrs.define
    class Foreign:
        name: str = "foreign"
        description: str = ""
        input_schema: None = None

        async def execute(self, arguments: dict[str, object]) -> str:
            raise NotImplementedError

    foreign = type("Said", (Foreign,), {trait: "false"})()
    with pytest.raises(ConfigError, match=f"tool 'foreign': {trait} must be True or False; got"):
        as_tool(foreign)


@pytest.mark.parametrize("schema", ["input_schema", "parameters"])
def test_foreign_tool_declares_by_attributes(schema: str) -> None:
    class Foreign:
        name = "foreign"
        description = ""
        read_only = True
        open_world = False

        async def execute(self, arguments: dict[str, object]) -> str:
            raise NotImplementedError

    setattr(Foreign, schema, None)
    assert traits(as_tool(Foreign())) == (True, False, True, False)
