"""Properties of a policy that hold for any rules, grants and answers."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.permissions import (
    NO_GRANTS,
    Allow,
    Ask,
    DecisionContext,
    Deny,
    Grants,
    PermissionDecision,
    PermissionMode,
    PermissionPolicy,
    Remember,
    Rule,
)
from agent_actors.tools import Tool
from tests.permissions.support import BASH, CWD, EDIT, FETCH, LOOSE, READ, TOOLS, call

LINES = ["ls", "git push", "rm x", "git log; rm x", "git  log", "x > y", ""]
FILES = ["src/a", "src/../x", "/etc/x", ".env", "~/x", "a\\b"]
SITES = ["https://a.com/", "http://b.a.com", "https://a.com@b.com", "x"]


def calls(
    tool: Tool, field: str, values: list[str]
) -> st.SearchStrategy[tuple[Tool, ToolUseBlock]]:
    return st.sampled_from([(tool, call(tool, **{field: value})) for value in values])


CALLS = st.one_of(
    calls(BASH, "command", LINES),
    calls(EDIT, "file_path", FILES),
    calls(READ, "file_path", FILES),
    calls(FETCH, "url", SITES),
    calls(LOOSE, "command", LINES),
)
RULE_TEXTS = [
    *("Bash", "Bash(git *)", "Bash(rm *)", "Bash(ls)", "*", "Edit(src/**)", "Edit(.env)", "Read"),
    *("*(/etc/**)", "Fetch(domain:a.com)", "Loose(git *)", "Loose(command=rm *)"),
]
RULES = st.lists(st.sampled_from(RULE_TEXTS).map(Rule.parse), max_size=3).map(tuple)
LISTED = st.lists(st.sampled_from(["Bash", "Edit", "*", "R*", "nothing", "bash"]), max_size=3)
POLICIES = st.builds(
    PermissionPolicy,
    mode=st.sampled_from(PermissionMode),
    allow=RULES,
    ask=RULES,
    deny=RULES,
    allowed_tools=st.none() | LISTED,
    disallowed_tools=LISTED.filter(lambda names: "*" not in names),
)
STACKS = POLICIES | st.builds(PermissionPolicy.under, POLICIES, POLICIES)
SCOPES = st.sampled_from(["once", "session", "always"])
STRICTNESS: dict[type[object], int] = {Allow: 0, Ask: 1, Deny: 2}


@st.composite
def situations(draw: st.DrawFn) -> DecisionContext:
    """Generate a context in which some calls were decided before."""
    kept: Grants = NO_GRANTS
    for _ in range(draw(st.integers(0, 3))):
        tool, one = draw(CALLS)
        rule = draw(st.sampled_from(["", tool.name]))
        written = draw(st.none() | CALLS.map(lambda drawn: drawn[1].input)) if not rule else None
        kept = DecisionContext(CWD, draw(st.sampled_from(["s1", "s2"])), kept).approve(
            one,
            tool,
            Remember(draw(SCOPES), rule=rule),
            allowed=draw(st.booleans()),
            input=written,
        )
    return DecisionContext(CWD, "s1", kept)


DECISIONS = st.one_of(
    st.builds(PermissionDecision, st.sampled_from(["allow", "deny"]), remember=st.none() | SCOPES),
    st.builds(
        PermissionDecision,
        st.just("allow"),
        input=CALLS.map(lambda drawn: drawn[1].input),
        remember=st.none() | SCOPES,
    ),
)


def is_denied(policy: PermissionPolicy, tool: Tool, one: ToolUseBlock) -> bool:
    """Return whether a rule or a list of the policy, or of a policy above it, denies the call."""
    return (
        not policy.offers(tool.name)
        or any(rule.restricts(tool, one.input, CWD) for rule in policy.deny)
        or (policy.above is not None and is_denied(policy.above, tool, one))
    )


@given(STACKS, CALLS, situations())
def test_a_deny_is_never_overridden(
    policy: PermissionPolicy, drawn: tuple[Tool, ToolUseBlock], situation: DecisionContext
) -> None:
    tool, one = drawn
    if is_denied(policy, tool, one):
        assert isinstance(policy.decide(one, tool, situation), Deny)
        assert isinstance(policy.approved(one, tool, situation), Deny)


@given(STACKS, CALLS, situations(), DECISIONS)
def test_answer_never_overrides_deny(
    policy: PermissionPolicy,
    drawn: tuple[Tool, ToolUseBlock],
    situation: DecisionContext,
    decision: PermissionDecision,
) -> None:
    tool, one = drawn
    verdict, kept = policy.settle(decision, Ask("?"), one, tool, situation)
    assert not isinstance(verdict, Ask)
    if isinstance(verdict, Allow):
        run = one if verdict.input is None else attrs.evolve(one, input=verdict.input)
        assert not is_denied(policy, tool, run)
        assert verdict.input == decision.input
    again = policy.decide(one, tool, attrs.evolve(situation, grants=kept))
    if isinstance(again, Allow):
        run = one if again.input is None else attrs.evolve(one, input=again.input)
        assert not is_denied(policy, tool, run)


@given(STACKS, CALLS, situations())
def test_approval_covers_asked_not_denied(
    policy: PermissionPolicy, drawn: tuple[Tool, ToolUseBlock], situation: DecisionContext
) -> None:
    tool, one = drawn
    verdict = policy.decide(one, tool, situation)
    approved = policy.approved(one, tool, situation)
    if isinstance(verdict, Ask):
        assert isinstance(approved, Allow)
    if isinstance(approved, Deny):
        assert isinstance(verdict, Deny)


@given(STACKS, LISTED, CALLS, situations())
def test_narrowing_only_narrows(
    policy: PermissionPolicy,
    whitelist: list[str],
    drawn: tuple[Tool, ToolUseBlock],
    situation: DecisionContext,
) -> None:
    narrowed = policy.narrowed(whitelist)
    offered = policy.offered(TOOLS)
    assert set(policy.offered(TOOLS, whitelist)) == set(narrowed.offered(TOOLS))
    assert {tool.name for tool in narrowed.offered(TOOLS)} == (
        {tool.name for tool in offered} & set(whitelist)
    )
    tool, one = drawn
    before = policy.decide(one, tool, situation)
    after = narrowed.decide(one, tool, situation)
    assert STRICTNESS[type(after)] >= STRICTNESS[type(before)]


@given(POLICIES, POLICIES, CALLS, situations())
def test_nested_run_is_never_freer(
    own: PermissionPolicy,
    above: PermissionPolicy,
    drawn: tuple[Tool, ToolUseBlock],
    situation: DecisionContext,
) -> None:
    tool, one = drawn
    both = own.under(above)
    verdict = STRICTNESS[type(both.decide(one, tool, situation))]
    assert verdict >= STRICTNESS[type(above.decide(one, tool, situation))]
    assert verdict >= STRICTNESS[type(own.decide(one, tool, situation))]
    assert set(both.offered(TOOLS)) == set(own.offered(TOOLS)) & set(above.offered(TOOLS))


@given(POLICIES, CALLS, RULES)
def test_extra_restriction_never_allows_more(
    policy: PermissionPolicy, drawn: tuple[Tool, ToolUseBlock], rules: tuple[Rule, ...]
) -> None:
    tool, one = drawn
    here = DecisionContext(CWD, "s1")
    before = STRICTNESS[type(policy.decide(one, tool, here))]
    for more in (
        attrs.evolve(policy, ask=(*policy.ask, *rules)),
        attrs.evolve(policy, deny=(*policy.deny, *rules)),
    ):
        assert STRICTNESS[type(more.decide(one, tool, here))] >= before


@given(POLICIES, st.text(max_size=6), CALLS)
def test_unknown_tool_is_never_allowed(
    policy: PermissionPolicy, name: str, drawn: tuple[Tool, ToolUseBlock]
) -> None:
    tool, one = drawn
    if name != tool.name:
        odd = attrs.evolve(one, name=name)
        assert isinstance(policy.decide(odd, tool, DecisionContext(CWD)), Deny)


@given(STACKS, CALLS, situations())
def test_decisions_are_repeatable(
    policy: PermissionPolicy, drawn: tuple[Tool, ToolUseBlock], situation: DecisionContext
) -> None:
    tool, one = drawn
    first = policy.decide(one, tool, situation)
    assert policy.decide(attrs.evolve(one, id="call_2"), tool, situation) == first
