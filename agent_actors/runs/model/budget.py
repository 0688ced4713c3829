"""The budget of one run, which decides before each expense whether the limits allow it.

The driver asks the budget before it executes a command from the turn machine. If a limit is
reached, the budget returns an event for the machine. The machine's commands for that event replace
the commands that were not executed. The budget itself does not count anything: the usage accounting
holds the usage of the run, and the session state holds the earlier usage. Without limits, there are
no checks.

- Before a model call, and before a hook repeats it: are requests, tokens or money used up?
- Before the tools of a turn start: are tokens or money used up, are there too many calls, or is the
  maximum number of tool rounds exceeded? Either all calls of a turn start, or none.
- Before a request that continues a paused response: the same checks as before a model call. If a
  limit is reached, the response stays incomplete and the run ends.
- After a response that ends the run: no check. However, if the response was truncated because a
  limit reduced its maximum length, that limit becomes the stop reason.

The session's limits apply to this run together with all earlier runs. Their names start with
`session_`. The limits of the ancestors of an agent that `Task` started apply to the agent as well;
their names start with `ancestor_`. Any other run that a tool starts has its own budget.
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
    Compact,
    Finish,
    Interrupted,
    StartTool,
    TurnMachine,
)
from agent_actors.runs.model.usage_accounting import UsageAccounting
from agent_actors.runs.spec import RunSpec
from agent_actors.sessions import SessionState

# The prefix that distinguishes the session's limits from the run's own limits.
_SESSION: Final = "session_"
# The prefix that distinguishes the limits of ancestors from the run's own limits.
_ANCESTOR: Final = "ancestor_"
# The prefix of the stop reason if a limit ended the run.
_BUDGET: Final = "budget:"

_Check: TypeAlias = Callable[[UsageLimits, Spent], str]


class BudgetExhausted(Exception):
    """The limits do not allow a request; the run ends with a result.

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
        above: The budget of the run whose `Task` call started this run; None if no other budget
            applies.

    Attributes:
        session: The session's state; None until it is open. Without it, only the run's own limits
            are checked.
    """

    _spec: RunSpec
    _usage: UsageAccounting
    _above: "Budget | None" = None
    session: SessionState | None = attrs.field(default=None, init=False)
    # The limit that applies to the length of the current response, and the limit that truncated the
    # last response.
    _bounded_by: str = attrs.field(default="", init=False)
    _cut_by: str = attrs.field(default="", init=False)
    # The limit that did not allow a paused response to continue; final for the run.
    _paused_by: str = attrs.field(default="", init=False)
    # The last turn whose calls were admitted.
    _admitted: int = attrs.field(default=0, init=False)

    def cap_output_tokens(self, settings: ModelSettings) -> ModelSettings:
        """Return the settings, with `max_tokens` reduced to the tokens that the limits leave."""
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
        """Return the limit that does not allow another attempt at a model call; empty if none.

        Args:
            cut_off: Tokens of the previous attempt, which have not been counted yet.
        """
        return self._refused(refuses_request, cut_off)

    def begin_request(self) -> None:
        """Count a request of a model call.

        Other agents under the same ancestors may have used up the limits since the driver asked, so
        the limits are checked again, without a checkpoint before the request is counted.

        Raises:
            BudgetExhausted: A limit forbids the request.
        """
        if self._above is not None:
            what = self._refused(refuses_request)
            if what:
                raise BudgetExhausted(what)
        self._usage.begin_request()

    def take_request(self, used: Usage) -> bool:
        """Count a request that continues a paused response; return False if a limit forbids it.

        Args:
            used: Tokens of the response so far, which have not been counted yet.
        """
        self._paused_by = self._refused(refuses_request, used)
        if not self._paused_by:
            self._usage.begin_request()
        return not self._paused_by

    def refusal(
        self, machine: TurnMachine, command: Command, answer: ModelCompleted | None = None
    ) -> BudgetExceeded | Interrupted | None:
        """Return the event to use instead of a command that the limits do not allow.

        Args:
            machine: The machine that returned the command.
            command: The command.
            answer: The response that led to the command, if it has not been recorded yet; otherwise
                None.

        Returns:
            The event to feed to the machine instead of executing the command; None to execute the
            command.
        """
        match command:
            case CallModel() | Compact():
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

    def take_inner_call(self) -> str:
        """Count a call that a tool makes; return the limit that forbids it, or an empty string."""
        what = self._refused(partial(refuses_calls, calls=1))
        if not what:
            self._usage.begin_tools(1)
        return what

    def note_answer(self, answer: ModelCompleted) -> None:
        """Record whether a limit truncated a response, in which case that limit ends the run."""
        self._cut_by = self._bounded_by if answer.finish_reason == "length" else ""

    def _refuse_tools(
        self, machine: TurnMachine, answer: ModelCompleted | None
    ) -> BudgetExceeded | Interrupted | None:
        # A call that waited for a decision starts later, but was already counted with its response.
        if answer is None or self._admitted == machine.iteration:
            return None
        rounds = self._spec.max_tool_rounds
        if rounds is not None and not self._spec.client_side_tools and machine.iteration > rounds:
            return Interrupted(
                StopReason.MAX_ITERATIONS,
                f"the call was not executed, since the limit of {rounds} tool rounds "
                "(max_tool_iterations) has been reached",
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
        yield from self._own_accounts(answer)
        above = self._above
        while above is not None:
            for prefix, limits, spent in above._own_accounts(answer):
                yield _ANCESTOR + prefix, limits, spent
            above = above._above

    def _own_accounts(self, answer: Usage = NO_TOKENS) -> Iterator[tuple[str, UsageLimits, Spent]]:
        options, usage = self._spec.options, self._usage
        if options.limits is not NO_LIMITS:
            yield "", options.limits, usage.spent(answer)
        if options.session_limits is not NO_LIMITS and self.session is not None:
            spent = self.session.spent(options.prices)
            yield _SESSION, options.session_limits, spent + usage.unrecorded(answer)


def _exceeded(what: str) -> BudgetExceeded | None:
    return BudgetExceeded(what) if what else None
