"""Decisions about calls, made by the policy, a `can_use_tool` function or a person.

The policy returns `Allow`, `Deny` or `Ask`. A `can_use_tool` function or a person then makes a
`PermissionDecision`, which may rewrite the arguments and may be remembered. This module also
interprets the answers that people type, so that answers have the same meaning everywhere: an answer
that is not clearly a yes is a no.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias, cast, get_args

import attrs

from agent_actors.codec.json_values import clean_text, to_json_object
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import JsonObject
from agent_actors.errors import ConfigError
from agent_actors.permissions.grants import Grant, Remember, Scope
from agent_actors.tools import Tool

Behavior: TypeAlias = Literal["allow", "deny", "ask"]

# The answers that a person may give, in the order in which they are shown.
CHOICES: Final = ("yes", "session", "always", "no")
_YES: Final = frozenset({"y", "yes"})


@attrs.frozen
class Allow:
    """The call may run.

    Attributes:
        reason: The rule, mode or person that allowed the call.
        input: Arguments that replace the call's own; None to keep them.
        grant: The remembered decision that allowed the call, to be passed to `Grants.spent`; None
            if none did.
    """

    reason: str = ""
    input: JsonObject | None = None
    grant: Grant | None = None


@attrs.frozen
class Deny:
    """The call must not run; the model receives the reason.

    Attributes:
        reason: The reason.
        grant: The remembered decision that denied the call, to be passed to `Grants.spent`; None if
            none did.
    """

    reason: str
    grant: Grant | None = None


@attrs.frozen
class Ask:
    """A person, or a `can_use_tool` function, has to decide.

    Attributes:
        prompt: The question, on one line, safe to show in a terminal.
        choices: The possible answers.
        reason: The reason for the question.
        rule: The rule that the answers `session` and `always` would remember. If empty, they would
            remember the call with its arguments.
    """

    prompt: str
    choices: tuple[str, ...] = CHOICES
    reason: str = ""
    rule: str = ""


def _remember(value: Remember | Scope | None) -> Remember | None:
    found = Remember(value) if isinstance(value, str) else cast(object, value)
    if found is not None and not isinstance(found, Remember):
        raise ConfigError(
            f"PermissionDecision: remember must be a Remember or a scope; got {found!r:.80}"
        )
    return found


def _input(value: JsonObject | None) -> JsonObject | None:
    found = cast(object, value)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise ConfigError(f"PermissionDecision: input must be a JSON object; got {found!r:.80}")
    try:
        return to_json_object(cast("Mapping[str, object]", found))
    except TypeError as error:
        raise ConfigError(f"PermissionDecision: input: {error}") from error


def _reason(value: str) -> str:
    found = cast(object, value)
    if not isinstance(found, str):
        raise ConfigError(f"PermissionDecision: reason must be text; got {found!r:.80}")
    return clean_text(found)


@attrs.frozen
class PermissionDecision:
    """A decision about a call, made by a `can_use_tool` function or a person.

    Attributes:
        behavior: `allow`, `deny`, or `ask` to pass the question to a person.
        input: Arguments that replace the model's; they are checked again before the call runs.
            Allowed only with `allow`.
        reason: The reason; the model receives it if the call is denied.
        remember: How long the decision applies, as a `Remember` or as its scope; None for this call
            only.
    """

    behavior: Behavior
    input: JsonObject | None = attrs.field(default=None, converter=_input, kw_only=True)
    reason: str = attrs.field(default="", converter=_reason, kw_only=True)
    remember: Remember | None = attrs.field(default=None, converter=_remember, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Reject contradictory decisions.

        Raises:
            ConfigError: The behavior is unknown, the arguments cannot be represented in JSON, or
                the behavior does not allow arguments or `remember`.
        """
        if self.behavior not in get_args(Behavior):
            raise ConfigError(
                "PermissionDecision: behavior must be 'allow', 'deny' or 'ask'; got "
                f"{self.behavior!r:.80}"
            )
        if self.input is not None and self.behavior != "allow":
            raise ConfigError("PermissionDecision: input requires the behavior 'allow'")
        if self.remember is None:
            return
        if self.behavior == "ask":
            raise ConfigError("PermissionDecision: remember cannot be combined with 'ask'")
        if self.input is not None and self.remember.rule:
            raise ConfigError(
                "PermissionDecision: input cannot be combined with a remember rule; pass one or "
                "the other"
            )


Verdict: TypeAlias = Allow | Deny | Ask


@attrs.frozen
class PermissionRequest:
    """A question for a `can_use_tool` function.

    Attributes:
        call: The call, with its final arguments.
        tool: The tool.
        ask: The question as it would be shown to a person.
        session_id: The session.
        run_id: The run.
    """

    call: ToolUseBlock
    tool: Tool
    ask: Ask
    session_id: str = ""
    run_id: str = ""


Answered: TypeAlias = PermissionDecision | bool
# A function, sync or async, that decides instead of a person when the policy requires a decision.
CanUseTool: TypeAlias = Callable[[PermissionRequest], Answered | Awaitable[Answered]]


def as_decision(value: object) -> PermissionDecision:
    """Convert the result of a `can_use_tool` function, which may be a bool, to a decision.

    Raises:
        ConfigError: The value has another type, for example None because of a missing `return`.
    """
    match value:
        case PermissionDecision():
            return value
        case bool():
            return PermissionDecision("allow" if value else "deny")
        case _:
            raise ConfigError(
                "can_use_tool must return a PermissionDecision, True or False; got "
                f"{type(value).__name__}"
            )


def read_answer(
    text: str, choices: Iterable[str] = CHOICES, *, rule: str = "", ttl: float = math.inf
) -> PermissionDecision:
    """Convert a person's answer to a decision: `y`, `yes` and the offered scopes allow the call.

    Case and surrounding blanks are ignored. Any other answer denies the call, including an empty
    one.

    Args:
        text: The text that the person typed or chose.
        choices: The offered choices. `session` and `always` count only if they were offered.
        rule: The rule that `session` and `always` remember; see `Ask.rule`.
        ttl: How many seconds decisions for `session` and `always` are remembered.
    """
    answer_text = text.strip().lower()
    if answer_text in _YES:
        return PermissionDecision("allow", reason="a person said yes")
    for scope in ("session", "always"):
        if answer_text == scope and scope in choices:
            remember = Remember(scope, ttl=ttl, rule=rule)
            return PermissionDecision("allow", reason=f"a person said {scope}", remember=remember)
    return PermissionDecision("deny", reason="a person said no")
