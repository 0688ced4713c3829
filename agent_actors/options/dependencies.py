"""Checks the dependencies of a run against the types that its agent and its tools declare."""

from collections.abc import Iterable
from typing import TypeAlias

from agent_actors.errors import ConfigError
from agent_actors.tools import Tool

# The user of the dependencies, for error messages, and the class that it needs.
DepsNeed: TypeAlias = tuple[str, type]


def needs_of(deps_type: object, tools: Iterable[Tool]) -> tuple[DepsNeed, ...]:
    """Return the classes that the dependencies of a run must be instances of.

    Args:
        deps_type: The class that the agent declares; None if it declares none.
        tools: The tools of the agent.

    Raises:
        ConfigError: `deps_type` is not a class, or a tool needs another class.
    """
    if deps_type is not None and not isinstance(deps_type, type):
        raise ConfigError(f"AgentOptions: deps_type must be a class; got {deps_type!r:.80}")
    needs: list[DepsNeed] = [] if deps_type is None else [("the agent", deps_type)]
    for tool in tools:
        if tool.deps_type is None:
            continue
        # Only an instance can be checked against a protocol, since `issubclass` ignores attributes.
        is_protocol = getattr(tool.deps_type, "_is_protocol", False)
        if not (deps_type is None or is_protocol or issubclass(deps_type, tool.deps_type)):
            raise ConfigError(
                f"AgentOptions: the tool {tool.name!r} takes a "
                f"ToolContext[{tool.deps_type.__name__}], but deps_type is {deps_type.__name__}"
            )
        needs.append((f"the tool {tool.name!r}", tool.deps_type))
    return tuple(needs)


def check_deps(needs: Iterable[DepsNeed], deps: object) -> None:
    """Check the dependencies of a run before it starts.

    Raises:
        ConfigError: The run has no dependencies, or dependencies of another class.
    """
    for user, needed in needs:
        if not isinstance(deps, needed):
            got = "but the run has none" if deps is None else f"got {type(deps).__name__}"
            raise ConfigError(
                f"{user} needs dependencies of type {needed.__name__}, {got}; "
                "pass them to the run with deps="
            )
