"""Answers are read in the same way everywhere: any answer that is not clearly a yes is a no."""

import math
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import ConfigError
from agent_actors.permissions import (
    CHOICES,
    Ask,
    InteractiveApprover,
    PermissionDecision,
    PermissionRequest,
    Remember,
    as_decision,
    read_answer,
)
from tests.permissions.support import BASH, call


@pytest.mark.feature("OAGS-086")
@pytest.mark.parametrize("text", ["y", "yes", "Y", "YES", " Yes\n", "\tyEs "])
def test_yes_is_case_insensitive_and_trimmed(text: str) -> None:
    decision = read_answer(text)
    assert (decision.behavior, decision.remember) == ("allow", None)


@pytest.mark.feature("OAGS-086")
@pytest.mark.parametrize(
    "text", ["", "n", "no", "ye", "yess", "y e s", "yes!", "y\x00", "ok", "ja", "1", "true", "once"]
)
def test_all_else_denies(text: str) -> None:
    assert read_answer(text).behavior == "deny"


@given(st.text())
def test_no_other_text_allows(text: str) -> None:
    said = text.strip().lower()
    assert (read_answer(text, ()).behavior == "allow") == (said in ("y", "yes"))


@pytest.mark.parametrize("scope", ["session", "always"])
def test_scope_must_have_been_offered(scope: str) -> None:
    decision = read_answer(f" {scope.upper()} ", rule="Bash(git *)", ttl=5)
    assert decision.behavior == "allow"
    assert decision.remember == Remember(scope, ttl=5, rule="Bash(git *)")
    assert read_answer(scope, ("yes", "no")).behavior == "deny"


def test_booleans_are_short_answers() -> None:
    decision = PermissionDecision("ask")
    assert as_decision(decision) is decision
    assert as_decision(True) == PermissionDecision("allow")
    assert as_decision(False) == PermissionDecision("deny")
    for other in (None, "allow", 1, "y"):
        with pytest.raises(ConfigError, match="can_use_tool must return a PermissionDecision"):
            as_decision(other)


def test_bare_scope_remembers_without_end() -> None:
    assert PermissionDecision("allow", remember="session").remember == Remember("session")
    assert Remember("once") == Remember("once", ttl=math.inf, rule="")


def test_a_decision_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="behavior must be 'allow', 'deny' or 'ask'; got 'yes'"):
        PermissionDecision("yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="input requires the behavior"):
        PermissionDecision("deny", input={})
    with pytest.raises(ConfigError, match="remember cannot be combined with"):
        PermissionDecision("ask", remember="once")
    with pytest.raises(ConfigError, match="input cannot be combined with a remember rule"):
        PermissionDecision("allow", input={}, remember=Remember("once", rule="Bash"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"input": "x"}, "input must be a JSON object; got 'x'"),
        (
            {"input": {"a": object()}},
            r"input: a value of type object cannot be converted to JSON \(at a\)",
        ),
        ({"reason": 5}, "reason must be text; got 5"),
        ({"remember": 5}, "remember must be a Remember or a scope; got 5"),
    ],
)
def test_unkeepable_decision_is_refused(fields: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=f"PermissionDecision: {says}"):
        PermissionDecision("allow", **fields)


@pytest.mark.parametrize("ttl", [0, -1, math.nan])
def test_invalid_remember_values_are_refused(ttl: float) -> None:
    with pytest.raises(ConfigError, match="ttl must be above 0 seconds"):
        Remember("once", ttl=ttl)
    with pytest.raises(ConfigError, match="expected 'once', 'session' or 'always'; got 'ever'"):
        Remember("ever")


def request(ask: Ask) -> PermissionRequest:
    return PermissionRequest(call(BASH, command="ls"), BASH, ask)


@pytest.mark.feature("OAGS-085")
def test_the_interactive_approver_asks_by_its_function() -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return " ALWAYS "

    approve = InteractiveApprover(answer)
    decision = approve(request(Ask("Allow it?", rule="Bash(ls)")))
    assert asked == ["Allow it? [yes/session/always/no] "]
    assert decision.remember == Remember("always", rule="Bash(ls)")
    assert CHOICES == ("yes", "session", "always", "no")


@pytest.mark.feature("OAGS-085")
def test_end_of_input_denies() -> None:
    def end(_: str) -> str:
        raise EOFError

    assert InteractiveApprover(end)(request(Ask("?"))).behavior == "deny"


def test_questions_come_one_after_another() -> None:
    asked: list[str] = []
    answers: list[str] = []
    second = Thread(target=lambda: answers.append(approver(request(Ask("b"))).behavior))

    def answer(prompt: str) -> str:
        asked.append(prompt)
        if len(asked) == 1:
            second.start()
            second.join(0.02)
            assert len(asked) == 1
            return "y"
        return "n"

    approver = InteractiveApprover(answer)
    assert approver(request(Ask("a"))).behavior == "allow"
    second.join()
    assert (len(asked), answers) == (2, ["deny"])


def test_terminal_approvers_take_turns() -> None:
    terminal = [InteractiveApprover(), InteractiveApprover()]
    assert terminal[0]._turn is terminal[1]._turn
    assert InteractiveApprover(str)._turn is not InteractiveApprover(str)._turn
