"""Converts the short forms of option fields to the fields' types."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from agent_actors.errors import ConfigError
from agent_actors.permissions import PermissionPolicy
from agent_actors.tools import Tool, check_tools


def as_items(name: str, kind: str, value: object) -> tuple[object, ...]:
    """Return a list of items as a tuple.

    Raises:
        ConfigError: The value is a single item, or not iterable.
    """
    if type(value) is tuple:  # the most frequent case, and the cheapest to check
        return cast("tuple[object, ...]", value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"AgentOptions: {name} must be a list of {kind}; got {value!r:.80}")
    return tuple(cast("Iterable[object]", value))


def as_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """Return tools, created from any objects that have the interface of a tool."""
    return check_tools(as_items("tools", "tools", tools))


def as_builtin_tools(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of built-in tools as a tuple, even if only a single one was passed."""
    found = (names,) if isinstance(names, str) else as_items("builtin_tools", "names", names)
    return cast("tuple[str, ...]", found)


def as_path(cwd: str | os.PathLike[str] | None) -> Path:
    """Return a working directory; None selects the current directory of the process."""
    try:
        return Path.cwd() if cwd is None else Path(cwd)
    except TypeError:
        raise ConfigError(f"AgentOptions: cwd must be a path; got {cwd!r:.80}") from None


def as_stop(stop: str | Iterable[str]) -> tuple[str, ...]:
    """Return the stop sequences as a tuple, even if only a single one was passed."""
    found = (stop,) if isinstance(stop, str) else as_items("stop", "strings", stop)
    return cast("tuple[str, ...]", found)


def as_policy(policy: PermissionPolicy | str | None) -> PermissionPolicy | None:
    """Return a policy, created from the name of a mode if necessary."""
    return PermissionPolicy(mode=policy) if isinstance(policy, str) else policy
