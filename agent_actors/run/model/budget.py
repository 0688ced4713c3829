"""The budget of one run: decides before each expense whether the limits have room for it.

The driver asks the budget before it executes a command of the turn machine. If a limit is reached,
the budget returns an event for the machine. The machine's commands for that event replace the
commands that were not executed. The budget counts nothing itself: the usage accounting has the
usage of the run, and the session state has the earlier usage. Without limits there are no checks.

- Before a model call, and before a hook repeats it: are requests, tokens or money used up?
- Before the tools of a turn start: are tokens or money used up, are there too many calls, or is the
  number of rounds of tools exceeded? Either all calls of a turn start or none.
- Before a request that continues a paused response: the same checks as before a model call. Without
  room, the response ends unfinished, and the run ends with it.
- After a response that ends the run: no check. But if the response was cut off because the limits
  bounded its length, that limit becomes the stop reason.

The session's limits count this run together with the runs before it. Their names start with
`session_`. A run that a tool starts has its own budget.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias

import attrs

from agent_actors.domain.limits import (
    NO_LIMITS,
    Spent,
    UsageLimits,
    output_left,
    refuses_calls,
    refuses_request,
)
from agent_actors.domain.model import ModelCompleted, ModelSettings
from agent_actors.domain.run import StopReason
from agent_actors.domain.usage import NO_TOKENS, Usage
from agent_actors.protocol.turn import (
    BudgetExceeded,
    CallModel,
    Command,
    Finish,
    Interrupted,
    StartTool,
    TurnMachine,
)
from agent_actors.run.model.usage_accounting import UsageAccounting
from agent_actors.run.spec import RunSpec
from agent_actors.sessions import SessionState

# The prefix that distinguishes the session's limits from the run's own limits.
_SESSION: Final = "session_"
# The prefix of the stop reason of a run that a limit ended.
_BUDGET: Final = "budget:"

_Check: TypeAlias = Callable[[UsageLimits, Spent], str]


class BudgetExhausted(Exception):
    """A hook repeats a model call without room for it; the run ends with a result.

    Attributes:
        what: The name of the limit.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"the run's budget is used up: {what}")
        self.what = what


@attrs.define(eq=False)
class Budget:
    """The budget of a run, within its own limits and the limits of its session.

    Args:
        spec: The request for the run, with its limits.
        usage: The usage of the run.

    Attributes:
        session: The session's state; None until it is open. Without it, only the run's own limits
            are checked.
    """

    _spec: RunSpec
    _usage: UsageAccounting
    session: SessionState | None = attrs.field(default=None, init=False)
    # The limit that bounds the length of the current response, and the limit that cut off the last
    # response.
    _bounded_by: str = attrs.field(default="", init=False)
    _cut_by: str = attrs.field(default="", init=False)
    # The limit that left no room to continue a paused response; final for the run.
    _paused_by: str = attrs.field(default="", init=False)
    # The turn whose calls were admitted.
    _admitted: int = attrs.field(default=0, init=False)

    def cap_output_tokens(self, settings: ModelSettings) -> ModelSettings:
        """Return the settings, with `max_tokens` reduced to what the limits leave."""
        self._bounded_by = ""
        most = settings.max_tokens
        if most is None:
            return settings
        for prefix, limits, spent in self._accounts():
            left = output_left(limits, spent)
            if left is not None and left < most:
                self._bounded_by = f"{prefix}output_tokens"
                most = max(1, left)
        return attrs.evolve(settings, max_tokens=most) if self._bounded_by else settings

    def refuses_request(self, cut_off: Usage) -> str:
        """Return the limit that leaves no room for another attempt of a model call; empty if none.

        Args:
            cut_off: Tokens of the attempt before, which are not entered yet.
        """
        return self._refused(refuses_request, cut_off)

    def take_request(self, used: Usage) -> bool:
        """Count a request that continues a paused response; return False if there is no room.

        Args:
            used: Tokens of the response so far, which are not entered yet.
        """
        self._paused_by = self._refused(refuses_request, used)
        if not self._paused_by:
            self._usage.begin_request()
        return not self._paused_by

    def refusal(
        self, machine: TurnMachine, command: Command, answer: ModelCompleted | None = None
    ) -> BudgetExceeded | Interrupted | None:
        """Return the event that replaces a command for which the limits have no room.

        Args:
            machine: The machine that returned the command.
            command: The command.
            answer: The response that led to the command and is not recorded yet, if there is one.

        Returns:
            The event to feed to the machine instead of executing the command; None to execute the
            command.
        """
        match command:
            case CallModel():
                usage = NO_TOKENS if answer is None else answer.usage
                return _exceeded(self._cut_by or self._refused(refuses_request, usage))
            case StartTool():
                return self._refuse_tools(machine, answer)
            case Finish(stop_reason=stop_reason):
                if stop_reason.startswith(_BUDGET):
                    return None
                cut = stop_reason == StopReason.LENGTH
                return _exceeded(self._paused_by or (self._cut_by if cut else ""))
            case _:
                return None

    def note_answer(self, answer: ModelCompleted) -> None:
        """Note a response; if it was cut off at a limit, that limit ends the run."""
        self._cut_by = self._bounded_by if answer.finish_reason == "length" else ""

    def _refuse_tools(
        self, machine: TurnMachine, answer: ModelCompleted | None
    ) -> BudgetExceeded | Interrupted | None:
        # A call that waited for a decision starts later, but was counted with its response.
        if answer is None or self._admitted == machine.iteration:
            return None
        rounds = self._spec.max_tool_rounds
        if rounds is not None and not self._spec.client_side_tools and machine.iteration > rounds:
            return Interrupted(
                StopReason.MAX_ITERATIONS,
                f"not run: the limit of {rounds} rounds of tools (max_tool_iterations) is reached",
            )
        calls = len(machine.open_calls)
        what = self._cut_by or self._refused(partial(refuses_calls, calls=calls), answer.usage)
        if not what:
            self._admitted = machine.iteration
            self._usage.begin_tools(calls)
        return _exceeded(what)

    def _refused(self, check: _Check, answer: Usage = NO_TOKENS) -> str:
        for prefix, limits, spent in self._accounts(answer):
            if what := check(limits, spent):
                return prefix + what
        return ""

    def _accounts(self, answer: Usage = NO_TOKENS) -> Iterator[tuple[str, UsageLimits, Spent]]:
        """Yield the limits that are set, each with its name prefix and the usage so far."""
        options, usage = self._spec.options, self._usage
        if options.limits is not NO_LIMITS:
            yield "", options.limits, usage.spent(answer)
        if options.session_limits is not NO_LIMITS and self.session is not None:
            spent = self.session.spent(options.prices)
            yield _SESSION, options.session_limits, spent + usage.unrecorded(answer)


def _exceeded(what: str) -> BudgetExceeded | None:
    return BudgetExceeded(what) if what else None
