"""The short forms in which a caller may write a field of the options, made into the one it has."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from agent_actors.errors import ConfigError
from agent_actors.permissions import PermissionPolicy
from agent_actors.tools import Tool, check_tools


def as_items(name: str, kind: str, value: object) -> tuple[object, ...]:
    """Several of a kind.

    Raises:
        ConfigError: It is one alone, or nothing of which there are several.
    """
    if type(value) is tuple:  # what most are, and cheaper to tell
        return cast("tuple[object, ...]", value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"AgentOptions: {name} must be a list of {kind}; got {value!r:.80}")
    return tuple(cast("Iterable[object]", value))


def as_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """Tools, from whatever has the shape of one."""
    return check_tools(as_items("tools", "tools", tools))


def as_path(cwd: str | os.PathLike[str] | None) -> Path:
    """A working directory; None: the process's."""
    try:
        return Path.cwd() if cwd is None else Path(cwd)
    except TypeError:
        raise ConfigError(f"AgentOptions: cwd must be a path; got {cwd!r:.80}") from None


def as_stop(stop: str | Iterable[str]) -> tuple[str, ...]:
    """Texts at which an answer ends, or one."""
    found = (stop,) if isinstance(stop, str) else as_items("stop", "strings", stop)
    return cast("tuple[str, ...]", found)


def as_policy(policy: PermissionPolicy | str | None) -> PermissionPolicy | None:
    """A policy, or the name of a mode."""
    return PermissionPolicy(mode=policy) if isinstance(policy, str) else policy
