"""The agent loop as transcripts, and every cell of its state table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import AssistantBlock, ImageBlock, TextBlock
from agent_actors.domain.model import FinishReason, ModelCompleted
from agent_actors.protocol.turn import (
    TABLE,
    BudgetExceeded,
    Commands,
    Continued,
    IllegalTransition,
    Interrupted,
    OutputInvalid,
    OutputValid,
    Resumed,
    State,
    TurnEvent,
    TurnMachine,
    UserInput,
)
from tests.protocol.turn_playbook import ToolUseError, answer, brief, play, result, use

GO = UserInput("go")
STARTED = ["append user:go", "model 1"]


def machine(max_iterations: int = 25) -> TurnMachine:
    return TurnMachine(max_iterations)


def thinking(max_iterations: int = 25) -> TurnMachine:
    one = machine(max_iterations)
    one.feed(GO)
    return one


def acting(*call_ids: str) -> TurnMachine:
    one = thinking()
    one.feed(answer(*(use(call_id) for call_id in call_ids or ("a",))))
    return one


def checking(*blocks: str, retries: int = 2) -> TurnMachine:
    one = TurnMachine(25, output_retries=retries)
    one.feed(GO)
    one.feed(answer(*blocks))
    return one


def in_state(state: State) -> TurnMachine:
    match state:
        case State.READY:
            return machine()
        case State.MODEL:
            return thinking()
        case State.TOOLS:
            return acting()
        case State.OUTPUT:
            return checking("x")
        case State.DONE:
            done = machine()
            done.feed(Interrupted("interrupted", "stop"))
            return done


@pytest.mark.feature("WICK-094")
def test_an_answer_without_calls_ends_the_loop() -> None:
    play(machine(), GO, STARTED, answer("Hello."), ["append answer", "finish completed"])


@pytest.mark.parametrize(
    ("finish", "stop_reason"),
    [
        ("stop", "completed"),
        ("tool_calls", "completed"),
        ("unknown", "completed"),
        ("unmarked", "completed"),
        ("paused", "paused"),
        ("length", "length"),
        ("refusal", "refusal"),
        ("content_filter", "content_filter"),
        ("refused", "refusal"),
    ],
)
def test_finish_reason_sets_stop_reason(finish: FinishReason, stop_reason: str) -> None:
    ended = thinking().feed(answer("Hm", finish=finish))
    assert brief(ended[-1]) == f"finish {stop_reason}"


def test_call_results_return_to_the_model() -> None:
    play(
        machine(),
        GO,
        STARTED,
        answer("Let me see.", use("a"), use("b")),
        ["append answer call:a call:b", "start a", "start b"],
        result("b"),
        ["append result:b"],
        result("a"),
        ["append result:a", "model 2"],
        answer("Done."),
        ["append answer", "finish completed"],
    )


def test_excess_calls_get_error_results() -> None:
    play(
        TurnMachine(25, max_calls=2),
        GO,
        STARTED,
        answer(use("a"), ToolUseError("bad JSON", "{", "x", "tool"), use("b"), use("c"), use("d")),
        [
            "append answer call:a call:x call:b call:c call:d synthetic:x synthetic:c synthetic:d",
            "start a",
            "start b",
        ],
        result("a"),
        ["append result:a"],
        result("b"),
        ["append result:b", "model 2"],
    )


def test_calls_run_for_any_finish_reason() -> None:
    one = thinking()
    commands = one.feed(answer(use("a"), finish="stop"))
    assert [brief(c) for c in commands] == ["append answer call:a", "start a"]


@pytest.mark.feature("OAS-067")
def test_invalid_call_is_reported_not_run() -> None:
    broken = ToolUseError("not JSON", '{"a', "x", "tool")
    play(
        machine(),
        GO,
        STARTED,
        answer(broken, use("b")),
        ["append answer call:x call:b synthetic:x", "start b"],
        result("b"),
        ["append result:b", "model 2"],
    )


def test_broken_calls_return_directly_to_model() -> None:
    broken = ToolUseError("the call does not name a tool", None, "x")
    commands = thinking().feed(answer(broken))
    assert [brief(c) for c in commands] == ["append answer call:x synthetic:x", "model 2"]


@pytest.mark.feature("ASDK-009")
def test_model_stop_closes_its_calls() -> None:
    done = ModelCompleted((use("a"), ToolUseError("no", None, "x")), done=True)
    commands = thinking().feed(done)
    assert [brief(c) for c in commands] == [
        "append answer call:a call:x synthetic:x synthetic:a",
        "finish completed",
    ]


@pytest.mark.feature("ASDK-010")
def test_last_tool_round_gets_a_response() -> None:
    play(
        machine(1),
        GO,
        STARTED,
        answer(use("a")),
        ["append answer call:a", "start a"],
        result("a"),
        ["append result:a", "finish max_iterations"],
    )


def test_new_input_waits_for_next_turn() -> None:
    play(
        machine(),
        GO,
        STARTED,
        UserInput("and?"),
        [],
        answer("Well."),
        ["append answer", "append user:and?", "model 2"],
        answer(use("a")),
        ["append answer call:a", "start a"],
        UserInput("more"),
        [],
        result("a"),
        ["append result:a", "append user:more", "model 3"],
    )


def test_unused_input_is_left_over() -> None:
    one = thinking(1)
    one.feed(UserInput("too late"))
    assert [brief(c) for c in one.feed(answer("Bye."))] == [
        "append answer",
        "finish max_iterations",
    ]
    assert [waiting.text for waiting in one.pending_input] == ["too late"]


def test_resumed_calls_start_and_results_count() -> None:
    calls = (use("a"), use("b"), use("c"))
    given = (result("b").result,)
    play(
        machine(),
        Resumed(calls, given, deferred=frozenset("c")),
        ["append result:b", "start a"],
        result("a"),
        ["append result:a"],
        result("c"),
        ["append result:c", "model 1"],
    )


def test_resume_with_results_calls_model() -> None:
    play(machine(), Resumed((use("a"),), (result("a").result,)), ["append result:a", "model 1"])


def test_budget_renames_end_of_run() -> None:
    one = thinking()
    one.feed(answer("Bye.", finish="length"))
    play(one, BudgetExceeded("output_tokens"), ["finish budget:output_tokens"])


def test_refused_stop_continues_the_run() -> None:
    one = thinking()
    one.feed(answer("Bye."))
    play(one, Continued("Not yet."), ["append user:Not yet.", "model 2"])
    one.feed(answer("Bye."))
    one.max_iterations = 2
    play(one, Continued("Not yet."), ["finish max_iterations"])


def test_empty_prompt_continues_the_conversation() -> None:
    play(machine(), UserInput(""), ["model 1"], answer("so"), ["append answer", "finish completed"])


def test_image_alone_is_a_prompt() -> None:
    one = machine()
    shown = UserInput("", (ImageBlock("https://example.org/a.png"),))
    play(one, shown, ["append user:", "model 1"])


def test_left_open_calls_have_no_result() -> None:
    one = acting("a", "b")
    play(
        one,
        result("b"),
        ["append result:b"],
        Interrupted("awaiting_results", "", leave_open=True),
        ["finish awaiting_results"],
    )
    assert [call.id for call in one.open_calls] == ["a"]


@pytest.mark.parametrize("state", [State.READY, State.MODEL, State.TOOLS, State.OUTPUT])
def test_interrupt_closes_calls_and_ends_run(state: State) -> None:
    one = in_state(state)
    commands = [brief(c) for c in one.feed(Interrupted("interrupted", "stop"))]
    closed = ["append synthetic:a"] if state is State.TOOLS else []
    assert commands == [*closed, "finish interrupted"]
    assert one.state is State.DONE
    assert one.open_calls == ()


def test_a_used_up_budget_names_itself() -> None:
    commands = acting("a").feed(BudgetExceeded("tokens"))
    assert [brief(c) for c in commands] == ["append synthetic:a", "finish budget:tokens"]


EVENTS: dict[str, TurnEvent] = {
    "UserInput": GO,
    "ModelCompleted": answer("x"),
    "ToolFinished": result("a"),
    "Resumed": Resumed((use("a"),)),
    "OutputValid": OutputValid(),
    "OutputInvalid": OutputInvalid("no"),
    "Interrupted": Interrupted("interrupted", "stop"),
    "BudgetExceeded": BudgetExceeded("tokens"),
    "Continued": Continued("more"),
}


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("name", list(EVENTS))
def test_unknown_transition_names_event_and_state(state: State, name: str) -> None:
    event = EVENTS[name]
    one = in_state(state)
    if type(event) in TABLE[state]:
        one.feed(event)
        assert one.state in TABLE[state][type(event)].to
        return
    with pytest.raises(IllegalTransition, match=f"{name} in state {state.value}"):
        one.feed(event)


def test_a_result_of_an_unknown_call_raises() -> None:
    with pytest.raises(IllegalTransition, match="call z is not open"):
        acting("a").feed(result("z"))


def test_wrong_transition_target_is_found() -> None:
    class Lost(TurnMachine):
        def _next_turn(self) -> Commands:
            self.state = State.READY
            return ()

    one = Lost(3)
    one.feed(GO)
    one.feed(answer(use("a")))
    with pytest.raises(IllegalTransition, match="ToolFinished in state tools led to ready"):
        one.feed(result("a"))


def test_blocks_that_are_no_calls_pass_through() -> None:
    commands = thinking().feed(answer(ImageBlock("https://example.org/a.png")))
    assert brief(commands[-1]) == "finish completed"


@given(
    st.lists(st.sampled_from(["text", "call", "broken"]), max_size=6),
    st.sampled_from(["refusal", "content_filter", "refused"]),
    st.booleans(),
)
def test_refused_answer_starts_no_call(kinds: list[str], reason: FinishReason, done: bool) -> None:
    blocks: dict[str, AssistantBlock] = {}
    for place, kind in enumerate(kinds):
        name = f"c{place}"
        broken = ToolUseError("x", id=name)
        made: dict[str, AssistantBlock] = {
            "text": TextBlock("Hm"),
            "call": use(name),
            "broken": broken,
        }
        blocks[name] = made[kind]
    found = ModelCompleted(tuple(blocks.values()), reason, done=done)
    append, finish = thinking().feed(found)
    assert (
        brief(finish) == f"finish {'content_filter' if reason == 'content_filter' else 'refusal'}"
    )
    entries = brief(append).split()[2:]
    ids = [name for name, block in blocks.items() if not isinstance(block, TextBlock)]
    assert entries == [*(f"call:{one}" for one in ids), *(f"synthetic:{one}" for one in ids)]
