"""Asking the person at the terminal, by a function such as `input`."""

from collections.abc import Callable
from threading import Lock
from typing import Final

import attrs

from agent_actors.permissions.decisions import PermissionDecision, PermissionRequest, read_answer

# A program has one terminal, whoever asks there.
_TERMINAL: Final = Lock()


def _turn_of(approver: "InteractiveApprover") -> Lock:
    return _TERMINAL if approver.input_fn is input else Lock()


@attrs.frozen
class InteractiveApprover:
    """A `can_use_tool` that asks a person, one line at a time.

    The function blocks, so that whoever calls it does so in a thread. `y` and `yes` allow; so do
    the other offered choices; all else denies, the end of the input too. Questions of several calls
    and runs come one after another, so that no answer is taken for another question's; one whose
    run has ended meanwhile still takes the line that is typed for it.

    Attributes:
        input_fn: Shows a prompt and returns the line that was typed.
    """

    input_fn: Callable[[str], str] = input
    _turn: Lock = attrs.field(
        default=attrs.Factory(_turn_of, takes_self=True),
        init=False,
        eq=False,
        repr=False,
    )

    def __call__(self, request: PermissionRequest) -> PermissionDecision:
        """Ask, and return what was decided."""
        ask = request.ask
        try:
            with self._turn:
                answer = self.input_fn(f"{ask.prompt} [{'/'.join(ask.choices)}] ")
        except EOFError:
            answer = ""
        return read_answer(answer, ask.choices, rule=ask.rule)
