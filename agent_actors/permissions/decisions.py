"""Decisions about calls: of the policy, of a `can_use_tool` function, and of a person.

The policy returns `Allow`, `Deny` or `Ask`. A `can_use_tool` function or a person then makes a
`PermissionDecision`, which may rewrite the arguments and may be remembered. This module also
converts typed answers of people, so that answers are interpreted in the same way everywhere: an
answer that is not clearly a yes is a no.
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
        input: Arguments that replace those of the call; None: the call's own.
        grant: The remembered decision that allowed the call, to be passed to `Grants.spent`; None:
            none did.
    """

    reason: str = ""
    input: JsonObject | None = None
    grant: Grant | None = None


@attrs.frozen
class Deny:
    """The call must not run; the model receives the reason.

    Attributes:
        reason: The reason.
        grant: The remembered decision that denied the call, to be passed to `Grants.spent`; None:
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
        rule: The rule that `session` and `always` would remember; empty: this call with these
            arguments.
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
    """The decision of a `can_use_tool` function, or of a person, about a call.

    Attributes:
        behavior: `allow`, `deny`, or `ask` to pass the question to a person.
        input: Arguments that replace those of the model; checked again before the call runs. Only
            with `allow`.
        reason: The reason; the model receives it if the call is denied.
        remember: The duration of the decision, as a `Remember` or its scope; None: for this call
            only.
    """

    behavior: Behavior
    input: JsonObject | None = attrs.field(default=None, converter=_input, kw_only=True)
    reason: str = attrs.field(default="", converter=_reason, kw_only=True)
    remember: Remember | None = attrs.field(default=None, converter=_remember, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Refuse contradictory decisions.

        Raises:
            ConfigError: The behavior is unknown, the arguments cannot be represented in JSON, or
                arguments or `remember` are not allowed with the behavior.
        """
        if self.behavior not in get_args(Behavior):
            raise ConfigError(
                f"PermissionDecision: expected 'allow', 'deny' or 'ask'; got {self.behavior!r:.80}"
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
    """The question to a `can_use_tool` function.

    Attributes:
        call: The call, with its final arguments.
        tool: The tool.
        ask: The question, as a person would see it.
        session_id: The session.
        run_id: The run.
    """

    call: ToolUseBlock
    tool: Tool
    ask: Ask
    session_id: str = ""
    run_id: str = ""


Answered: TypeAlias = PermissionDecision | bool
# Called instead of asking a person when the policy requires a decision; sync or async.
CanUseTool: TypeAlias = Callable[[PermissionRequest], Answered | Awaitable[Answered]]


def as_decision(value: object) -> PermissionDecision:
    """Return the result of a `can_use_tool` function as a decision; accepts True and False.

    Raises:
        ConfigError: The value is neither, for example None because of a missing `return`.
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
    """Return a person's answer as a decision: `y`, `yes` and the offered scopes allow.

    Case and surrounding blanks do not matter. Any other answer denies, including an empty one.

    Args:
        text: The text that the person typed or chose.
        choices: The offered choices: `session` and `always` count only if they were offered.
        rule: The rule that `session` and `always` remember; see `Ask.rule`.
        ttl: Seconds for which these are remembered.
    """
    answer_text = text.strip().lower()
    if answer_text in _YES:
        return PermissionDecision("allow", reason="a person said yes")
    for scope in ("session", "always"):
        if answer_text == scope and scope in choices:
            remember = Remember(scope, ttl=ttl, rule=rule)
            return PermissionDecision("allow", reason=f"a person said {scope}", remember=remember)
    return PermissionDecision("deny", reason="a person said no")
