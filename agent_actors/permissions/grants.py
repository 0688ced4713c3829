"""What was decided of calls, for as long as it holds: a value, changed by making another.

A decision holds for one tool by its exact name, and for the very same arguments or those that a
rule matches; in one session or in all; and only where it was given, in the same working directory,
since `src/a.py` is another file elsewhere. It never outweighs a deny rule: the policy looks at
those first. No clock is read here; whoever asks says what time it is, by any one clock.
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
    """For how long, and for which calls, a decision holds.

    Attributes:
        scope: `once`: for one more call in this session; `session`: for all in it; `always`: in
            every session of the runtime.
        ttl: Seconds from the decision on.
        rule: The calls for which it holds, such as `Bash(git *)`. It has to name the tool itself,
            and to match the call that was asked about. Empty: the same arguments.
    """

    scope: Scope = attrs.field(converter=_scope)
    ttl: float = attrs.field(default=math.inf, validator=_positive, kw_only=True)
    rule: str = attrs.field(default="", kw_only=True)


@attrs.frozen
class Grant:
    """A decision that is remembered.

    Attributes:
        tool: The tool's name, exactly.
        allowed: True: such calls may run; False: they may not.
        scope: See `Remember`.
        session_id: The session for which it holds; None: every one.
        cwd: The working directory for which it holds.
        until: When it ends; it no longer holds at that time itself.
        rule: The calls for which it holds; None: those with the arguments of `key`.
        key: These arguments, in a form that can be compared; empty with a rule.
        input: The arguments that such a call runs with; None: its own.
        reason: Why; the model is told when it denies.
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

    def holds(self, tool: Tool, arguments: JsonObject, cwd: PurePath, now: float) -> bool:
        """Whether it says something of this call."""
        if now >= self.until or cwd != self.cwd:
            return False
        if self.rule is None:
            return self.key != "" and self.key == _key(arguments)
        matches = self.rule.permits if self.allowed else self.rule.restricts
        return matches(tool, arguments, cwd)


@attrs.frozen
class Grants:
    """An immutable set of remembered decisions; `NO_GRANTS` is the empty one."""

    _grants: Mapping[_Place, tuple[Grant, ...]] = _NOTHING

    def __len__(self) -> int:
        """How many they are, ended ones included until `expire`."""
        return sum(map(len, self._grants.values()))

    def with_grant(self, grant: Grant) -> Self:
        """With one decision more; it replaces an earlier one of the same scope and calls.

        Those for one call (`once`) stand side by side, each for a call of its own.
        """
        place = (grant.session_id, grant.tool)
        others = (one for one in self._grants.get(place, ()) if not _same_calls(one, grant))
        return attrs.evolve(self, grants={**self._grants, place: (*others, grant)})

    def of(self, session_id: str, tool: str) -> Iterator[Grant]:
        """What is remembered of a tool in a session, what holds in all of them included."""
        yield from self._grants.get((session_id, tool), ())
        yield from self._grants.get((None, tool), ())

    def spent(self, grant: Grant | None) -> Self:
        """After a call was judged by it: a decision that was for one call is gone.

        To be done at once, before another call is judged.
        """
        if grant is None or grant.scope != "once":
            return self
        return self._kept(lambda one: one is not grant)

    def expire(self, now: float) -> Self:
        """Without what no longer holds."""
        return self._kept(lambda one: now < one.until)

    def forget(self, session_id: str) -> Self:
        """Without what held in this session: it has ended."""
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
    """The circumstances in which the policy decides on a call.

    Attributes:
        cwd: The run's working directory, absolute: relative paths lie in it.
        session_id: The session.
        grants: The decisions that were made before.
        now: The time, by the clock by which that was remembered.
    """

    cwd: PurePath
    session_id: str = ""
    grants: Grants = NO_GRANTS
    now: float = 0.0

    def find(self, tool: Tool, arguments: JsonObject) -> Grant | None:
        """What is remembered of such a call: a denial before an approval; None: nothing."""
        found: Grant | None = None
        for grant in self.grants.of(self.session_id, tool.name):
            if grant.holds(tool, arguments, self.cwd, self.now):
                if not grant.allowed:
                    return grant
                # What lasts goes before what is used up.
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
        input: JsonObject | None = None,  # noqa: A002 - as the decision has it
        reason: str = "",
    ) -> Grants:
        """What is remembered once this is decided of a call.

        Args:
            call: The call that was asked about, as it was asked about.
            tool: Its tool.
            remember: For how long, and for which calls.
            allowed: False: remember that it was denied.
            input: The arguments to run with in place of the call's.
            reason: Why.

        Raises:
            ConfigError: The rule cannot be read, names other tools too, or does not match the call;
                or there is none, and the arguments are nested too deeply to be compared.
        """
        rule, key = None, ""
        if remember.rule:
            rule = _rule(remember.rule, call, tool, self.cwd, allowed=allowed)
        else:
            key = _key(call.input)
            if not key:
                raise ConfigError("remember: the arguments are nested too deeply; name a rule")
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
        )
        return self.grants.with_grant(grant)


def _rule(text: str, call: ToolUseBlock, tool: Tool, cwd: PurePath, *, allowed: bool) -> Rule:
    rule = Rule.parse(text)
    if rule.name != tool.name:
        raise ConfigError(
            f"remember: the rule {text!r} has to name the tool {tool.name!r} itself, which was "
            "asked about"
        )
    matches = rule.permits if allowed else rule.restricts
    if not matches(tool, call.input, cwd):
        raise ConfigError(f"remember: the rule {text!r} does not match the call it was given for")
    return rule


def _same_calls(one: Grant, other: Grant) -> bool:
    return (
        one.scope == other.scope != "once"
        and one.cwd == other.cwd
        and one.key == other.key
        and (one.rule and one.rule.text) == (other.rule and other.rule.text)
    )


def _key(arguments: JsonObject) -> str:
    if is_deeper(arguments, MAX_DEPTH):  # such arguments are like no others
        return ""
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


@attrs.define(eq=False)
class GrantStore:
    """The grants of one runtime, replaced by new values as decisions are made and spent.

    Attributes:
        clock: The clock by which grants end, in seconds.
        grants: The grants that hold now.
    """

    clock: Callable[[], float]
    grants: Grants = NO_GRANTS

    def forget(self, session_id: str) -> None:
        """Drop the grants of a session that left the runtime, and every grant that has ended."""
        if self.grants:
            self.grants = self.grants.forget(session_id).expire(self.clock())
