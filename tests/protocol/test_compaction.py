"""Plans for shorter conversations: valid cuts, and the newest user message stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.context import (
    CompactionBudget,
    CompactionPlan,
    sliding_window,
    summarize_old_messages,
)
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.errors import ConfigError
from agent_actors.protocol.compaction import (
    Planner,
    boundaries_of,
    check_plan,
    results_to_clear,
)
from agent_actors.testing import strategies

PLANNERS = st.sampled_from([summarize_old_messages, sliding_window(0), sliding_window(2)])


def budget_of(history: Messages, limit: int = 10**6, **fields: float) -> CompactionBudget:
    seqs: list[int] = []
    for at, message in enumerate(history):
        seqs.append(seqs[-1] if message.role == "tool" else at + 1)
    keep_min = int(fields.get("keep_min", 2))
    return CompactionBudget(
        tokens=limit,
        limit=limit,
        window=limit,
        keep=fields.get("keep", 0.1),
        keep_min=keep_min,
        boundaries=boundaries_of(history, seqs, 0),
    )


@given(
    strategies.messages(with_system=False),
    PLANNERS,
    st.integers(1, 3000),
    st.floats(0, 1),
    st.integers(1, 6),
)
def test_any_plan_keeps_pairs_and_prompt(
    history: Messages, planner: Planner, limit: int, keep: float, keep_min: int
) -> None:
    budget = budget_of(history, limit, keep=keep, keep_min=keep_min)
    plan = check_plan(planner(history, budget), history, budget)
    if not plan.cut:
        return
    assert history[plan.cut].role != "tool"
    assert len(history) - plan.cut >= keep_min
    users = [at for at, message in enumerate(history) if message.role == "user"]
    assert not users or users[-1] >= plan.cut or users[-1] in plan.pinned


def conversation(turns: int) -> Messages:
    history = Messages()
    for number in range(turns):
        history = history.user(f"prompt {number}").assistant(f"answer {number}")
    return history


def test_cut_moves_to_a_boundary() -> None:
    history = conversation(10)
    assert summarize_old_messages(history, budget_of(history, keep=0.5)).cut == 10
    assert summarize_old_messages(history, budget_of(history, keep=0.0, keep_min=3)).cut == 17
    assert summarize_old_messages(history[:2], budget_of(history[:2])).cut == 0


def test_large_tail_keeps_fewer_messages() -> None:
    history = conversation(8).user("x" * 4000).assistant("Hm.").user("next").assistant("Yes.")
    assert summarize_old_messages(history, budget_of(history, 1000, keep=0.4)).cut == 17


def test_window_pins_first_prompts() -> None:
    history = conversation(10)
    plan = sliding_window(2)(history, budget_of(history))
    assert plan == CompactionPlan(18, (0, 2), summarize=False)
    with pytest.raises(ConfigError, match="must not be negative"):
        sliding_window(-1)


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (CompactionPlan(99), "cuts at message 99; expected one of"),
        (CompactionPlan(4, (1,)), "pins message 1; expected the position of a user message"),
        (CompactionPlan(4, (4,)), "pins message 4"),
    ],
)
def test_invalid_plan_is_refused(plan: CompactionPlan, why: str) -> None:
    history = conversation(4)
    with pytest.raises(ConfigError, match=why):
        check_plan(plan, history, budget_of(history))


def test_only_old_long_results_are_cleared() -> None:
    history = Messages()
    for number, size in enumerate((900, 10, 900, 900)):
        call = history.user("go").assistant("", [ToolUseBlock(f"c{number}", "look", {})])
        history = call.tool(f"c{number}", "look", "x" * size)
    assert results_to_clear(history, 1) == ("c0", "c2")
    assert results_to_clear(history, 9) == ()
