"""The output of one run: responses are checked against the output type."""

from typing import Final

import attrs

from agent_actors.domain.json import JsonValue
from agent_actors.domain.run import Output
from agent_actors.kernel.interrupts import call_unprotected
from agent_actors.protocol.turn import CheckOutput, OutputInvalid, OutputValid
from agent_actors.tools.output_spec import OutputSpec, OutputVerdict, Valid

_NONE_CAME: Final = "the run ended before the model returned the output"


@attrs.define(eq=False)
class RunOutput:
    """The output of one run.

    Args:
        spec: The type that the last response must have; None: any text.
    """

    _spec: OutputSpec[object] | None
    _verdict: OutputVerdict[object] | None = attrs.field(default=None, init=False)

    def forget(self) -> None:
        """Discard the last check, because another response was received."""
        self._verdict = None

    def check(self, command: CheckOutput) -> OutputValid | OutputInvalid:
        """Check a response, and return the event for the turn machine."""
        assert self._spec is not None  # without an output type, the machine requests no check
        verdict = self._verdict = call_unprotected(self._spec.check, command.text)
        return OutputValid() if isinstance(verdict, Valid) else OutputInvalid(verdict.feedback)

    @property
    def data(self) -> JsonValue:
        """The output as JSON; None if there is none."""
        return self._verdict.data if isinstance(self._verdict, Valid) else None

    def of_result(self) -> Output | None:
        """Return the output for the run's result; None if the run has no output type."""
        if self._spec is None:
            return None
        if isinstance(self._verdict, Valid):
            return Output(self._verdict.value)
        return Output(fault=_NONE_CAME if self._verdict is None else self._verdict.fault)
