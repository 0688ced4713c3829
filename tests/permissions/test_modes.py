"""The verdicts of each mode, and the effect that the flags of a tool describe."""

import itertools

import pytest

from agent_actors.errors import ConfigError
from agent_actors.permissions import (
    MODES,
    Deny,
    Effect,
    PermissionMode,
    PermissionPolicy,
    effect_of,
)
from agent_actors.permissions.modes import FLAGS, as_mode, is_out_of_bounds
from agent_actors.tools import Tool, tool
from tests.permissions.support import BASH, EDIT, FETCH, HERE, NOTE, READ, SEND, call, take


def made(effect: Effect) -> Tool:
    read_only, destructive, open_world = FLAGS[effect]
    return Tool(
        "t", "", None, take, read_only=read_only, destructive=destructive, open_world=open_world
    )


def test_every_tool_has_one_effect() -> None:
    effects = [effect_of(made(effect)) for effect in Effect]
    assert effects == list(Effect)
    for read_only, destructive, open_world in itertools.product((True, False), repeat=3):
        if not (read_only and destructive):
            options = tool(read_only=read_only, destructive=destructive, open_world=open_world)
            assert effect_of(options(empty)) in Effect


def empty() -> None:
    """Do nothing."""


def test_effects_follow_the_flags() -> None:
    effects = [effect_of(one) for one in (READ, FETCH, NOTE, EDIT, SEND, BASH)]
    assert effects == list(Effect)
    assert [effect.only_reads for effect in Effect] == [True, True, False, False, False, False]


@pytest.mark.feature("OAGS-083", "OAGS-084", "OAS-111")
@pytest.mark.parametrize("mode", PermissionMode)
@pytest.mark.parametrize("effect", Effect)
def test_policy_follows_the_mode_table(mode: PermissionMode, effect: Effect) -> None:
    one = made(effect)
    verdict = PermissionPolicy(mode=mode).decide(call(one), one, HERE)
    assert type(verdict).__name__.lower() == MODES[mode][effect]


def test_reading_is_never_stricter_than_writing() -> None:
    rank = {"allow": 0, "ask": 1, "deny": 2}
    for row in MODES.values():
        assert rank[row[Effect.READS]] == min(rank[verdict] for verdict in row.values())
        assert rank[row[Effect.CHANGES_OUTSIDE]] == max(rank[verdict] for verdict in row.values())


def test_plan_denies_and_deny_mode_denies() -> None:
    for mode, effect, asks in itertools.product(PermissionMode, Effect, (True, False)):
        out = (mode is PermissionMode.PLAN and not effect.only_reads) or (
            mode is PermissionMode.DENY and asks
        )
        assert is_out_of_bounds(mode, effect, asks=asks) == out


def test_plan_mode_ignores_allow_rules() -> None:
    policy = PermissionPolicy(mode="plan", allow=["*"], ask=["Fetch"])
    assert isinstance(policy.decide(call(EDIT, file_path="a"), EDIT, HERE), Deny)
    reading = policy.decide(call(READ, file_path="a"), READ, HERE)
    assert type(reading).__name__ == "Allow"


def test_deny_mode_allows_by_rules_only() -> None:
    policy = PermissionPolicy(mode="deny", allow=["Read"], ask=["Fetch"])
    assert policy.decide(call(FETCH, url="x"), FETCH, HERE) == Deny(
        "mode 'deny' does not allow the call"
    )
    assert type(policy.decide(call(READ, file_path="a"), READ, HERE)).__name__ == "Allow"


def test_bypass_still_obeys_rules() -> None:
    policy = PermissionPolicy(mode="bypass", deny=["Bash(rm *)"], ask=["Bash(git push *)"])
    verdicts = [
        type(policy.decide(call(BASH, command=line), BASH, HERE)).__name__
        for line in ("rm x", "git push", "anything > else")
    ]
    assert verdicts == ["Deny", "Ask", "Allow"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Default", "did you mean default?"),
        ("acceptEdits", "did you mean accept_edits?"),
        (" plan", "did you mean plan?"),
        (None, "expected one of default, accept_edits, plan, bypass, deny, prompt"),
        ("xyz", "expected one of"),
    ],
)
def test_unknown_mode_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint.replace("?", "\\?")):
        as_mode(name)
    assert as_mode("plan") is PermissionMode.PLAN
