"""A policy's offered tools and verdicts, the order of its checks, and invalid policies."""

import attrs
import pytest

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.errors import ConfigError
from agent_actors.permissions import Allow, Ask, Deny, PermissionMode, PermissionPolicy, Remember
from agent_actors.permissions.modes import MODES
from tests.permissions.support import BASH, EDIT, FETCH, HERE, LOOSE, READ, TOOLS, call


def names(policy: PermissionPolicy, whitelist: list[str] | None = None) -> list[str]:
    return [tool.name for tool in policy.offered(TOOLS, whitelist)]


# Offered tools.


def test_all_tools_are_offered_by_default() -> None:
    assert names(PermissionPolicy()) == [tool.name for tool in TOOLS]


@pytest.mark.feature("ASDK-106")
@pytest.mark.parametrize(
    "policy",
    [
        PermissionPolicy(disallowed_tools=["Bash", "F*"], mode="bypass"),
        PermissionPolicy(deny=["Bash", "Fetch(*)"], mode="bypass"),
        PermissionPolicy(
            allowed_tools=["Edit", "Read", "[LMNS]*"], allow=["Bash", "Fetch"], mode="bypass"
        ),
    ],
)
def test_disallowed_tool_is_neither_offered_nor_run(policy: PermissionPolicy) -> None:
    assert names(policy) == ["Edit", "Read", "Note", "Send", "Move", "Loose"]
    for tool in (BASH, FETCH):
        kept = HERE.approve(call(tool), tool, Remember("always"))
        verdict = policy.decide(call(tool), tool, attrs.evolve(HERE, grants=kept))
        assert verdict == Deny(f"the tool '{tool.name}' is not available here")
        assert policy.approved(call(tool), tool, HERE) == verdict
    assert isinstance(policy.decide(call(EDIT), EDIT, HERE), Allow)


def test_partly_denied_tool_is_offered() -> None:
    assert "Bash" in names(PermissionPolicy(deny=["Bash(rm *)"]))


def test_empty_allowlist_offers_no_tools() -> None:
    assert names(PermissionPolicy(allowed_tools=[])) == []


@pytest.mark.feature("ASDK-070")
def test_allowlist_only_narrows_a_run() -> None:
    policy = PermissionPolicy(disallowed_tools=["Bash"], mode="bypass")
    assert names(policy, ["Read", "Bash", "bash", "*", "nothing"]) == ["Read"]
    narrowed = policy.narrowed(["Read", "Bash", "*", "nothing"])
    assert names(narrowed) == ["Read"]
    assert narrowed.decide(call(EDIT), EDIT, HERE) == Deny("the tool 'Edit' is not available here")
    assert isinstance(narrowed.decide(call(READ), READ, HERE), Allow)
    assert names(policy, []) == names(policy.narrowed([])) == []


@pytest.mark.feature("ASDK-089")
def test_unknown_names_are_reported() -> None:
    policy = PermissionPolicy(
        allow=["Raed", "Bash(git *)"],
        deny=["mcp_*(x)"],
        allowed_tools=["R*", "Nix*"],
        disallowed_tools=["Raed"],
    )
    assert policy.unknown(TOOLS) == ("Nix*", "Raed", "mcp_*")
    assert policy.unknown(TOOLS, ["Read", "read", "R*"]) == ("Nix*", "Raed", "mcp_*", "read", "R*")
    assert PermissionPolicy().unknown(TOOLS, None) == ()


def test_list_of_tools_contains_names() -> None:
    text = "expected a list of tool names; got the string 'Bash'"
    with pytest.raises(ConfigError, match=text):
        PermissionPolicy(allowed_tools="Bash")
    with pytest.raises(ConfigError, match=text):
        PermissionPolicy(disallowed_tools="Bash")
    rule = r"expected a tool name; got the rule 'Bash\(git \*\)'"
    with pytest.raises(ConfigError, match=rule):
        PermissionPolicy(allowed_tools=["Bash(git *)"])
    with pytest.raises(ConfigError, match=rule):
        PermissionPolicy(disallowed_tools=["Bash(git *)"])


def test_text_allowlist_is_refused() -> None:
    policy = PermissionPolicy()
    for use in (
        lambda: policy.offered(TOOLS, "Bash"),
        lambda: policy.narrowed("Bash"),
        lambda: policy.unknown(TOOLS, "Bash"),
    ):
        with pytest.raises(ConfigError, match="got the string 'Bash'"):
            use()


