"""The policy: which tools a model is offered, and whether a call may run, is asked about, or not.

A call is judged in this order, and the first that says something decides:

1. a tool that there is none of, or that is not offered: denied;
2. deny rules; 3. what is remembered: denials, then approvals; 4. ask rules; 5. allow rules;
6. the mode, by the flags of the tool.

Then the mode bounds what was said (`plan`, `deny`), and a policy above, that of the run which
started this one, may only make it stricter. Nothing is kept here: what is remembered, and the
time, are passed in, and the same question always has the same answer.
"""

import json
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final

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

# Characters of the arguments that a question shows: a screenful, which a person still reads.
_SHOWN: Final = 1500
_STRICTNESS: Final[dict[type[Verdict], int]] = {Allow: 0, Ask: 1, Deny: 2}


def _names(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigError(f"permissions: expected a list of tools' names; got the text {names!r}")
    found = tuple(names)
    for name in found:
        if "(" in name:
            raise ConfigError(
                f"permissions: {name!r} is a rule, and a list of tools has names; rules belong "
                "into allow, ask or deny"
            )
    return found


def _maybe_names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else _names(names)


@attrs.frozen(kw_only=True)
class PermissionPolicy:
    """What the calls of an agent may do.

    Attributes:
        mode: What becomes of calls that no rule decides; see `MODES`.
        allow: Rules for calls that may run, such as `Read` or `Bash(git *)`.
        ask: Rules for calls that somebody is asked about.
        deny: Rules for calls that never run. A tool that is denied as such is not offered.
        allowed_tools: The only tools that are offered, names or globs; None: all.
        disallowed_tools: Tools that are not offered, and refused if they are called.
        above: The policy of the run that started this one; it holds as well.
    """

    mode: PermissionMode = attrs.field(default=PermissionMode.DEFAULT, converter=as_mode)
    allow: tuple[Rule, ...] = attrs.field(default=(), converter=parse_rules)
    ask: tuple[Rule, ...] = attrs.field(default=(), converter=parse_rules)
    deny: tuple[Rule, ...] = attrs.field(default=(), converter=parse_rules)
    allowed_tools: tuple[str, ...] | None = attrs.field(default=None, converter=_maybe_names)
    disallowed_tools: tuple[str, ...] = attrs.field(default=(), converter=_names)
    above: "PermissionPolicy | None" = None

    # What is offered.

    def offers(self, name: str) -> bool:
        """Whether a tool of this name is offered to the model."""
        return (
            (self.allowed_tools is None or _among(name, self.allowed_tools))
            and not _among(name, self.disallowed_tools)
            and not any(rule.is_bare and rule.names(name) for rule in self.deny)
            and (self.above is None or self.above.offers(name))
        )

    def offered(
        self, tools: Iterable[Tool], whitelist: Collection[str] | None = None
    ) -> tuple[Tool, ...]:
        """The tools that a model is offered, in order.

        Args:
            tools: The agent's tools.
            whitelist: Names, exactly, to which this run is narrowed; None: all. A name of no tool
                adds none; `unknown` tells of it.

        Raises:
            ConfigError: The whitelist is a text, not a list of texts.
        """
        only = _maybe_names(whitelist)
        return tuple(
            tool for tool in tools if self.offers(tool.name) and (only is None or tool.name in only)
        )

    def narrowed(self, whitelist: Iterable[str]) -> "PermissionPolicy":
        """This policy for a run that is narrowed to tools of these names; it never widens.

        Raises:
            ConfigError: The whitelist is a text, not a list of texts.
        """
        names = (name for name in _names(whitelist) if self.offers(name))
        return attrs.evolve(self, allowed_tools=tuple(map(escaped, names)))

    def under(self, above: "PermissionPolicy | None") -> "PermissionPolicy":
        """This policy for a run that another run started: that run's holds as well."""
        if above is None:
            return self
        return attrs.evolve(self, above=above if self.above is None else self.above.under(above))

    # What is decided.

    def decide(
        self,
        call: ToolUseBlock,
        tool: Tool | None,
        situation: DecisionContext,
    ) -> Verdict:
        """Whether a call may run, may not, or has to be asked about.

        Args:
            call: The call, with its final arguments, which fit the tool's schema.
            tool: The tool of the run that has exactly the call's name; None: there is none.
            situation: Where and when, and what was decided before.

        Returns:
            An `Allow` with an `input` asks the caller to run the call with that, which was judged
            here, and has to fit the schema and pass the guards as any other rewrite.
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
        """Judge a call that somebody has approved, with the arguments that they approved.

        What would be asked about is allowed, since it was asked; what is denied stays so.
        """
        verdict = self._own(call, tool, situation)
        if isinstance(verdict, Deny):
            return verdict
        if self.above is not None:
            above = self.above.approved(call, tool, situation)
            if isinstance(above, Deny):
                return above
        return Allow("it was approved")

    def settle(
        self,
        decision: PermissionDecision,
        ask: Ask,
        call: ToolUseBlock,
        tool: Tool,
        situation: DecisionContext,
    ) -> tuple[Verdict, Grants]:
        """What a decision comes to, and what is remembered from now on.

        A decision that rewrites is judged again, and nothing is remembered of one that is refused
        for that. A decision to `ask` gives the question back.

        Args:
            decision: What was said to the question.
            ask: The question.
            call: The call that was asked about.
            tool: Its tool.
            situation: As it is now: others may have answered while one waited.

        Raises:
            ConfigError: The rule to remember cannot be read, or does not match the call.
        """
        if decision.behavior == "ask":
            return ask, situation.grants
        allowed = decision.behavior == "allow"
        own = None if decision.input is None else copy_object(decision.input)
        verdict: Verdict = Deny(decision.reason or "it was not approved")
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

    # What is checked where it meets an agent.

    def check(self, has_approver: bool, tools: Iterable[Tool] = ()) -> None:
        """Refuse what cannot work, where a policy meets an agent.

        Args:
            has_approver: Whether there is somebody to ask: a `can_use_tool`, an approver, or one
                who answers questions.
            tools: The agent's tools.

        Raises:
            ConfigError: `prompt` without somebody to ask; a rule that restricts a tool under a
                name in other case or with blanks; a rule with a field that its tool never has.
        """
        if self.mode is PermissionMode.PROMPT and not has_approver:
            raise ConfigError(
                "permissions: mode 'prompt' asks about every call, and there is nobody to ask; "
                "give an approver or can_use_tool, or take another mode"
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
        """Names, in the policy's lists and rules and in a whitelist, that no tool has.

        They are no fault, since many agents may share a policy; they are worth a line in a log.

        Raises:
            ConfigError: The whitelist is a text, not a list of texts.
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

    # One policy, without the one above.

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
                return Deny(f"it is denied by the rule {rule.text!r}")
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
        grant = situation.find(tool, call.input)
        if grant is not None:
            if grant.allowed:
                own = None if grant.input is None else copy_object(grant.input)
                return Allow(grant.reason or "it was approved before", own, grant)
            return Deny(grant.reason or "it was denied before", grant)
        for rule in self.ask:
            if rule.restricts(tool, call.input, situation.cwd):
                return _ask(call, tool, situation.cwd, f"the rule {rule.text!r} asks about it")
        for rule in self.allow:
            if rule.permits(tool, call.input, situation.cwd):
                return Allow(f"it is allowed by the rule {rule.text!r}")
        match MODES[self.mode][effect_of(tool)]:
            case "allow":
                return Allow(f"mode {self.mode.value!r} lets it run")
            case "deny":
                return self._mode_denies()
            case _:
                reason = f"mode {self.mode.value!r} asks: the tool {effect_of(tool).value}"
                return _ask(call, tool, situation.cwd, reason)

    def _mode_denies(self) -> Deny:
        return Deny(f"mode {self.mode.value!r} does not let it run")


def _ask(call: ToolUseBlock, tool: Tool, cwd: PurePath, reason: str) -> Ask:
    prompt = f"Allow {tool.name}({_shown(call.input)})?"
    return Ask(prompt, reason=reason, rule=rule_for(tool, call.input, cwd))


def _shown(arguments: JsonObject) -> str:
    # A model writes them: nothing in them may move the cursor or turn the direction of reading.
    if is_deeper(arguments, MAX_DEPTH):
        return "arguments that are nested too deeply to be shown"
    text = json.dumps(arguments, ensure_ascii=False)
    text = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )
    if len(text) <= _SHOWN:
        return text
    half = _SHOWN // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters more) ... {text[-half:]}"


def _among(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, one) for one in globs)


def _check_spelling(name: str, known: Iterable[str]) -> None:
    for other in known:
        if other.casefold() == name.strip().casefold():
            raise ConfigError(
                f"permissions: {name!r} restricts no tool, as names meet exactly; write {other!r}"
            )
