"""The permission policy: the tools that a model is offered, and the verdict on each call.

A call is checked in this order, and the first match decides:

1. if the tool does not exist or is not offered, the call is denied;
2. deny rules; 3. remembered denials, then remembered approvals; 4. `after_untrusted`;
5. ask rules; 6. allow rules; 7. the mode, according to the tool's flags.

Then the modes `plan` and `deny` may restrict the verdict, and the parent run's policy may make it
stricter. The policy is stateless: remembered decisions and the time are arguments, so the same
arguments always produce the same verdict.
"""

import json
import logging
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePath
from typing import Final, Literal

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import MAX_DEPTH, JsonObject, copy_object, is_deeper
from agent_actors.errors import ConfigError
from agent_actors.permissions.decisions import (
    Allow,
    Ask,
    Deny,
    PermissionDecision,
    Verdict,
)
from agent_actors.permissions.globs import escaped
from agent_actors.permissions.grants import DecisionContext, Grants
from agent_actors.permissions.modes import (
    MODES,
    PermissionMode,
    as_mode,
    effect_of,
    is_out_of_bounds,
)
from agent_actors.permissions.rules import Rule, parse_rules, rule_for
from agent_actors.tools import Tool

_log: Final = logging.getLogger(__name__)

# Maximum number of characters of the arguments in a question: one screen, which a person still
# reads.
_SHOWN: Final = 1500
_WARY: Final = (
    "the conversation contains content from outside, which may contain instructions, and the tool "
    "is not read-only"
)
_STRICTNESS: Final[dict[type[Verdict], int]] = {Allow: 0, Ask: 1, Deny: 2}


