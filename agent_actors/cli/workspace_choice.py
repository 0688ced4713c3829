"""Chooses the tools and the workspace for `--tools`, `--workspace` and `--unconfined`."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs

from agent_actors import Tool
from agent_actors.cli.user_tools import load_tools
from agent_actors.errors import ConfigError
from agent_actors.options.validation import nearest
from agent_actors.tools.builtin_names import BUILTIN_NAMES, VOCABULARIES, tools_in_workspace

_SANDBOX: Final = "bwrap"


@attrs.frozen
class ToolChoice:
    """The tools and the workspace of an agent.

    Attributes:
        tools: The user's own tools.
        builtin_tools: The names of built-in tools.
        workspace: The workspace, as a table for `AgentOptions`; None for none.
        note: A sentence about the confinement of commands; empty without a workspace.
        root: The root of the workspace; None for none.
    """

    tools: tuple[Tool, ...]
    builtin_tools: tuple[str, ...]
    workspace: Mapping[str, object] | None
    note: str
    root: Path | None = None


def choose_tools(specs: Iterable[str], workspace: str, *, unconfined: bool) -> ToolChoice:
    """Return the tools and the workspace that the arguments describe.

    Args:
        specs: Values of `--tools`: `module:attribute`, or names of built-in tools or sets.
        workspace: The directory of `--workspace`; empty for no workspace.
        unconfined: True to run commands without a sandbox.

    Raises:
        ConfigError: An argument is not valid.
    """
    given = tuple(specs)
    builtin = tuple(spec for spec in given if ":" not in spec)
    if unconfined and not workspace:
        raise ConfigError("--unconfined requires --workspace DIRECTORY")
    known = (*BUILTIN_NAMES, *VOCABULARIES)
    for name in builtin:
        if name not in known:
            raise ConfigError(
                f"--tools: unknown built-in tool {name!r:.80}; {nearest(name, known)}. For "
                "tools of your own, pass module:attribute, such as tools:ALL"
            )
    if not workspace and (confined := tools_in_workspace(builtin)):
        raise ConfigError(
            f"--tools: {confined[0]} requires a workspace; pass --workspace DIRECTORY, for example "
            "--workspace ."
        )
    tools = tuple(load_tools(spec for spec in given if ":" in spec))
    if not workspace:
        return ToolChoice(tools, builtin, None, "")
    root = Path(workspace).absolute()
    if not root.is_dir():
        raise ConfigError(f"--workspace: {workspace!r} is not a directory")
    if unconfined:
        table = {"type": "local", "root": root, "processes": "unconfined"}
        note = "commands run without a sandbox, with your rights (--unconfined)"
    elif shutil.which(_SANDBOX) is not None:
        table = {"type": "bubblewrap", "root": root}
        note = "commands run in a bubblewrap sandbox without network access"
    else:
        table = {"type": "local", "root": root}
        note = (
            "commands are refused, because bubblewrap (bwrap) is not installed; install it, or "
            "pass --unconfined to run commands without a sandbox"
        )
    return ToolChoice(tools, builtin, table, note, root)