# Verdicts.


@pytest.mark.parametrize(
    "name", ["bash", "BASH", "Bash ", " Bash", "Bash\n", "B\u0430sh", "", "Bas"]
)
def test_inexact_tool_name_is_never_allowed(name: str) -> None:
    policy = PermissionPolicy(mode="bypass", allow=["*"])
    verdict = policy.decide(ToolUseBlock("1", name, {"command": "ls"}), BASH, HERE)
    assert verdict == Deny(f"there is no tool {name!r}")
    assert policy.decide(ToolUseBlock("1", name, {}), None, HERE) == verdict
    assert policy.approved(ToolUseBlock("1", name, {}), None, HERE) == verdict


@pytest.mark.parametrize("mode", PermissionMode)
def test_deny_precedes_ask_precedes_allow(mode: PermissionMode) -> None:
    every = ["Bash(git *)"]
    git = call(BASH, command="git status")

    def verdict_name(policy: PermissionPolicy) -> str:
        return type(policy.decide(git, BASH, HERE)).__name__

    assert verdict_name(PermissionPolicy(mode=mode, deny=every, ask=every, allow=every)) == "Deny"
    bounded = mode in ("plan", "deny")
    assert verdict_name(PermissionPolicy(mode=mode, ask=every, allow=every)) == (
        "Deny" if bounded else "Ask"
    )
    assert verdict_name(PermissionPolicy(mode=mode, allow=every)) == (
        "Deny" if mode == "plan" else "Allow"
    )


def test_partly_denied_call_is_denied() -> None:
    policy = PermissionPolicy(mode="bypass", allow=["Bash"], deny=["Bash(rm *)"])
    assert policy.decide(call(BASH, command="git status; sudo rm -rf /"), BASH, HERE) == Deny(
        "the call is denied by the rule 'Bash(rm *)'"
    )


def test_question_contains_subject_and_reason() -> None:
    verdict = PermissionPolicy(ask=["Bash(git push *)"]).decide(
        call(BASH, command="git push", timeout=5), BASH, HERE
    )
    assert verdict == Ask(
        'Allow Bash({"command": "git push", "timeout": 5})?',
        ("yes", "session", "always", "no"),
        "the rule 'Bash(git push *)' asks about the call",
        "",
    )
    verdict = PermissionPolicy().decide(call(EDIT, file_path="a.py"), EDIT, HERE)
    assert isinstance(verdict, Ask)
    assert verdict.reason == "mode 'default' asks: the tool changes here"
    assert verdict.rule == "Edit(file_path=path:./a.py)"


def test_question_cannot_deceive_a_terminal() -> None:
    hostile = "ls\x1b[2K\r\n\u202egnp.exe\u200b\x00\ud800 \u00e4"
    verdict = PermissionPolicy().decide(call(BASH, command=hostile), BASH, HERE)
    assert isinstance(verdict, Ask)
    assert verdict.prompt.isprintable()
    assert verdict.prompt == (
        'Allow Bash({"command": "ls\\u001b[2K\\r\\n\\u202egnp.exe\\u200b\\u0000\\ud800 \u00e4"})?'
    )


def test_long_question_reports_hidden_length() -> None:
    verdict = PermissionPolicy().decide(call(BASH, command="x" * 10_000 + "END"), BASH, HERE)
    assert isinstance(verdict, Ask)
    assert len(verdict.prompt) < 1600
    assert "... (8518 more characters) ..." in verdict.prompt
    assert verdict.prompt.endswith('END"})?')


def test_approved_call_runs_unless_denied() -> None:
    policy = PermissionPolicy(mode="prompt", deny=["Bash(rm *)"], ask=["Bash"])
    assert policy.approved(call(BASH, command="ls"), BASH, HERE) == Allow("the call was approved")
    assert isinstance(policy.approved(call(BASH, command="rm x"), BASH, HERE), Deny)
    plan = PermissionPolicy(mode="plan")
    assert isinstance(plan.approved(call(BASH, command="ls"), BASH, HERE), Deny)


# Nested runs.


