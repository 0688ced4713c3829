"""Remembered decisions about calls (grants), in an immutable set.

A decision applies to one tool by its exact name, and to equal arguments or to arguments that match
a rule. It applies to one session or to all sessions. It applies only in the working directory in
which it was made, because `src/a.py` is a different file elsewhere. It never overrides a deny rule,
because the policy checks deny rules first. This module reads no clock; callers pass the time,
always from the same clock.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Final, Literal, Self, TypeAlias, get_args

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import MAX_DEPTH, JsonObject, copy_object, is_deeper
from agent_actors.errors import ConfigError
from agent_actors.permissions.rules import Rule
from agent_actors.tools import Tool

Scope: TypeAlias = Literal["once", "session", "always"]

_SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_Place: TypeAlias = tuple[str | None, str]
_NOTHING: Final[Mapping[_Place, "tuple[Grant, ...]"]] = {}


def _scope(value: str) -> Scope:
    for scope in _SCOPES:
        if value == scope:
            return scope
    raise ConfigError(f"remember: expected 'once', 'session' or 'always'; got {value!r:.80}")


def _positive(_: object, __: object, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"remember: ttl must be above 0 seconds, or math.inf; got {value!r:.80}")


@attrs.frozen
class Remember:
    """The duration of a remembered decision, and the calls to which it applies.

    Attributes:
        scope: `once` for one more call in this session; `session` for all calls in this session;
            `always` for calls in all sessions of the runtime.
        ttl: Seconds after the decision until it expires.
        rule: The calls to which the decision applies, for example `Bash(git *)`. The rule must name
            the tool and match the call in question. If empty, the decision applies to calls with
            equal arguments.
    """

    scope: Scope = attrs.field(converter=_scope)
    ttl: float = attrs.field(default=math.inf, validator=_positive, kw_only=True)
    rule: str = attrs.field(default="", kw_only=True)


@attrs.frozen
class Grant:
    """A remembered decision.

    Attributes:
        tool: The exact name of the tool.
        allowed: True if the calls may run, False if they must not.
        scope: See `Remember`.
        session_id: The session to which the decision applies; None for every session.
        cwd: The working directory in which the decision applies.
        until: The time at which the decision expires. At that time it no longer applies.
        rule: The calls to which the decision applies; None for calls with the arguments in `key`.
        key: The arguments in a form that can be compared; empty if there is a rule.
        input: Arguments that replace the call's own; None to keep them.
        reason: The reason; the model receives it if the call is denied.
        untrusted: True if the session already contained content from outside at the time of the
            decision.
    """

    tool: str
    allowed: bool
    scope: Scope
    session_id: str | None
    cwd: PurePath
    until: float
    rule: Rule | None = None
    key: str = ""
    input: JsonObject | None = None
    reason: str = ""
    untrusted: bool = False

    def holds(self, tool: Tool, arguments: JsonObject, cwd: PurePath, now: float) -> bool:
        """Return whether the decision applies to this call."""
        if now >= self.until or cwd != self.cwd:
            return False
        if self.rule is None:
            return self.key != "" and self.key == _key(arguments)
        matches = self.rule.permits if self.allowed else self.rule.restricts
        return matches(tool, arguments, cwd)


@attrs.frozen
class Grants:
    """An immutable set of remembered decisions; `NO_GRANTS` is the empty set."""

    _grants: Mapping[_Place, tuple[Grant, ...]] = _NOTHING

    def __len__(self) -> int:
        """Return the number of decisions, including expired ones not yet removed by `expire`."""
        return sum(map(len, self._grants.values()))

    def with_grant(self, grant: Grant) -> Self:
        """Return the set with this decision, which replaces one with the same scope and calls.

        Decisions for one call (`once`) are not replaced, because each of them applies to one call.
        """
        place = (grant.session_id, grant.tool)
        others = (one for one in self._grants.get(place, ()) if not _same_calls(one, grant))
        return attrs.evolve(self, grants={**self._grants, place: (*others, grant)})

    def of(self, session_id: str, tool: str) -> Iterator[Grant]:
        """Yield the decisions about a tool in a session, including those for all sessions."""
        yield from self._grants.get((session_id, tool), ())
        yield from self._grants.get((None, tool), ())

    def spent(self, grant: Grant | None) -> Self:
        """Return the set without this decision if it was for one call only.

        Use this immediately after the decision was applied, before another call is decided.
        """
        if grant is None or grant.scope != "once":
            return self
        return self._kept(lambda one: one is not grant)

    def expire(self, now: float) -> Self:
        """Return the set without expired decisions."""
        return self._kept(lambda one: now < one.until)

    def forget(self, session_id: str) -> Self:
        """Return the set without the decisions for this session, which has ended."""
        return self._kept(lambda one: one.session_id != session_id)

    def _kept(self, keep: Callable[[Grant], bool]) -> Self:
        kept = {
            place: left
            for place, grants in self._grants.items()
            if (left := tuple(one for one in grants if keep(one)))
        }
        return attrs.evolve(self, grants=kept)


NO_GRANTS: Final = Grants()


@attrs.frozen
class DecisionContext:
    """The circumstances in which the policy decides about a call.

    Attributes:
        cwd: The run's working directory, absolute; the base of relative paths.
        session_id: The session.
        grants: The remembered decisions.
        now: The current time, from the same clock as the times in the remembered decisions.
        untrusted: True if the session contains content from outside; see `Tool.untrusted_results`.
    """

    cwd: PurePath
    session_id: str = ""
    grants: Grants = NO_GRANTS
    now: float = 0.0
    untrusted: bool = False

    def find(
        self, tool: Tool, arguments: JsonObject, *, made_untrusted: bool = False
    ) -> Grant | None:
        """Return the decision that applies to a call; None if none does. Denials come first.

        Args:
            tool: The tool of the call.
            arguments: The arguments of the call.
            made_untrusted: True to ignore approvals that a person gave before the session contained
                content from outside.
        """
        found: Grant | None = None
        for grant in self.grants.of(self.session_id, tool.name):
            if grant.holds(tool, arguments, self.cwd, self.now):
                if not grant.allowed:
                    return grant
                if made_untrusted and not grant.untrusted:
                    continue
                # Decisions that last take precedence over decisions for one call.
                if found is None or found.scope == "once":
                    found = grant
        return found

    def approve(
        self,
        call: ToolUseBlock,
        tool: Tool,
        remember: Remember,
        *,
        allowed: bool = True,
        input: JsonObject | None = None,  # noqa: A002 - the name in the decision
        reason: str = "",
    ) -> Grants:
        """Return the remembered decisions, including this decision about a call.

        Args:
            call: The call in question, with the arguments that were shown.
            tool: The call's tool.
            remember: How long and for which calls the decision applies.
            allowed: True to remember an approval, False to remember a denial.
            input: Arguments that replace those of the call.
            reason: The reason.

        Raises:
            ConfigError: The rule is invalid, names more than this tool, or does not match the call;
                or there is no rule, and the arguments are nested too deeply to be compared.
        """
        rule, key = None, ""
        if remember.rule:
            rule = _rule(remember.rule, call, tool, self.cwd, allowed=allowed)
        else:
            key = _key(call.input)
            if not key:
                raise ConfigError(
                    "remember: the arguments are nested too deeply to be compared; pass a rule"
                )
        grant = Grant(
            tool.name,
            allowed,
            remember.scope,
            None if remember.scope == "always" else self.session_id,
            self.cwd,
            self.now + remember.ttl,
            rule,
            key,
            None if input is None else copy_object(input),
            reason,
            self.untrusted,
        )
        return self.grants.with_grant(grant)


def _rule(text: str, call: ToolUseBlock, tool: Tool, cwd: PurePath, *, allowed: bool) -> Rule:
    rule = Rule.parse(text)
    if rule.name != tool.name:
        raise ConfigError(
            f"remember: the rule {text!r} must name the tool of the call, {tool.name!r}"
        )
    matches = rule.permits if allowed else rule.restricts
    if not matches(tool, call.input, cwd):
        raise ConfigError(f"remember: the rule {text!r} does not match the call in question")
    return rule


def _same_calls(one: Grant, other: Grant) -> bool:
    return (
        one.scope == other.scope != "once"
        and one.cwd == other.cwd
        and one.key == other.key
        and (one.rule and one.rule.text) == (other.rule and other.rule.text)
    )


def _key(arguments: JsonObject) -> str:
    if is_deeper(arguments, MAX_DEPTH):  # such arguments are never equal to others
        return ""
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


@attrs.define(eq=False)
class GrantStore:
    """The current grants of one runtime.

    Attributes:
        clock: The clock that determines when grants expire, in seconds.
        grants: The current grants, replaced by a new value when a decision is remembered or used
            up.
    """

    clock: Callable[[], float]
    grants: Grants = NO_GRANTS

    def forget(self, session_id: str) -> None:
        """Drop the grants for a session that left the runtime, and all expired grants."""
        if self.grants:
            self.grants = self.grants.forget(session_id).expire(self.clock())
