"""What is said of a call: by the policy, by a `can_use_tool` function, and by a person.

The policy says `Allow`, `Deny` or `Ask`. Whoever is asked says a `PermissionDecision`, which may
rewrite the arguments and may be remembered. What a person types is made into one here, so that
every place that asks reads an answer alike: what is not plainly a yes is a no.
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

# What a person may say to a question, in the order in which it is shown.
CHOICES: Final = ("yes", "session", "always", "no")
_YES: Final = frozenset({"y", "yes"})


@attrs.frozen
class Allow:
    """The call may run.

    Attributes:
        reason: Which rule, mode or person let it.
        input: The arguments that it has to run with, in place of its own; None: its own.
        grant: The remembered decision that let it, to be `Grants.spent`; None: none did.
    """

    reason: str = ""
    input: JsonObject | None = None
    grant: Grant | None = None


@attrs.frozen
class Deny:
    """The call may not run; the model is told why.

    Attributes:
        reason: Why.
        grant: The remembered decision that refused it, to be `Grants.spent`; None: none did.
    """

    reason: str
    grant: Grant | None = None


@attrs.frozen
class Ask:
    """Somebody has to be asked.

    Attributes:
        prompt: The question, on one line, safe to show in a terminal.
        choices: What may be answered.
        reason: Why it is asked.
        rule: What `session` and `always` would remember, as a rule; empty: this very call, with
            these arguments.
    """

    prompt: str
    choices: tuple[str, ...] = CHOICES
    reason: str = ""
    rule: str = ""


def _remember(value: Remember | Scope | None) -> Remember | None:
    found = Remember(value) if isinstance(value, str) else cast(object, value)
    if found is not None and not isinstance(found, Remember):
        raise ConfigError(f"PermissionDecision: remember takes a Remember; got {found!r:.80}")
    return found


def _input(value: JsonObject | None) -> JsonObject | None:
    found = cast(object, value)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise ConfigError(f"PermissionDecision: input is an object of JSON; got {found!r:.80}")
    try:
        return to_json_object(cast("Mapping[str, object]", found))
    except TypeError as error:
        raise ConfigError(f"PermissionDecision: input: {error}") from error


def _reason(value: str) -> str:
    found = cast(object, value)
    if not isinstance(found, str):
        raise ConfigError(f"PermissionDecision: reason is text; got {found!r:.80}")
    return clean_text(found)


@attrs.frozen
class PermissionDecision:
    """What a `can_use_tool` function, or a person, says of a call.

    Attributes:
        behavior: `allow`, `deny`, or `ask` to hand the question on to a person.
        input: The arguments to run with, in place of the model's; judged again before the call
            runs. With `allow` only.
        reason: Why; the model is told when it is denied.
        remember: For how long it holds, as a `Remember` or its scope alone; None: for this call.
    """

    behavior: Behavior
    input: JsonObject | None = attrs.field(default=None, converter=_input, kw_only=True)
    reason: str = attrs.field(default="", converter=_reason, kw_only=True)
    remember: Remember | None = attrs.field(default=None, converter=_remember, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Refuse what contradicts itself.

        Raises:
            ConfigError: Another behavior; arguments that are no JSON; or arguments, or a memory,
                where they mean nothing.
        """
        if self.behavior not in get_args(Behavior):
            raise ConfigError(
                f"PermissionDecision: expected 'allow', 'deny' or 'ask'; got {self.behavior!r:.80}"
            )
        if self.input is not None and self.behavior != "allow":
            raise ConfigError("PermissionDecision: only what is allowed can have another input")
        if self.remember is None:
            return
        if self.behavior == "ask":
            raise ConfigError("PermissionDecision: a question that is handed on decides nothing")
        if self.input is not None and self.remember.rule:
            raise ConfigError(
                "PermissionDecision: another input fits the same arguments alone; leave out the "
                "rule, or the input"
            )


Verdict: TypeAlias = Allow | Deny | Ask


@attrs.frozen
class PermissionRequest:
    """What a `can_use_tool` function is asked.

    Attributes:
        call: The call, with its final arguments.
        tool: The tool.
        ask: The question, as a person would be shown it.
        session_id: The session.
        run_id: The run.
    """

    call: ToolUseBlock
    tool: Tool
    ask: Ask
    session_id: str = ""
    run_id: str = ""


Answered: TypeAlias = PermissionDecision | bool
# Asked instead of a person where the policy says to ask; sync or async.
CanUseTool: TypeAlias = Callable[[PermissionRequest], Answered | Awaitable[Answered]]


def as_decision(value: object) -> PermissionDecision:
    """What a `can_use_tool` function returned, as a decision; True and False are short forms.

    Raises:
        ConfigError: It is neither: such as None, where a `return` was forgotten.
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
    """What a person answered, as a decision: `y` and `yes` allow, and so do the offered scopes.

    Blanks around it and case make no difference. All else denies, an empty answer too.

    Args:
        text: What was typed or chosen.
        choices: What was offered: `session` and `always` count only if they were.
        rule: What these two remember; see `Ask.rule`.
        ttl: For how many seconds they do.
    """
    said = text.strip().lower()
    if said in _YES:
        return PermissionDecision("allow", reason="a person said yes")
    for scope in ("session", "always"):
        if said == scope and scope in choices:
            remember = Remember(scope, ttl=ttl, rule=rule)
            return PermissionDecision("allow", reason=f"a person said {scope}", remember=remember)
    return PermissionDecision("deny", reason="a person said no")
