"""`Guardrail`: a check of the input or the output of an agent, which may end the run."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal, Never, TypeAlias, cast, get_args

import attrs

from agent_actors.domain.run import AgentContext
from agent_actors.errors import ConfigError

# Takes the text and the context. Returns the reason of a violation; None if there is none. The
# function may declare the type of the dependencies that it needs.
GuardrailCheck: TypeAlias = Callable[
    [str, AgentContext[Never]], "str | None | Awaitable[str | None]"
]
GuardrailMode: TypeAlias = Literal["parallel", "blocking"]
GuardrailSubject: TypeAlias = Literal["input", "output"]

GUARDRAIL: Final = "guardrail"
"""The phase in events and stop reasons: a violation ends the run with `blocked:guardrail`."""


@attrs.frozen(eq=False)
class Guardrail:
    """A check of the input or the output of an agent.

    A violation ends the run with the stop reason `blocked:guardrail`. A response that is cancelled
    or refused is not recorded. If the check itself fails, the run fails, so that nothing passes
    unchecked.

    Args:
        check: A function, sync or async, that takes the text and an `AgentContext`, and returns the
            reason of a violation, or None. It must return within the agent's `hook_timeout`.
        mode: For an input check. `parallel`: the check runs alongside the model call, which a
            violation cancels. The response is recorded, and its tools are called, only after the
            check. `blocking`: the check runs before the model call.
        on: `input`: every prompt and steering input, with the model call that follows it.
            `output`: the text of each response, before it is recorded.
        withhold: True to show nothing of the response until the check has passed. Otherwise readers
            see the deltas as they arrive.
        name: The name in events and errors; by default, the name of the function.

    Raises:
        ConfigError: A field is invalid.
    """

    check: GuardrailCheck
    mode: GuardrailMode = attrs.field(default="parallel", kw_only=True)
    on: GuardrailSubject = attrs.field(default="input", kw_only=True)
    withhold: bool = attrs.field(default=False, kw_only=True)
    name: str = attrs.field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not callable(self.check):
            raise ConfigError(f"Guardrail: check must be a function; got {self.check!r:.80}")
        for field, value, allowed in (
            ("mode", self.mode, get_args(GuardrailMode)),
            ("on", self.on, get_args(GuardrailSubject)),
            ("withhold", self.withhold, (True, False)),
        ):
            if value not in allowed:
                known = " or ".join(map(repr, allowed))
                raise ConfigError(f"Guardrail: {field} must be {known}; got {value!r:.80}")

    @property
    def label(self) -> str:
        """The name in events and errors."""
        return self.name or str(getattr(self.check, "__name__", type(self.check).__name__))


def as_guardrails(value: object) -> tuple[Guardrail, ...]:
    """Return guardrails as a tuple, even if only a single one was passed.

    Raises:
        ConfigError: The value contains anything else.
    """
    if isinstance(value, Guardrail):
        return (value,)
    items = tuple(cast("Iterable[object]", value)) if isinstance(value, Iterable) else (value,)
    found = tuple(item for item in items if isinstance(item, Guardrail))
    if len(found) != len(items):
        raise ConfigError(
            "AgentOptions: guardrails must be a Guardrail or a list of them, as in "
            f"[Guardrail(check)]; got {value!r:.80}"
        )
    return found
