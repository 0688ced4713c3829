"""The output of one run: the looks at its answers, and what the result says of the last of them.

The turn machine says when an answer is to be looked at, and what follows; whether it is what was
asked for, the agent's `OutputSpec` says. The look is made in place, between the answer and its
commit, so that an answer and what follows from it are recorded together.
"""

from typing import Final

import attrs

from agent_actors.domain.json import JsonValue
from agent_actors.domain.run import Output
from agent_actors.kernel.interrupts import call_unprotected
from agent_actors.protocol.turn import (
    CheckOutput,
    Command,
    OutputFits,
    OutputMisfit,
    TurnMachine,
)
from agent_actors.tools.output_spec import OutputSpec, OutputVerdict, Valid

_NONE_CAME: Final = "the run ended before the model gave one"


@attrs.define(eq=False)
class RunOutput:
    """What a run's answers came to.

    Args:
        spec: What the last of them has to be; None: any text.
    """

    _spec: OutputSpec[object] | None
    _verdict: OutputVerdict[object] | None = attrs.field(default=None, init=False)

    def look(self, machine: TurnMachine, commands: list[Command]) -> list[Command]:
        """Do what of an answer's commands is a look at it.

        Args:
            machine: The machine that gave them; it is told what was seen.
            commands: What follows from an answer.

        Returns:
            The commands, with those that follow from the look.
        """
        self._verdict = None
        last = commands[-1]
        if not isinstance(last, CheckOutput) or self._spec is None:
            return commands
        verdict = self._verdict = call_unprotected(self._spec.check, last.text)
        seen = OutputFits() if isinstance(verdict, Valid) else OutputMisfit(verdict.feedback)
        return commands[:-1] + machine.feed(seen)

    @property
    def data(self) -> JsonValue:
        """The output as JSON; None if there is none."""
        return self._verdict.data if isinstance(self._verdict, Valid) else None

    def of_result(self) -> Output | None:
        """What the result says of it; None if its text is all that was wanted."""
        if self._spec is None:
            return None
        if isinstance(self._verdict, Valid):
            return Output(self._verdict.value)
        return Output(fault=_NONE_CAME if self._verdict is None else self._verdict.fault)
