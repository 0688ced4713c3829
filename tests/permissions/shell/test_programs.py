"""Allow rules for programs that run other programs: the warning, and the safe rules."""

import logging

import attrs
import pytest

from agent_actors.permissions import (
    SAFE_COMMANDS,
    Allow,
    PermissionPolicy,
    Rule,
    read_only_commands,
)
from agent_actors.permissions.shell.programs import (
    EXECUTING_OPTIONS,
    RUN_COMMANDS,
    WRAPPERS,
    find_execution_risk,
)
from tests.permissions.support import BASH, HERE, call


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("git *", "core.pager"),
        ("git:*", "core.pager"),
        ("/usr/bin/git  *", "core.pager"),
        ("git lo?", "core.pager"),
        ("git log *", "core.pager"),
        ("tar *", "--to-command"),
        ("tar -x *", "--to-command"),
        ("python *", "-c and -m"),
        ("sudo *", "it runs any program"),
        ("sudo -n ls *", "it runs any program"),
        ("bash *", "it runs any program"),
        ("docker *", "exec and run"),
        ("docker exec box *", "exec and run"),
    ],
)
def test_risk_of_an_allow_rule(pattern: str, reason: str) -> None:
    assert reason in find_execution_risk(pattern)
    assert Rule.parse(f"Bash({pattern})").execution_risk == find_execution_risk(pattern)
    assert Rule.parse(f"Bash(command=command:{pattern})").execution_risk


@pytest.mark.parametrize(
    "rule",
    [
        "Bash",
        "Bash(*)",
        "Bash(git push)",
        "Bash(git status *)",
        "Bash(python build.py *)",
        "Bash(docker ps *)",
        "Bash(ls *)",
        "Edit(git/**)",
        "Edit(path=git *)",
        "Note(text:git *)",
        *read_only_commands("shell"),
    ],
)
def test_rule_without_known_risk(rule: str) -> None:
    assert not Rule.parse(rule).execution_risk


def test_risky_allow_rule_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    policy = PermissionPolicy(allow=["Warned(git *)", "Warned(ls *)"], deny=["Warned(tar *)"])
    attrs.evolve(policy, mode="plan").narrowed(["Warned"])
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "agent_actors.permissions.policy")
    assert "'Warned(git *)'" in record.getMessage()


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git status --short && git status", True),
        ("grep -rn x src", True),
        ("git diff", True),
        ("git -c core.pager=x diff", False),
        ("git diff --output=x", False),
        ("ls; rm x", False),
        ("cat x > y", False),
        ("find . -delete", False),
    ],
)
def test_safe_commands_allow_reading_only(command: str, allowed: bool) -> None:
    policy = PermissionPolicy(allow=read_only_commands("Bash"), mode="deny")
    verdict = policy.decide(call(BASH, command=command), BASH, HERE)
    assert isinstance(verdict, Allow) is allowed


def test_safe_commands_use_no_risky_program() -> None:
    risky = {*EXECUTING_OPTIONS, *RUN_COMMANDS, *WRAPPERS} - {"git"}
    assert not risky & {pattern.split(" ")[0] for pattern in SAFE_COMMANDS}
