"""A decision applies exactly as long, and to exactly the calls, for which it was given."""

from pathlib import PurePosixPath
from typing import Literal

import attrs
import pytest

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError
from agent_actors.permissions import (
    NO_GRANTS,
    Allow,
    Ask,
    DecisionContext,
    Deny,
    Grants,
    PermissionDecision,
    PermissionPolicy,
    Remember,
)
from agent_actors.permissions.grants import GrantStore
from agent_actors.tools import Tool
from tests.permissions.support import BASH, CWD, EDIT, HERE, LOOSE, call

POLICY = PermissionPolicy(deny=["Bash(rm *)"], ask=["Bash(git push *)"])
PUSH = call(BASH, command="git push")


def settle(
    decision: PermissionDecision, situation: DecisionContext = HERE
) -> tuple[Allow | Deny | Ask, Grants]:
    ask = POLICY.decide(PUSH, BASH, situation)
    assert isinstance(ask, Ask)
    return POLICY.settle(decision, ask, PUSH, BASH, situation)


def judged(command: str, kept: Grants, now: float = 0.0, session_id: str = "s1") -> str:
    situation = DecisionContext(CWD, session_id, kept, now)
    return type(POLICY.decide(call(BASH, command=command), BASH, situation)).__name__


def test_nothing_is_remembered_by_default() -> None:
    verdict, kept = settle(PermissionDecision("allow"))
    assert verdict == Allow("the call was approved")
    assert len(kept) == 0
    verdict, kept = settle(PermissionDecision("deny"))
    assert verdict == Deny("the call was not approved")
    assert kept is NO_GRANTS


def test_returned_grant_restores_the_question() -> None:
    verdict, kept = settle(PermissionDecision("ask"))
    assert isinstance(verdict, Ask)
    assert kept is NO_GRANTS


@pytest.mark.parametrize(("scope", "elsewhere"), [("session", "Ask"), ("always", "Allow")])
def test_approval_covers_same_arguments_in_sessions(scope: str, elsewhere: str) -> None:
    remember = Remember(scope)
    _, kept = settle(PermissionDecision("allow", remember=remember))
    assert judged("git push", kept) == "Allow"
    assert judged("git push", kept, session_id="s2") == elsewhere
    assert judged("git push --force", kept) == "Ask"
    assert judged("git  push", kept) == "Ask"


def test_single_call_approval_is_used_once() -> None:
    _, kept = settle(PermissionDecision("allow", remember="once"))
    verdict = POLICY.decide(PUSH, BASH, attrs.evolve(HERE, grants=kept))
    assert isinstance(verdict, Allow)
    assert verdict.grant is not None
    kept = kept.spent(verdict.grant)
    assert judged("git push", kept) == "Ask"
    assert kept.spent(None) is kept


def test_single_call_approvals_are_independent() -> None:
    _, kept = settle(PermissionDecision("allow", remember="once"))
    kept = attrs.evolve(HERE, grants=kept).approve(PUSH, BASH, Remember("once"))
    for left in (1, 0):
        verdict = POLICY.decide(PUSH, BASH, attrs.evolve(HERE, grants=kept))
        assert isinstance(verdict, Allow)
        kept = kept.spent(verdict.grant)
        assert len(kept) == left


def test_lasting_approval_is_used_first() -> None:
    for scopes in (("once", "session"), ("session", "once")):
        kept = NO_GRANTS
        for scope in scopes:
            kept = attrs.evolve(HERE, grants=kept).approve(PUSH, BASH, Remember(scope))
        verdict = POLICY.decide(PUSH, BASH, attrs.evolve(HERE, grants=kept))
        assert isinstance(verdict, Allow)
        assert verdict.grant is not None
        assert verdict.grant.scope == "session"
        assert kept.spent(verdict.grant) is kept


@pytest.mark.feature("ASDK-066")
def test_an_approval_ends_with_its_time() -> None:
    remember = Remember("session", ttl=10)
    _, kept = settle(PermissionDecision("allow", remember=remember), attrs.evolve(HERE, now=100.0))
    assert judged("git push", kept, now=109.9) == "Allow"
    assert judged("git push", kept, now=110.0) == "Ask"
    assert len(kept.expire(109.9)) == 1
    assert len(kept.expire(110.0)) == 0


@pytest.mark.feature("ASDK-066")
def test_session_end_removes_approvals() -> None:
    kept = NO_GRANTS
    for session_id, scope in (("s1", "session"), ("s2", "once"), ("s1", "always")):
        situation = DecisionContext(CWD, session_id, kept)
        kept = situation.approve(PUSH, BASH, Remember(scope))
    assert len(kept) == 3
    assert len(kept.forget("s1")) == 2
    assert len(kept.forget("s1").forget("s2")) == 1


def test_an_approval_holds_where_it_was_given() -> None:
    _, kept = settle(PermissionDecision("allow", remember="always"))
    elsewhere = DecisionContext(PurePosixPath("/other"), "s1", kept)
    assert isinstance(POLICY.decide(PUSH, BASH, elsewhere), Ask)


def test_rule_approval_covers_its_rule() -> None:
    remember = Remember("session", rule="Bash(git *)")
    _, kept = settle(PermissionDecision("allow", remember=remember))
    assert judged("git push --force", kept) == "Allow"
    assert judged("git push; git log", kept) == "Allow"
    assert judged("git push > x", kept) == "Ask"


