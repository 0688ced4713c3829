"""The budget between the turn machine and the driver: the commands that it allows or refuses.

A driver without I/O carries out a script. It folds the records as the log does, so that the limits
of a session work as in a run.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors import AgentOptions, Prices, UsageLimits
from agent_actors.domain.blocks import AssistantBlock, TextBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.events import Event, EventBuilder, EventScope, UsageEvent
from agent_actors.domain.limits import NO_LIMITS, Spent
from agent_actors.domain.model import ModelCompleted
from agent_actors.domain.run import ToolCallResult
from agent_actors.domain.usage import Usage
from agent_actors.protocol.turn import (
    Append,
    BudgetExceeded,
    CallModel,
    Command,
    Entry,
    Finish,
    OutputInvalid,
    StartTool,
    State,
    ToolFinished,
    TurnMachine,
    UserInput,
)
from agent_actors.runs.model.budget import Budget
from agent_actors.runs.model.usage_accounting import UsageAccounting
from agent_actors.runs.spec import RunSpec
from agent_actors.sessions import SessionState
from agent_actors.testing import ScriptedModel
from tests.protocol.turn_playbook import brief, use
from tests.runs.helpers import check_history

SCOPE = EventScope("s", "r", "q")
PRICES = Prices(input=1.0, output=10.0)
MILLION = 1_000_000


def agent(
    limits: UsageLimits = NO_LIMITS,
    session_limits: UsageLimits = NO_LIMITS,
    *,
    prices: Prices | None = None,
    max_tokens: int | None = 4096,
) -> AgentOptions:
    return AgentOptions(
        model="m",
        provider=ScriptedModel([]),
        limits=limits,
        session_limits=session_limits,
        prices=prices,
        max_tokens=max_tokens,
    )


def answer(
    *blocks: AssistantBlock, spent: Usage = Usage(10, 5), length: bool = False
) -> ModelCompleted:
    return ModelCompleted(blocks, "length" if length else "stop", spent)


def calls(*names: str) -> list[ToolUseBlock]:
    return [use(name) for name in names]


class Play:
    """A run without tasks or I/O; its records are folded into `session`."""

    def __init__(self, options: AgentOptions, session: SessionState | None = None) -> None:
        self.options = options
        self.session = session or SessionState()
        self.ran: list[str] = []
        self.asked = 0
        self.stop_reason = ""
        self.machine = TurnMachine(25)
        self.ledger = UsageAccounting(self.options.prices)
        spec = RunSpec(UserInput("go"), self.options, "s", "q", "reject")
        self.budget = Budget(spec, self.ledger)
        self.budget.session = self.session
        self._seq = count(1)

    def run(self, *answers: ModelCompleted) -> list[str]:
        """Answer each model call with the next response, and each tool call at once."""
        script = iter(answers)
        self.feed(self.machine.feed(UserInput("go")))
        while self.machine.state is State.MODEL:
            self.asked += 1
            self.ledger.model_calls += 1
            self.ledger.begin_request()
            self.budget.cap_output_tokens(self.options.settings)
            one = next(script, answer(TextBlock("Done.")))
            self.feed(self.machine.feed(one), one)
            for call in self.machine.open_calls:
                done = ToolFinished(ToolCallResult(call.id, call.name, {}, "fine"))
                self.feed(self.machine.feed(done))
        check_history(self.session.history())
        return self.ran

    def feed(self, commands: Sequence[Command], one: ModelCompleted | None = None) -> None:
        queue, pending = deque(commands), list[Entry]()
        if one is not None:
            self.budget.note_answer(one)
        while queue:
            command = queue.popleft()
            refusal = self.budget.refusal(self.machine, command, one)
            if refusal is not None:
                queue = deque(self.machine.feed(refusal))
                continue
            if isinstance(command, Append):
                pending += command.entries
                continue
            self.record(self.ledger.records(pending))
            pending, one = [], None
            if isinstance(command, StartTool):
                self.ran.append(command.call.id)
            elif isinstance(command, Finish):
                self.stop_reason = command.stop_reason
        self.record(self.ledger.records(pending))

    def record(self, drafts: Sequence[EventBuilder]) -> list[Event]:
        events = [draft(SCOPE, "id", 1.0, seq=next(self._seq)) for draft in drafts]
        for event in events:
            self.session.apply(event)
        return events


def test_request_limit_ends_before_next_request() -> None:
    play = Play(agent(UsageLimits(requests=2)))
    assert play.run(answer(*calls("a")), answer(*calls("b"))) == ["a", "b"]
    assert (play.asked, play.stop_reason) == (2, "budget:requests")


def test_excess_calls_are_refused_together() -> None:
    play = Play(agent(UsageLimits(tool_calls=2)))
    assert play.run(answer(*calls("a")), answer(*calls("b", "c"))) == ["a"]
    assert (play.asked, play.stop_reason) == (2, "budget:tool_calls")
    last = play.session.history().tool_messages()[-1]
    assert "the run's budget is used up: tool_calls" in last.content


def test_calls_up_to_limit_run() -> None:
    play = Play(agent(UsageLimits(tool_calls=2)))
    assert play.run(answer(*calls("a", "b")), answer(TextBlock("So."))) == ["a", "b"]
    assert (play.asked, play.stop_reason) == (2, "completed")


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (UsageLimits(input_tokens=10), "input_tokens"),
        (UsageLimits(output_tokens=5), "output_tokens"),
        (UsageLimits(total_tokens=15), "total_tokens"),
        (UsageLimits(cost=60 / MILLION), "cost"),
    ],
)
def test_used_up_response_runs_no_calls(limits: UsageLimits, what: str) -> None:
    for options, name in [
        (agent(limits, prices=PRICES), what),
        (agent(session_limits=limits, prices=PRICES), f"session_{what}"),
    ]:
        play = Play(options)
        assert play.run(answer(TextBlock("Let me."), *calls("a"))) == []
        assert play.stop_reason == f"budget:{name}"
        assert play.session.usage == Usage(10, 5), "paid usage is recorded"
        assert play.session.history()[1].content == "Let me."


def test_final_response_ends_well() -> None:
    play = Play(agent(UsageLimits(total_tokens=1, requests=1)))
    play.run(answer(TextBlock("Done."), spent=Usage(1000, 1000)))
    assert (play.stop_reason, play.ledger.text) == ("completed", "Done.")


def test_calls_that_never_run_cost_nothing() -> None:
    broken = ToolUseError("not JSON", "{", "x", "tool")
    play = Play(agent(UsageLimits(tool_calls=1)))
    assert play.run(answer(broken), answer(*calls("a", "b"))) == []
    assert play.stop_reason == "budget:tool_calls"
    assert play.session.tool_calls == 0


def test_waiting_call_counts_once() -> None:
    play = Play(agent(UsageLimits(tool_calls=1)))
    play.feed(play.machine.feed(UserInput("go")))
    one = answer(*calls("a"))
    play.feed(play.machine.feed(one), one)
    play.feed((StartTool(calls("a")[0]),))
    assert play.ran == ["a", "a"]
    assert play.ledger.spent().tool_calls == 1


def test_waiting_input_causes_no_request() -> None:
    play = Play(agent(UsageLimits(requests=1)))
    play.feed(play.machine.feed(UserInput("go")))
    assert play.machine.feed(UserInput("and?")) == ()


# --- the session ----------------------------------------------------------------------------------


def test_session_limit_spans_its_runs() -> None:
    options = agent(session_limits=UsageLimits(requests=3, tool_calls=9))
    session = SessionState()
    first = Play(options, session)
    first.run(answer(*calls("a", "b")), answer(TextBlock("One.")))
    second = Play(options, session)
    second.run(answer(*calls("c")))
    assert (second.asked, second.stop_reason) == (1, "budget:session_requests")
    third = Play(options, session)
    third.run()
    assert (third.asked, third.stop_reason) == (0, "budget:session_requests")
    assert session.spent(None) == Spent(3, 3, Usage(30, 15))


def test_run_limit_is_named_first() -> None:
    both = UsageLimits(requests=1)
    play = Play(agent(both, both))
    play.run(answer(*calls("a")))
    assert play.stop_reason == "budget:requests"


def test_refused_calls_reserve_no_room() -> None:
    options = agent(session_limits=UsageLimits(tool_calls=2))
    session = SessionState()
    assert Play(options, session).run(answer(*calls("a", "b", "c"))) == []
    assert Play(options, session).run(answer(*calls("d", "e"))) == ["d", "e"]


# --- the length of a response ---------------------------------------------------------------------


def test_response_length_is_capped_by_remainder() -> None:
    play = Play(agent(UsageLimits(output_tokens=100), UsageLimits(output_tokens=40)))
    play.ledger.begin_request()
    play.record([play.ledger.enter_usage(Usage(0, 30))])
    assert play.budget.cap_output_tokens(play.options.settings).max_tokens == 10
    play.record([play.ledger.enter_usage(Usage(0, 30))])
    assert play.budget.cap_output_tokens(play.options.settings).max_tokens == 1, "0 is not valid"


def test_fitting_length_is_unchanged() -> None:
    for options in (
        agent(UsageLimits(output_tokens=100), max_tokens=100),
        agent(UsageLimits(output_tokens=100), max_tokens=None),
        agent(UsageLimits(input_tokens=100)),
        agent(),
    ):
        assert Play(options).budget.cap_output_tokens(options.settings) is options.settings


def test_truncation_by_limit_names_it() -> None:
    play = Play(agent(UsageLimits(output_tokens=50)))
    play.run(answer(TextBlock("Once upon"), spent=Usage(10, 50), length=True))
    assert play.stop_reason == "budget:output_tokens"


def test_truncation_by_max_tokens_names_no_limit() -> None:
    play = Play(agent(UsageLimits(output_tokens=50), max_tokens=20))
    play.run(answer(TextBlock("Once upon"), spent=Usage(10, 20), length=True))
    assert play.stop_reason == "length"


def test_unlimited_model_truncation_names_no_limit() -> None:
    play = Play(agent(UsageLimits(output_tokens=50)))
    play.feed(play.machine.feed(UserInput("go")))
    play.budget.cap_output_tokens(play.options.settings)
    play.budget.cap_output_tokens(attrs.evolve(play.options.settings, max_tokens=None))
    one = answer(TextBlock("Once upon"), length=True)
    play.feed(play.machine.feed(one), one)
    assert play.stop_reason == "length"


def test_calls_of_truncated_response_never_run() -> None:
    broken = ToolUseError("cut off", "{", "x", "tool")
    for blocks in ([*calls("a"), broken], [broken]):
        play = Play(agent(UsageLimits(output_tokens=50)))
        assert play.run(answer(*blocks, spent=Usage(10, 0), length=True)) == []
        assert (play.asked, play.stop_reason) == (1, "budget:output_tokens")


def test_truncated_invalid_output_names_limit() -> None:
    play = Play(agent(UsageLimits(output_tokens=50)))
    play.machine.output_retries = 2
    play.feed(play.machine.feed(UserInput("go")))
    play.budget.cap_output_tokens(play.options.settings)
    one = answer(TextBlock("{"), spent=Usage(10, 50), length=True)
    play.feed(play.machine.feed(one), one)
    play.feed(play.machine.feed(OutputInvalid("no JSON")))
    assert play.stop_reason == "budget:output_tokens"


# --- attempts -------------------------------------------------------------------------------------


def test_failed_attempts_join_next_record() -> None:
    play = Play(agent(UsageLimits(requests=3), prices=PRICES))
    for _ in range(2):
        play.ledger.begin_request()
    [cut] = play.record([play.ledger.enter_usage(Usage(0, 4, estimated=True))])
    assert isinstance(cut, UsageEvent)
    assert (cut.requests, cut.cost) == (2, 40 / MILLION)
    assert play.budget.refuses_request(Usage()) == ""
    play.ledger.begin_request()
    assert play.budget.refuses_request(Usage()) == "requests"
    assert play.session.requests == 2
    play.record(play.ledger.records_of_unanswered())
    assert play.session.requests == 3
    assert play.ledger.records_of_unanswered() == []
    assert play.ledger.spent() == play.session.spent(PRICES)


def test_abandoned_usage_counts_before_recording() -> None:
    play = Play(agent(UsageLimits(total_tokens=10)))
    assert play.budget.refuses_request(Usage(0, 9)) == ""
    assert play.budget.refuses_request(Usage(0, 10)) == "total_tokens"


def test_unopened_session_refuses_nothing() -> None:
    options = agent(session_limits=UsageLimits(requests=1))
    spec = RunSpec(UserInput(""), options, "s", "q", "reject")
    assert Budget(spec, UsageAccounting()).refuses_request(Usage(9, 9)) == ""


def test_each_model_has_its_price() -> None:
    ledger = UsageAccounting(PRICES)
    ledger.enter_usage(Usage(0, 1))
    ledger.switch_pricing(None)
    ledger.enter_usage(Usage(0, 1))
    ledger.switch_pricing(Prices(input=0, output=30))
    ledger.enter_usage(Usage(0, 1))
    assert ledger.cost == pytest.approx(50 / MILLION)
    unpriced = UsageAccounting()
    unpriced.switch_pricing(PRICES)
    unpriced.enter_usage(Usage(0, 1))
    assert unpriced.cost is None


# --- any run --------------------------------------------------------------------------------------

tokens = st.builds(Usage, st.integers(0, 40), st.integers(0, 40))
limits = st.builds(
    UsageLimits,
    requests=st.none() | st.integers(1, 6),
    tool_calls=st.none() | st.integers(1, 8),
    input_tokens=st.none() | st.integers(1, 150),
    output_tokens=st.none() | st.integers(1, 150),
    total_tokens=st.none() | st.integers(1, 300),
    cost=st.none() | st.floats(1e-6, 1e-3),
)
turns = st.lists(st.tuples(st.integers(0, 3), tokens, st.booleans()), max_size=8)


def scripted(drawn: Sequence[tuple[int, Usage, bool]], prefix: str) -> Iterator[ModelCompleted]:
    for number, (size, spent, length) in enumerate(drawn):
        names = [f"{prefix}{number}_{place}" for place in range(size)]
        yield answer(TextBlock("x"), *calls(*names), spent=spent, length=length)


@given(limits, limits, st.lists(turns, min_size=1, max_size=3))
def test_overshoot_is_at_most_one_response(
    run_limits: UsageLimits, session_limits: UsageLimits, drawn: list[list[tuple[int, Usage, bool]]]
) -> None:
    options = agent(run_limits, session_limits, prices=PRICES)
    session = SessionState()
    ran = 0
    for number, turn in enumerate(drawn):
        play = Play(options, session)
        play.run(*scripted(turn, f"r{number}"))
        ran += len(play.ran)
        assert play.stop_reason
        assert play.ledger.spent() == attrs.evolve(
            play.ledger.spent(), requests=play.asked, tool_calls=len(play.ran)
        )
        assert play.asked <= (run_limits.requests or 99)
        assert len(play.ran) <= (run_limits.tool_calls or 99)
        # Only the last response may exceed a limit; each response has at most 40 tokens of a kind.
        assert play.ledger.usage.input_tokens < (run_limits.input_tokens or 10**6) + 40
        assert play.ledger.usage.total_tokens < (run_limits.total_tokens or 10**6) + 80
    assert session.tool_calls == ran <= (session_limits.tool_calls or 99)
    assert session.requests <= (session_limits.requests or 99)
    assert session.usage.output_tokens < (session_limits.output_tokens or 10**6) + 40
    check_history(session.history())


@given(st.lists(turns, min_size=1, max_size=2))
def test_without_limits_no_command_is_changed(drawn: list[list[tuple[int, Usage, bool]]]) -> None:
    for turn in drawn:
        play = Play(agent())
        assert play.budget.refusal(play.machine, CallModel(1)) is None
        play.run(*scripted(turn, "r"))
        assert not play.stop_reason.startswith("budget")


def test_refusal_reads_like_any_end() -> None:
    play = Play(agent(UsageLimits(tool_calls=1)))
    play.machine.feed(UserInput("go"))
    one = answer(*calls("a", "b"))
    append, start, _ = play.machine.feed(one)
    assert play.budget.refusal(play.machine, append, one) is None
    refusal = play.budget.refusal(play.machine, start, one)
    assert isinstance(refusal, BudgetExceeded)
    assert [brief(command) for command in play.machine.feed(refusal)] == [
        "append synthetic:a synthetic:b",
        "finish budget:tool_calls",
    ]
