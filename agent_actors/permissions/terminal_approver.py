"""An approver that asks a person at the terminal, using a function such as `input`."""

from collections.abc import Callable
from threading import Lock
from typing import Final

import attrs

from agent_actors.permissions.decisions import PermissionDecision, PermissionRequest, read_answer

# All approvers share the program's only terminal.
_TERMINAL: Final = Lock()


def _turn_of(approver: "InteractiveApprover") -> Lock:
    return _TERMINAL if approver.input_fn is input else Lock()


@attrs.frozen
class InteractiveApprover:
    """A `can_use_tool` that asks a person, one question at a time.

    The approver blocks, so it must be called in a thread. `y`, `yes` and the other offered choices
    allow the call. Any other answer denies it, and so does the end of the input. Questions from
    several calls and runs are asked one at a time, so that an answer is never used for a different
    question. A question whose run ends in the meantime still waits for its answer.

    Attributes:
        input_fn: A function that shows a prompt and returns the line that the person typed.
    """

    input_fn: Callable[[str], str] = input
    _turn: Lock = attrs.field(
        default=attrs.Factory(_turn_of, takes_self=True),
        init=False,
        eq=False,
        repr=False,
    )

    def __call__(self, request: PermissionRequest) -> PermissionDecision:
        """Ask the question and return the decision."""
        ask = request.ask
        try:
            with self._turn:
                answer = self.input_fn(f"{ask.prompt} [{'/'.join(ask.choices)}] ")
        except EOFError:
            answer = ""
        return read_answer(answer, ask.choices, rule=ask.rule)