def test_denial_is_remembered_and_wins() -> None:
    _, kept = settle(PermissionDecision("allow", remember="always"))
    situation = attrs.evolve(HERE, grants=kept)
    remember = Remember("session", rule="Bash(git push *)")
    ask = Ask("?")
    verdict, kept = POLICY.settle(
        PermissionDecision("deny", reason="not today", remember=remember),
        ask, PUSH, BASH, situation,
    )  # fmt: skip
    assert verdict == Deny("not today")
    denied = POLICY.decide(PUSH, BASH, attrs.evolve(HERE, grants=kept))
    assert isinstance(denied, Deny)
    assert denied.reason == "not today"
    assert denied.grant is not None
    assert judged("sudo git push", kept) == "Deny"
    assert judged("git push", kept, session_id="s2") == "Allow"


def test_single_denial_precedes_general_approval() -> None:
    _, kept = settle(PermissionDecision("deny", remember="once"))
    for scope in ("session", "always"):
        kept = attrs.evolve(HERE, grants=kept).approve(PUSH, BASH, Remember(scope))
    assert judged("git push", kept) == "Deny"


def test_denial_without_reason_has_default_text() -> None:
    _, kept = settle(PermissionDecision("deny", remember="once"))
    denied = POLICY.decide(PUSH, BASH, attrs.evolve(HERE, grants=kept))
    assert isinstance(denied, Deny)
    assert denied.reason == "the call was denied before"
    assert judged("git push", kept.spent(denied.grant)) == "Ask"


def test_last_decision_on_calls_wins() -> None:
    _, kept = settle(PermissionDecision("deny", remember="session"))
    kept = attrs.evolve(HERE, grants=kept).approve(PUSH, BASH, Remember("session"))
    assert len(kept) == 1
    assert judged("git push", kept) == "Allow"
    rule = Remember("session", rule="Bash(git push)")
    kept = attrs.evolve(HERE, grants=kept).approve(PUSH, BASH, rule)
    assert len(attrs.evolve(HERE, grants=kept).approve(PUSH, BASH, rule)) == 2


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("Bash(npm *)", "does not match the call"),
        ("*(git *)", "must name the tool of the call, 'Bash'"),
        ("*", "must name the tool of the call, 'Bash'"),
        ("Edit", "must name the tool of the call, 'Bash'"),
        ("Bash(", "the rule must end with"),
    ],
)
@pytest.mark.parametrize("behavior", ["allow", "deny"])
def test_remembered_rule_must_match_the_call(
    rule: str, reason: str, behavior: Literal["allow", "deny"]
) -> None:
    decision = PermissionDecision(behavior, remember=Remember("always", rule=rule))
    with pytest.raises(ConfigError, match=reason):
        settle(decision)


def test_a_rewrite_is_judged_again() -> None:
    decision = PermissionDecision("allow", input={"command": "rm -rf /"}, remember="always")
    verdict, kept = settle(decision)
    assert verdict == Deny("the call is denied by the rule 'Bash(rm *)'")
    assert kept is NO_GRANTS


def test_rewrite_is_remembered_with_its_input() -> None:
    written: JsonObject = {"command": "git push --dry-run", "env": {"A": "b"}}
    verdict, kept = settle(PermissionDecision("allow", input=written, remember="session"))
    assert verdict == Allow("the call was approved", written)
    assert isinstance(verdict, Allow)
    written.clear()
    assert verdict.input == {"command": "git push --dry-run", "env": {"A": "b"}}
    again = POLICY.decide(PUSH, BASH, attrs.evolve(HERE, grants=kept))
    assert isinstance(again, Allow)
    assert again.input == verdict.input
    assert again.input is not None
    again.input.clear()
    more = POLICY.decide(PUSH, BASH, attrs.evolve(HERE, grants=kept))
    assert isinstance(more, Allow)
    assert more.input == verdict.input


def test_remembered_rewrite_is_judged_again() -> None:
    _, kept = settle(
        PermissionDecision("allow", input={"command": "git push --dry-run"}, remember="session")
    )
    stricter = attrs.evolve(POLICY, deny=["Bash(* --dry-run)"])
    verdict = stricter.decide(PUSH, BASH, attrs.evolve(HERE, grants=kept))
    assert verdict == Deny("the call is denied by the rule 'Bash(* --dry-run)'")


def test_deny_rule_outranks_remembered_approval() -> None:
    rm = call(BASH, command="rm x")
    for remember in (Remember("always"), Remember("always", rule="Bash")):
        kept = HERE.approve(rm, BASH, remember)
        assert judged("rm x", kept) == "Deny"


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


def test_incomparable_arguments_are_not_remembered() -> None:
    deep = call(LOOSE, x=nested(100_000))
    with pytest.raises(ConfigError, match="nested too deeply to be compared; pass a rule"):
        HERE.approve(deep, LOOSE, Remember("always"))
    kept = HERE.approve(call(LOOSE, x=1), LOOSE, Remember("always"))
    verdict = POLICY.decide(deep, LOOSE, attrs.evolve(HERE, grants=kept))
    assert isinstance(verdict, Ask)
    assert verdict.prompt == "Allow Loose(arguments that are nested too deeply to show)?"


@pytest.mark.parametrize(
    ("made", "one", "other"),
    [
        (LOOSE, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (LOOSE, {"a": (1, 2)}, {"a": [1, 2]}),
    ],
)
def test_argument_order_does_not_matter(made: Tool, one: JsonObject, other: JsonObject) -> None:
    kept = HERE.approve(call(made, **one), made, Remember("session"))
    situation = attrs.evolve(HERE, grants=kept)
    assert situation.find(made, other) is not None
    assert situation.find(made, {**other, "c": 1}) is None
    assert situation.find(made, {**other, "a": True}) is None
    assert situation.find(EDIT, other) is None


def test_store_drops_grants_of_session() -> None:
    store = GrantStore(lambda: 0.0)
    store.forget("s1")
    situation = DecisionContext(CWD, "s1", store.grants)
    store.grants = situation.approve(PUSH, BASH, Remember("session"))
    store.forget("s1")
    assert not store.grants
