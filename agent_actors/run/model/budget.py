"""The budget of one run: asks, before anything more is spent, whether the limits have room for it.

Stands between the turn machine and the driver: it takes the machine's commands and lets them pass,
or tells the machine that a budget is used up and passes on how the run ends. It counts nothing
itself: the ledger knows what the run used, the session's state what was used before. Nothing is
asked where an agent has no limits.

When it is asked:

- Before a model call, and before a hook makes it again: are requests, tokens or money used up?
- Before the tools of a turn begin: are tokens or money used up, or are the calls too many? The
  calls of a turn begin all or none.
- Before a request that goes on with a paused answer: as before a model call. Without room the
  answer ends as it is, and the run with it.
- After an answer that ends the run there is nothing to refuse. Only where the answer was cut off
  because its length had been bounded to what was left, the limit is the reason for the end.

The session's limits count this run with those before it, and are told from the run's own by
`session_` before the name. A run that a tool starts has a budget of its own.
"""

from collections.abc import Callable, Iterator, Sequence
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
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import (
    Append,
    BudgetExceeded,
    CallModel,
    Command,
    Finish,
    StartTool,
    TurnMachine,
)
from agent_actors.run.model.usage_accounting import Ledger
from agent_actors.sessions import SessionState

# Told from the run's own limits by this.
_SESSION: Final = "session_"

_Check: TypeAlias = Callable[[UsageLimits, Spent], str]


class NoRoom(Exception):
    """A hook makes a model call again without room for it; the run ends with a result.

    Attributes:
        what: The limit.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"the run's budget is used up: {what}")
        self.what = what


@attrs.define(eq=False)
class Budget:
    """What the limits of a run and of its session have room for.

    Args:
        options: The agent, with its limits.
        ledger: What the run used.

    Attributes:
        session: The session's state, once it is open; nothing is asked before.
    """

    _options: AgentOptions
    _ledger: Ledger
    session: SessionState | None = attrs.field(default=None, init=False)
    # The limit to which the answer under way was bounded, and the one that cut the last answer off.
    _bounded_by: str = attrs.field(default="", init=False)
    _cut_by: str = attrs.field(default="", init=False)
    # The limit that left no room to go on with a paused answer; nor is there any later on.
    _paused_by: str = attrs.field(default="", init=False)

    def bounded(self, settings: ModelSettings) -> ModelSettings:
        """The settings, with no more `max_tokens` than the limits on output leave."""
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
        """The limit that leaves no room for another attempt of a model call; empty: none.

        Args:
            cut_off: Tokens of the attempt before, which are not entered yet.
        """
        return self._refused(refuses_request, cut_off)

    def take_request(self, used: Usage) -> bool:
        """Begin a request that goes on with a paused answer; False: the limits leave no room.

        Args:
            used: Tokens of the answer so far, which are not entered yet.
        """
        self._paused_by = self._refused(refuses_request, used)
        if not self._paused_by:
            self._ledger.begin_request()
        return not self._paused_by

    def allow(
        self,
        machine: TurnMachine,
        commands: Sequence[Command],
        answer: ModelCompleted | None = None,
    ) -> Sequence[Command]:
        """What to do of the machine's commands, or how the run ends in their place.

        Args:
            machine: The machine that gave them.
            commands: What it wants done; nothing of it is entered yet.
            answer: The answer that led to them, if one did.
        """
        usage = NO_TOKENS
        if answer is not None:
            usage = answer.usage
            self._cut_by = self._bounded_by if answer.finish_reason == "length" else ""
        last = commands[-1] if commands else None
        what = ""
        if isinstance(last, CallModel):
            what = self._cut_by or self._refused(refuses_request, usage)
        elif isinstance(last, StartTool) and answer is not None:
            # A call that waited for a decision begins later, and was counted with its answer.
            calls = sum(1 for command in commands if isinstance(command, StartTool))
            what = self._cut_by or self._refused(partial(refuses_calls, calls=calls), usage)
            if not what:
                self._ledger.begin_tools(calls)
        elif self._paused_by and isinstance(last, Finish):
            return [*commands[:-1], Finish(f"budget:{self._paused_by}")]
        elif self._cut_by and isinstance(last, Finish) and last.stop_reason == StopReason.LENGTH:
            return [*commands[:-1], Finish(f"budget:{self._cut_by}")]
        if not what:
            return commands
        kept = [command for command in commands if isinstance(command, Append)]
        return [*kept, *machine.feed(BudgetExceeded(what))]

    def _refused(self, check: _Check, answer: Usage = NO_TOKENS) -> str:
        for prefix, limits, spent in self._accounts(answer):
            if what := check(limits, spent):
                return prefix + what
        return ""

    def _accounts(self, answer: Usage = NO_TOKENS) -> Iterator[tuple[str, UsageLimits, Spent]]:
        """The limits there are, each with what has been spent of it."""
        options, ledger = self._options, self._ledger
        if options.limits is not NO_LIMITS:
            yield "", options.limits, ledger.spent(answer)
        if options.session_limits is not NO_LIMITS and self.session is not None:
            told = self.session.spent(options.prices)
            yield _SESSION, options.session_limits, told + ledger.untold(answer)
