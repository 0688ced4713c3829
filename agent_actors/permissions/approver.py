"""Asking the person at the terminal, by a function such as `input`."""

from collections.abc import Callable

import attrs

from agent_actors.permissions.decisions import PermissionDecision, PermissionRequest, read_answer


@attrs.frozen
class InteractiveApprover:
    """A `can_use_tool` that asks a person, one line at a time.

    The function blocks, so that whoever calls it does so in a thread. `y` and `yes` allow; so do
    the other offered choices; all else denies, the end of the input too.

    Attributes:
        input_fn: Shows a prompt and returns the line that was typed.
    """

    input_fn: Callable[[str], str] = input

    def __call__(self, request: PermissionRequest) -> PermissionDecision:
        """Ask, and return what was decided."""
        ask = request.ask
        try:
            answer = self.input_fn(f"{ask.prompt} [{'/'.join(ask.choices)}] ")
        except EOFError:
            answer = ""
        return read_answer(answer, ask.choices, rule=ask.rule)