def _names(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigError(f"permissions: expected a list of tool names; got the string {names!r}")
    found = tuple(names)
    for name in found:
        if "(" in name:
            raise ConfigError(
                f"permissions: expected a tool name; got the rule {name!r}; pass rules as "
                "allow, ask or deny"
            )
    return found


def _maybe_names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else _names(names)


def _after_untrusted(value: Literal["ask"] | None) -> Literal["ask"] | None:
    if value not in ("ask", None):
        raise ConfigError(f"permissions: after_untrusted must be 'ask' or None; got {value!r:.80}")
    return value


@attrs.frozen(kw_only=True)
class PermissionPolicy:
    """The permissions for an agent's calls.

    Attributes:
        mode: The mode, which decides about calls that no rule decides; see `MODES`.
        allow: Rules for calls that may run, such as `Read` or `Bash(git *)`.
        ask: Rules for calls that need approval.
        deny: Rules for calls that never run. A tool that a rule denies completely is not offered.
        allowed_tools: The only tools that are offered, as names or globs; None for all.
        disallowed_tools: Tools that are neither offered nor run, as names or globs.
        after_untrusted: With `ask`, calls of tools that are not read-only need approval once the
            session contains content from outside, even if a rule, the mode or an earlier approval
            allows them; see `Tool.untrusted_results`. None: such content changes nothing.
        above: The policy of the parent run, which applies in addition.
    """

    mode: PermissionMode = attrs.field(default=PermissionMode.DEFAULT, converter=as_mode)
    allow: tuple[Rule, ...] = attrs.field(default=(), converter=parse_rules)
    ask: tuple[Rule, ...] = attrs.field(default=(), converter=parse_rules)
    deny: tuple[Rule, ...] = attrs.field(default=(), converter=parse_rules)
    allowed_tools: tuple[str, ...] | None = attrs.field(default=None, converter=_maybe_names)
    disallowed_tools: tuple[str, ...] = attrs.field(default=(), converter=_names)
    after_untrusted: Literal["ask"] | None = attrs.field(default=None, converter=_after_untrusted)
    above: "PermissionPolicy | None" = None

    def __attrs_post_init__(self) -> None:
        for rule in self.allow:
            risk = rule.execution_risk
            if risk:
                _warn_of_risk(rule.text, risk)

    # Offered tools.

    def offers(self, name: str) -> bool:
        """Return whether a tool with this name is offered to the model."""
        return (
            (self.allowed_tools is None or _among(name, self.allowed_tools))
            and not _among(name, self.disallowed_tools)
            and not any(rule.is_bare and rule.names(name) for rule in self.deny)
            and (self.above is None or self.above.offers(name))
        )

    def offered(
        self, tools: Iterable[Tool], whitelist: Collection[str] | None = None
    ) -> tuple[Tool, ...]:
        """Return the tools to offer to the model, in order.

        Args:
            tools: The agent's tools.
            whitelist: The exact names of the tools to which this run is limited; None for all
                tools. Names of unknown tools are ignored; `unknown` lists them.

        Raises:
            ConfigError: The whitelist is a string, not a list of strings.
        """
        only = _maybe_names(whitelist)
        return tuple(
            tool for tool in tools if self.offers(tool.name) and (only is None or tool.name in only)
        )

    def narrowed(self, whitelist: Iterable[str]) -> "PermissionPolicy":
        """Return this policy limited to tools with these names; it never allows more than before.

        Raises:
            ConfigError: The whitelist is a string, not a list of strings.
        """
        names = (name for name in _names(whitelist) if self.offers(name))
        return attrs.evolve(self, allowed_tools=tuple(map(escaped, names)))

    def under(self, above: "PermissionPolicy | None") -> "PermissionPolicy":
        """Return this policy for a nested run, limited by the parent run's policy too."""
        if above is None:
            return self
        return attrs.evolve(self, above=above if self.above is None else self.above.under(above))

    # Verdicts.

    def decide(
        self,
        call: ToolUseBlock,
        tool: Tool | None,
        situation: DecisionContext,
    ) -> Verdict:
        """Decide whether a call may run, may not run, or needs approval.

        Args:
            call: The call with its final arguments, which are valid for the tool's schema.
            tool: The tool of the run that has exactly the call's name; None if there is none.
            situation: Where and when the call is made, and the remembered decisions.

        Returns:
            The verdict. If an `Allow` has an `input`, the caller must run the call with this input.
            The policy has checked the input, but the schema and the other permission checks have
            not.
        """
        verdict = self._own(call, tool, situation)
        if self.above is not None:
            above = self.above.decide(call, tool, situation)
            if _STRICTNESS[type(above)] > _STRICTNESS[type(verdict)]:
                verdict = above
        if isinstance(verdict, Allow) and verdict.input is not None:
            rewritten = attrs.evolve(call, input=verdict.input)
            again = self.approved(rewritten, tool, situation)
            return verdict if isinstance(again, Allow) else again
        return verdict

    def approved(
        self,
        call: ToolUseBlock,
        tool: Tool | None,
        situation: DecisionContext,
    ) -> Allow | Deny:
        """Return the verdict on an approved call with its approved arguments.

        A call that would need approval is allowed. A call that is denied stays denied.
        """
        verdict = self._own(call, tool, situation)
        if isinstance(verdict, Deny):
            return verdict
        if self.above is not None:
            above = self.above.approved(call, tool, situation)
            if isinstance(above, Deny):
                return above
        return Allow("the call was approved")

    def settle(
        self,
        decision: PermissionDecision,
        ask: Ask,
        call: ToolUseBlock,
        tool: Tool,
        situation: DecisionContext,
    ) -> tuple[Verdict, Grants]:
        """Apply a decision; return the verdict and the decisions to remember from now on.

        A decision with a new input is checked again. If the new call is denied, nothing is
        remembered. A decision to `ask` returns the question.

        Args:
            decision: The decision on the question.
            ask: The question.
            call: The call in question.
            tool: The tool of the call.
            situation: The current situation, which may have changed while the question was open.

        Raises:
            ConfigError: The rule to remember is invalid or does not match the call.
        """
        if decision.behavior == "ask":
            return ask, situation.grants
        allowed = decision.behavior == "allow"
        own = None if decision.input is None else copy_object(decision.input)
        verdict: Verdict = Deny(decision.reason or "the call was not approved")
        if allowed:
            final = call if own is None else attrs.evolve(call, input=own)
            verdict = self.approved(final, tool, situation)
            if isinstance(verdict, Deny):
                return verdict, situation.grants
            verdict = Allow(decision.reason or verdict.reason, own)
        if decision.remember is None:
            return verdict, situation.grants
        kept = situation.approve(
            call,
            tool,
            decision.remember,
            allowed=allowed,
            input=decision.input,
            reason=decision.reason,
        )
        return verdict, kept

    # Validation for an agent.

    def check(self, has_approver: bool, tools: Iterable[Tool] = ()) -> None:
        """Raise an error if this policy cannot work for an agent.

        Args:
            has_approver: True if the agent declares where answers come from, by a `can_use_tool` or
                an explicit `on_ask`.
            tools: The agent's tools.

        Raises:
            ConfigError: The mode is `prompt` and there is no approver; or a deny or ask rule names
                a tool with different case or extra blanks; or a rule names a field that its tool
                never has.
        """
        if self.mode is PermissionMode.PROMPT and not has_approver:
            raise ConfigError(
                "permissions: mode 'prompt' asks about every call, but there is no approver; pass "
                "can_use_tool, or on_ask='wait' if your program answers with runtime.answer or an "
                "ApprovalQueue, or on_ask='suspend', or choose another mode"
            )
        known = {tool.name: tool for tool in tools}
        for name in (*(rule.name for rule in (*self.deny, *self.ask)), *self.disallowed_tools):
            if not any(fnmatchcase(other, name) for other in known):
                _check_spelling(name, known)
        for rule in (*self.deny, *self.ask, *self.allow):
            for tool in known.values():
                field = rule.unknown_field(tool) if rule.is_exact and rule.names(tool.name) else ""
                if field:
                    raise ConfigError(
                        f"permission rule {rule.text!r}: tool {tool.name!r} has no argument "
                        f"{field!r}"
                    )
        if self.above is not None:
            self.above.check(has_approver, known.values())

    def unknown(
        self, tools: Iterable[Tool], whitelist: Iterable[str] | None = None
    ) -> tuple[str, ...]:
        """Return the names in the policy and the whitelist that no tool has.

        Such names are valid, because several agents may share a policy, but they are worth a log
        message.

        Raises:
            ConfigError: The whitelist is a string, not a list of strings.
        """
        known = [tool.name for tool in tools]
        listed = (
            *(self.allowed_tools or ()),
            *self.disallowed_tools,
            *(rule.name for rule in (*self.deny, *self.ask, *self.allow)),
        )
        globs = [name for name in listed if not any(fnmatchcase(one, name) for one in known)]
        exact = [name for name in _maybe_names(whitelist) or () if name not in known]
        return tuple(dict.fromkeys([*globs, *exact]))

    # The verdict of this policy without the parent run's policy.

    def _own(
        self,
        call: ToolUseBlock,
        tool: Tool | None,
        situation: DecisionContext,
    ) -> Verdict:
        if tool is None or call.name != tool.name:
            return Deny(f"there is no tool {call.name!r:.80}")
        if not self.offers(tool.name):
            return Deny(f"the tool {tool.name!r} is not available here")
        for rule in self.deny:
            if rule.restricts(tool, call.input, situation.cwd):
                return Deny(f"the call is denied by the rule {rule.text!r}")
        verdict = self._unbounded(call, tool, situation)
        if isinstance(verdict, Deny) or not is_out_of_bounds(
            self.mode, effect_of(tool), asks=isinstance(verdict, Ask)
        ):
            return verdict
        return self._mode_denies()

    def _unbounded(
        self,
        call: ToolUseBlock,
        tool: Tool,
        situation: DecisionContext,
    ) -> Verdict:
        wary = self.after_untrusted == "ask" and situation.untrusted and not tool.read_only
        grant = situation.find(tool, call.input, made_untrusted=wary)
        if grant is not None:
            if grant.allowed:
                own = None if grant.input is None else copy_object(grant.input)
                return Allow(grant.reason or "the call was approved before", own, grant)
            return Deny(grant.reason or "the call was denied before", grant)
        if wary:
            return _ask(call, tool, situation.cwd, _WARY)
        for rule in self.ask:
            if rule.restricts(tool, call.input, situation.cwd):
                return _ask(
                    call, tool, situation.cwd, f"the rule {rule.text!r} asks about the call"
                )
        for rule in self.allow:
            if rule.permits(tool, call.input, situation.cwd):
                return Allow(f"the call is allowed by the rule {rule.text!r}")
        match MODES[self.mode][effect_of(tool)]:
            case "allow":
                return Allow(f"mode {self.mode.value!r} allows the call")
            case "deny":
                return self._mode_denies()
            case _:
                reason = f"mode {self.mode.value!r} asks: the tool {effect_of(tool).value}"
                return _ask(call, tool, situation.cwd, reason)

    def _mode_denies(self) -> Deny:
        return Deny(f"mode {self.mode.value!r} does not allow the call")


@lru_cache(maxsize=1024)  # one warning per rule, because runs derive policies from policies
def _warn_of_risk(rule: str, risk: str) -> None:
    _log.warning(
        "the allow rule %r allows more than its program: %s; allow single commands, or use "
        "read_only_commands()",
        rule,
        risk,
    )


def _ask(call: ToolUseBlock, tool: Tool, cwd: PurePath, reason: str) -> Ask:
    prompt = f"Allow {tool.name}({_shown(call.input)})?"
    return Ask(prompt, reason=reason, rule=rule_for(tool, call.input, cwd))


def _shown(arguments: JsonObject) -> str:
    # A model wrote the arguments, so they must not move the cursor or change the text direction.
    if is_deeper(arguments, MAX_DEPTH):
        return "arguments that are nested too deeply to show"
    text = json.dumps(arguments, ensure_ascii=False)
    text = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )
    if len(text) <= _SHOWN:
        return text
    half = _SHOWN // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} more characters) ... {text[-half:]}"


def _among(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, one) for one in globs)


def _check_spelling(name: str, known: Iterable[str]) -> None:
    for other in known:
        if other.casefold() == name.strip().casefold():
            raise ConfigError(
                f"permissions: {name!r} restricts no tool, because names must match exactly; "
                f"write {other!r}"
            )