def test_a_policy_above_only_makes_it_stricter() -> None:
    above = PermissionPolicy(deny=["Bash(rm *)"], disallowed_tools=["Fetch"])
    own = PermissionPolicy(mode="bypass", deny=["Bash(mv *)"])
    both = own.under(above)
    lines = ("rm x", "mv x", "ls")
    verdicts = [both.decide(call(BASH, command=line), BASH, HERE) for line in lines]
    assert [type(verdict).__name__ for verdict in verdicts] == ["Deny", "Deny", "Ask"]
    approved = [both.approved(call(BASH, command=line), BASH, HERE) for line in lines]
    assert [type(verdict).__name__ for verdict in approved] == ["Deny", "Deny", "Allow"]
    assert "Fetch" not in names(both)
    assert own.under(None) is own


def test_policies_nest_to_any_depth() -> None:
    top = PermissionPolicy(mode="bypass", deny=["Bash(rm *)"])
    middle = PermissionPolicy(mode="bypass", deny=["Bash(mv *)"]).under(top)
    low = PermissionPolicy(mode="bypass").under(PermissionPolicy(mode="bypass")).under(middle)
    for line in ("rm x", "mv x"):
        assert isinstance(low.decide(call(BASH, command=line), BASH, HERE), Deny)
    assert isinstance(low.decide(call(BASH, command="ls"), BASH, HERE), Allow)


def test_nested_rewrite_is_judged_by_parent() -> None:
    kept = HERE.approve(call(LOOSE, x="a"), LOOSE, Remember("session"), input={"command": "rm x"})
    situation = attrs.evolve(HERE, grants=kept)
    own = PermissionPolicy()
    assert isinstance(own.decide(call(LOOSE, x="a"), LOOSE, situation), Allow)
    both = own.under(PermissionPolicy(mode="bypass", deny=["Loose(rm *)"]))
    assert isinstance(both.decide(call(LOOSE, x="a"), LOOSE, situation), Deny)


# Checks of a policy against an agent.


@pytest.mark.feature("OAGS-087")
def test_prompt_mode_without_approver_is_refused() -> None:
    policy = PermissionPolicy(mode="prompt")
    with pytest.raises(
        ConfigError, match="mode 'prompt' asks about every call, but there is no app"
    ):
        policy.check(has_approver=False)
    with pytest.raises(ConfigError, match="mode 'prompt' asks about every call"):
        PermissionPolicy().under(policy).check(has_approver=False)
    policy.check(has_approver=True)
    for mode in MODES:
        if mode != "prompt":
            PermissionPolicy(mode=mode).check(has_approver=False)


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (PermissionPolicy(deny=["bash(rm *)"]), "'bash' restricts no tool"),
        (PermissionPolicy(ask=["BASH"]), "'BASH' restricts no tool"),
        (PermissionPolicy(disallowed_tools=[" Bash"]), "' Bash' restricts no tool"),
    ],
)
def test_near_miss_tool_name_is_refused(policy: PermissionPolicy, name: str) -> None:
    with pytest.raises(
        ConfigError, match=f"{name}, because names must match exactly; write 'Bash'"
    ):
        policy.check(has_approver=True, tools=TOOLS)
    with pytest.raises(ConfigError, match=name):
        PermissionPolicy().under(policy).check(has_approver=True, tools=TOOLS)
    policy.check(has_approver=True)


def test_unknown_rule_argument_is_refused() -> None:
    rule = "Bash(line=rm *)"
    for policy in (
        PermissionPolicy(allow=[rule]),
        PermissionPolicy(ask=[rule]),
        PermissionPolicy(deny=[rule]),
    ):
        with pytest.raises(ConfigError, match="tool 'Bash' has no argument 'line'"):
            policy.check(has_approver=True, tools=TOOLS)
    PermissionPolicy(deny=["*(line=rm *)", "Other(x=y)", "Loose(x=y)"]).check(
        has_approver=True, tools=TOOLS
    )


def test_mode_and_rules_are_parsed_early() -> None:
    with pytest.raises(ConfigError, match="unknown mode 'yolo'"):
        PermissionPolicy(mode="yolo")
    with pytest.raises(ConfigError, match="permission rule 'Bash\\('"):
        PermissionPolicy(deny="Bash(")
    assert PermissionPolicy(deny="Bash").deny[0].name == "Bash"


def test_reason_of_a_mode_names_the_mode() -> None:
    verdict = PermissionPolicy(mode="bypass").decide(call(BASH), BASH, HERE)
    assert verdict == Allow("mode 'bypass' allows the call")
