"""Permission modes: a table of the verdicts on calls that no rule decides.

`MODES` is the reference, and the table in the docs is generated from it. Rules are evaluated before
the mode. Two modes additionally limit rules and approvals: `plan` never allows a call that may
change something, and `deny` never asks.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from agent_actors.errors import ConfigError
from agent_actors.permissions.decisions import Behavior
from agent_actors.tools import Tool


class PermissionMode(StrEnum):
    """Decides about calls that no rule decides; see `MODES`."""

    DEFAULT = "default"
    ACCEPT_EDITS = "accept_edits"
    PLAN = "plan"
    BYPASS = "bypass"
    DENY = "deny"
    PROMPT = "prompt"


class Effect(StrEnum):
    """The effect of a tool, derived from its flags. `idempotent` does not affect permissions."""

    READS = "reads here"
    READS_OUTSIDE = "reads outside"
    ADDS = "adds here"
    CHANGES = "changes here"
    ADDS_OUTSIDE = "adds outside"
    CHANGES_OUTSIDE = "changes outside"

    @property
    def only_reads(self) -> bool:
        """True if the tool changes nothing, whether on this machine or outside it."""
        return self in (Effect.READS, Effect.READS_OUTSIDE)


# The flags `read_only`, `destructive` and `open_world` of each effect.
FLAGS: Final[Mapping[Effect, tuple[bool, bool, bool]]] = MappingProxyType(
    {
        Effect.READS: (True, False, False),
        Effect.READS_OUTSIDE: (True, False, True),
        Effect.ADDS: (False, False, False),
        Effect.CHANGES: (False, True, False),
        Effect.ADDS_OUTSIDE: (False, False, True),
        Effect.CHANGES_OUTSIDE: (False, True, True),
    }
)
_EFFECTS: Final = {flags: effect for effect, flags in FLAGS.items()}

# One row per mode, one column per effect, in the order of `Effect`.
_Row: TypeAlias = tuple[Behavior, Behavior, Behavior, Behavior, Behavior, Behavior]
_ROWS: Final[Mapping[PermissionMode, _Row]] = {
    PermissionMode.DEFAULT: ("allow", "ask", "ask", "ask", "ask", "ask"),
    PermissionMode.ACCEPT_EDITS: ("allow", "ask", "allow", "allow", "ask", "ask"),
    PermissionMode.PLAN: ("allow", "ask", "deny", "deny", "deny", "deny"),
    PermissionMode.BYPASS: ("allow", "allow", "allow", "allow", "allow", "allow"),
    PermissionMode.DENY: ("deny", "deny", "deny", "deny", "deny", "deny"),
    PermissionMode.PROMPT: ("ask", "ask", "ask", "ask", "ask", "ask"),
}

MODES: Final[Mapping[PermissionMode, Mapping[Effect, Behavior]]] = MappingProxyType(
    {
        mode: MappingProxyType(dict(zip(Effect, verdicts, strict=True)))
        for mode, verdicts in _ROWS.items()
    }
)


def effect_of(tool: Tool) -> Effect:
    """Return the effect of a tool, derived from its flags."""
    return _EFFECTS[tool.read_only, tool.destructive, tool.open_world]


def is_out_of_bounds(mode: PermissionMode, effect: Effect, *, asks: bool) -> bool:
    """Return whether a mode denies a call even if a rule or a person allows or asks about it."""
    if mode is PermissionMode.PLAN:
        return not effect.only_reads
    return mode is PermissionMode.DENY and asks


def as_mode(value: PermissionMode | str) -> PermissionMode:
    """Return the mode with this name, which is case-sensitive.

    Raises:
        ConfigError: The name is unknown.
    """
    for mode in PermissionMode:
        if value == mode:
            return mode
    near = get_close_matches(str(value), list(PermissionMode), n=1)
    hint = f"did you mean {near[0]!s}?" if near else f"expected one of {', '.join(PermissionMode)}"
    raise ConfigError(f"permissions: unknown mode {value!r:.80}; {hint}")
