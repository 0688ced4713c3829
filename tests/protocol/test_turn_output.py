"""The loop where the answer has to be of some type: looked at, told what is wrong, asked again."""

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
from tests.protocol.turn_playbook import ToolUseError, answer, play, result, told, use

GO = UserInput("go")
STARTED = ["append user:go", "model 1"]
NO = OutputInvalid("mend it")


def machine(*, retries: int = 2, max_iterations: int = 25) -> TurnMachine:
    return TurnMachine(max_iterations, output_retries=retries)


def thinking(*, retries: int = 2, max_iterations: int = 25) -> TurnMachine:
    one = machine(retries=retries, max_iterations=max_iterations)
    one.feed(GO)
    return one


def test_an_answer_that_fits_ends_the_run() -> None:
    play(
        machine(),
        GO,
        STARTED,
        answer("{}"),
        ["append answer", "check {}"],
        OutputValid(),
        ["finish completed"],
    )


def test_an_answer_that_does_not_fit_is_kept_and_what_is_wrong_is_told_to_the_model() -> None:
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
def test_the_model_is_asked_again_as_often_as_allowed_and_no_more(retries: int) -> None:
    one = thinking(retries=retries)
    for iteration in range(retries):
        one.feed(answer("no"))
        assert [told(c) for c in one.feed(NO)] == [
            "append user:mend it",
            f"model {iteration + 2}",
        ]
    one.feed(answer("no"))
    assert [told(c) for c in one.feed(NO)] == ["finish output_invalid"]


def test_retries_are_counted_over_the_whole_run_and_tools_give_none_back() -> None:
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


def test_an_answer_with_calls_is_not_the_last_whatever_else_it_holds() -> None:
    one = thinking()
    commands = one.feed(attrs.evolve(answer("{}", use("a")), output="{}"))
    assert [told(c) for c in commands] == ["append answer call:a", "start a"]


def test_an_answer_of_broken_calls_is_not_looked_at() -> None:
    commands = thinking().feed(answer("{}", ToolUseError("no JSON", "{", "x", "tool")))
    assert [told(c) for c in commands] == ["append answer call:x synthetic:x", "model 2"]


def test_what_the_wire_tells_apart_is_looked_at_and_not_the_text_around_it() -> None:
    commands = thinking().feed(attrs.evolve(answer("Here it is. ", "{}"), output="{}"))
    assert told(commands[-1]) == "check {}"


def test_an_output_that_is_told_apart_and_empty_is_looked_at_as_such() -> None:
    commands = thinking().feed(attrs.evolve(answer("Here it is."), output=""))
    assert told(commands[-1]) == "check "


def test_a_refusal_ends_the_run_and_is_neither_looked_at_nor_asked_again() -> None:
    commands = thinking().feed(answer("I will not.", finish="refusal"))
    assert [told(c) for c in commands] == ["append answer", "finish refusal"]


def test_an_answer_that_was_cut_and_does_not_fit_is_not_asked_for_again() -> None:
    play(
        thinking(),
        answer('{"a', finish="length"),
        ["append answer", 'check {"a'],
        NO,
        ["finish length"],
    )


@pytest.mark.parametrize("finish", ["length", "stop", "tool_calls", "unknown"])
def test_an_answer_that_fits_is_taken_whatever_the_endpoint_says_of_its_end(
    finish: FinishReason,
) -> None:
    one = thinking()
    one.feed(answer("{}", finish=finish))
    assert [told(c) for c in one.feed(OutputValid())] == ["finish completed"]


def test_a_later_misfit_is_not_taken_for_an_earlier_cut() -> None:
    one = thinking()
    one.feed(answer("{}", finish="length"))
    one.feed(UserInput("and?"))
    one.feed(OutputValid())
    one.feed(answer("no"))
    assert [told(c) for c in one.feed(NO)] == ["append user:mend it", "model 3"]


def test_a_model_that_ended_the_run_itself_is_not_asked_again() -> None:
    one = thinking()
    one.feed(ModelCompleted(answer("no").blocks, done=True))
    assert [told(c) for c in one.feed(NO)] == ["finish output_invalid"]


def test_asking_again_counts_as_an_iteration() -> None:
    one = thinking(max_iterations=1)
    one.feed(answer("no"))
    assert [told(c) for c in one.feed(NO)] == ["finish max_iterations"]


def test_where_no_retry_and_no_iteration_is_left_the_output_is_the_reason() -> None:
    one = thinking(max_iterations=1, retries=0)
    one.feed(answer("no"))
    assert [told(c) for c in one.feed(NO)] == ["finish output_invalid"]


def test_input_that_waits_comes_before_any_look_at_the_answer() -> None:
    one = thinking()
    one.feed(UserInput("and?"))
    assert [told(c) for c in one.feed(answer("{}"))] == [
        "append answer",
        "append user:and?",
        "model 2",
    ]


@pytest.mark.parametrize(
    ("verdict", "told_first"), [(OutputValid(), []), (NO, ["append user:mend it"])]
)
def test_input_that_comes_during_the_look_is_taken_by_the_next_turn(
    verdict: OutputValid | OutputInvalid, told_first: list[str]
) -> None:
    one = thinking()
    one.feed(answer("{}"))
    assert one.feed(UserInput("and?")) == ()
    assert [told(c) for c in one.feed(verdict)] == [*told_first, "append user:and?", "model 2"]


def test_an_interrupt_during_the_look_ends_the_run() -> None:
    one = thinking()
    one.feed(answer("{}"))
    assert [told(c) for c in one.feed(Interrupted("interrupted", "stop"))] == ["finish interrupted"]
    assert one.state is State.DONE


def test_without_an_output_nothing_is_looked_at() -> None:
    play(TurnMachine(25), GO, STARTED, answer("{}"), ["append answer", "finish completed"])
