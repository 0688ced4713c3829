"""The loop validates a typed output, reports errors to the model, and asks it again."""

import attrs
import pytest

from agent_actors.domain.model import FinishReason, ModelCompleted
from agent_actors.protocol.turn import (
    Interrupted,
    OutputInvalid,
    OutputValid,
    State,
    TurnMachine,
    UserInput,
)
from tests.protocol.turn_playbook import ToolUseError, answer, brief, play, result, use

GO = UserInput("go")
STARTED = ["append user:go", "model 1"]
NO = OutputInvalid("mend it")


def machine(*, retries: int = 2, max_iterations: int = 25) -> TurnMachine:
    return TurnMachine(max_iterations, output_retries=retries)


def thinking(*, retries: int = 2, max_iterations: int = 25) -> TurnMachine:
    one = machine(retries=retries, max_iterations=max_iterations)
    one.feed(GO)
    return one


def test_valid_output_ends_the_run() -> None:
    play(
        machine(),
        GO,
        STARTED,
        answer("{}"),
        ["append answer", "check {}"],
        OutputValid(),
        ["finish completed"],
    )


def test_invalid_output_returns_feedback_to_model() -> None:
    play(
        machine(),
        GO,
        STARTED,
        answer("[]"),
        ["append answer", "check []"],
        NO,
        ["append user:mend it", "model 2"],
        answer("{}"),
        ["append answer", "check {}"],
        OutputValid(),
        ["finish completed"],
    )


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_output_retries_are_bounded(retries: int) -> None:
    one = thinking(retries=retries)
    for iteration in range(retries):
        one.feed(answer("no"))
        assert [brief(c) for c in one.feed(NO)] == [
            "append user:mend it",
            f"model {iteration + 2}",
        ]
    one.feed(answer("no"))
    assert [brief(c) for c in one.feed(NO)] == ["finish output_invalid"]


def test_output_retries_count_per_run() -> None:
    play(
        thinking(retries=1),
        answer("no"),
        ["append answer", "check no"],
        NO,
        ["append user:mend it", "model 2"],
        answer(use("a")),
        ["append answer call:a", "start a"],
        result("a"),
        ["append result:a", "model 3"],
        answer("no"),
        ["append answer", "check no"],
        NO,
        ["finish output_invalid"],
    )


def test_response_with_calls_is_not_output() -> None:
    one = thinking()
    commands = one.feed(attrs.evolve(answer("{}", use("a")), output="{}"))
    assert [brief(c) for c in commands] == ["append answer call:a", "start a"]


def test_broken_calls_are_not_checked() -> None:
    commands = thinking().feed(answer("{}", ToolUseError("no JSON", "{", "x", "tool")))
    assert [brief(c) for c in commands] == ["append answer call:x synthetic:x", "model 2"]


def test_structured_output_precedes_surrounding_text() -> None:
    commands = thinking().feed(attrs.evolve(answer("Here it is. ", "{}"), output="{}"))
    assert brief(commands[-1]) == "check {}"


def test_empty_structured_output_is_checked() -> None:
    commands = thinking().feed(attrs.evolve(answer("Here it is."), output=""))
    assert brief(commands[-1]) == "check "


def test_refusal_ends_run_without_retry() -> None:
    commands = thinking().feed(answer("I will not.", finish="refusal"))
    assert [brief(c) for c in commands] == ["append answer", "finish refusal"]


@pytest.mark.parametrize("finish", ["length", "paused"])
def test_truncated_invalid_output_is_not_retried(finish: FinishReason) -> None:
    play(
        thinking(),
        answer('{"a', finish=finish),
        ["append answer", 'check {"a'],
        NO,
        [f"finish {finish}"],
    )


@pytest.mark.parametrize("finish", ["length", "stop", "tool_calls", "unknown"])
def test_valid_output_ignores_finish_reason(
    finish: FinishReason,
) -> None:
    one = thinking()
    one.feed(answer("{}", finish=finish))
    assert [brief(c) for c in one.feed(OutputValid())] == ["finish completed"]


def test_later_invalid_output_keeps_own_reason() -> None:
    one = thinking()
    one.feed(answer("{}", finish="length"))
    one.feed(UserInput("and?"))
    one.feed(OutputValid())
    one.feed(answer("no"))
    assert [brief(c) for c in one.feed(NO)] == ["append user:mend it", "model 3"]


def test_model_stop_is_not_retried() -> None:
    one = thinking()
    one.feed(ModelCompleted(answer("no").blocks, done=True))
    assert [brief(c) for c in one.feed(NO)] == ["finish output_invalid"]


def test_asking_again_counts_as_an_iteration() -> None:
    one = thinking(max_iterations=1)
    one.feed(answer("no"))
    assert [brief(c) for c in one.feed(NO)] == ["finish max_iterations"]


def test_exhausted_run_reports_output_reason() -> None:
    one = thinking(max_iterations=1, retries=0)
    one.feed(answer("no"))
    assert [brief(c) for c in one.feed(NO)] == ["finish output_invalid"]


def test_waiting_input_precedes_output_check() -> None:
    one = thinking()
    one.feed(UserInput("and?"))
    assert [brief(c) for c in one.feed(answer("{}"))] == [
        "append answer",
        "append user:and?",
        "model 2",
    ]


@pytest.mark.parametrize(
    ("verdict", "told_first"), [(OutputValid(), []), (NO, ["append user:mend it"])]
)
def test_input_during_check_joins_next_turn(
    verdict: OutputValid | OutputInvalid, told_first: list[str]
) -> None:
    one = thinking()
    one.feed(answer("{}"))
    assert one.feed(UserInput("and?")) == ()
    assert [brief(c) for c in one.feed(verdict)] == [*told_first, "append user:and?", "model 2"]


def test_interrupt_during_check_ends_run() -> None:
    one = thinking()
    one.feed(answer("{}"))
    assert [brief(c) for c in one.feed(Interrupted("interrupted", "stop"))] == [
        "finish interrupted"
    ]
    assert one.state is State.DONE


def test_run_without_output_type_checks_nothing() -> None:
    play(TurnMachine(25), GO, STARTED, answer("{}"), ["append answer", "finish completed"])


def test_damaged_answer_is_requested_again() -> None:
    play(
        machine(),
        GO,
        STARTED,
        attrs.evolve(answer("{}"), damaged_lines=1),
        [
            "append answer",
            "append user:a part of your answer was lost in transit; send the complete answer again",
            "model 2",
        ],
    )
