"""Makes the model calls of a run within the guardrails of its agent."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

import attrs
import trio

from agent_actors.domain.events import HookEvent
from agent_actors.domain.model import ModelCompleted
from agent_actors.errors import CallbackError
from agent_actors.hooks.guardrail import GUARDRAIL, Guardrail
from agent_actors.kernel.exceptions import is_cancellation
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.run_hooks import HookBlock
from agent_actors.runs.model.callbacks import call_function
from agent_actors.runs.output.event_mailbox import HeldEvents

_Outcome: TypeAlias = ModelCompleted | HookBlock


class GuardedCalls:
    """The guardrails of one run.

    Args:
        context: The context of the run, whose agent has guardrails.

    Attributes:
        held: Holds the events of the current response back; None if they are shown at once.
    """

    def __init__(self, context: RunContext) -> None:
        guardrails = context.options.guardrails
        self.held: HeldEvents | None = None
        self._context = context
        self._input = [item for item in guardrails if item.on == "input"]
        self._output = [item for item in guardrails if item.on == "output"]

    async def call(self, step: Callable[[], Awaitable[_Outcome]]) -> _Outcome:
        """Make a model call within the guardrails.

        Args:
            step: Makes the call.

        Returns:
            The response; or the violation, or the reason why a hook ended the run.

        Raises:
            CallbackError: A check failed.
            Exception: See `step`.

        Cancellation: see `step`; the checks are cancelled too.
        """
        last = self._context.messages().last()
        text = last.content if last is not None and last.role == "user" else ""
        input_checks = self._input if text else []
        blocked = await self._violation([c for c in input_checks if c.mode == "blocking"], text)
        if blocked is not None:
            return blocked
        beside = [check for check in input_checks if check.mode == "parallel"]
        checks_later = any(check.withhold for check in self._output)
        self.held = None
        if checks_later or any(check.withhold for check in beside):
            self.held = HeldEvents(self._context.mailbox, self._context.services.bus)
        passed = None if self.held is None or checks_later else self.held.release
        outcome = await (self._beside(step, beside, text, passed) if beside else step())
        if isinstance(outcome, ModelCompleted):
            outcome = await self._checked_output(outcome)
        if self.held is not None and isinstance(outcome, ModelCompleted):
            self.held.release()
            await self.held.wait_room()
        return outcome

    def discard_held(self) -> bool:
        """Drop the events of a failed attempt; return True if none of them has been shown."""
        return self.held is not None and self.held.discard()

    async def _checked_output(self, answer: ModelCompleted) -> _Outcome:
        blocked = await self._violation(self._output, answer.text) if answer.text else None
        return answer if blocked is None else attrs.evolve(blocked, usage=answer.usage)

    async def _beside(
        self,
        step: Callable[[], Awaitable[_Outcome]],
        checks: Sequence[Guardrail],
        text: str,
        passed: Callable[[], None] | None,
    ) -> _Outcome:
        """Make a call while the checks run; a violation cancels the call."""
        outcome: _Outcome | None = None
        failure: BaseException | None = None
        beside = _Checks(partial(self._violation, checks, text), passed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside.run)
            with beside.call:
                try:
                    outcome = await step()
                except BaseException as error:  # noqa: ASYNC103 - raised below, outside of a group
                    if is_cancellation(error):
                        raise
                    failure = error
                    nursery.cancel_scope.cancel("the model call failed")
        if failure is not None:
            raise failure
        if beside.failure is not None:
            raise beside.failure
        if beside.blocked is not None:
            if isinstance(outcome, ModelCompleted):  # the call ended before the check
                return attrs.evolve(beside.blocked, usage=outcome.usage)
            return beside.blocked
        assert outcome is not None
        return outcome

    async def _violation(self, checks: Sequence[Guardrail], text: str) -> HookBlock | None:
        """Run checks in order, and record the first violation."""
        for guardrail in checks:
            started = trio.current_time()
            name = f"guardrail {guardrail.label!r}"
            reason = await call_function(self._context, name, guardrail.check, text)
            if not (reason is None or isinstance(reason, str)):
                raise CallbackError(
                    f"it returned a value of type {type(reason).__name__}; expected the reason of "
                    "a violation, or None",
                    function=name,
                )
            if reason:
                violation = partial(
                    HookEvent,
                    hook=guardrail.label,
                    phase=GUARDRAIL,
                    action="stop",
                    reason=reason,
                    duration=trio.current_time() - started,
                )
                self._context.note(violation)
                return HookBlock(GUARDRAIL, guardrail.label, reason)
        return None


@attrs.define(eq=False)
class _Checks:
    """Input checks that run alongside a model call.

    Attributes:
        call: The cancel scope of the call.
        blocked: The violation; None if there is none.
        failure: The exception that a check raised; None if there is none.
    """

    _check: Callable[[], Awaitable[HookBlock | None]]
    _passed: Callable[[], None] | None
    call: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    blocked: HookBlock | None = attrs.field(default=None, init=False)
    failure: Exception | None = attrs.field(default=None, init=False)

    async def run(self) -> None:
        """Run the checks. Keep an exception, because the nursery would put it into a group."""
        try:
            self.blocked = await self._check()
        except Exception as error:  # noqa: BLE001 - raised by `_beside`
            self.failure = error
        if self.blocked is not None or self.failure is not None:
            self.call.cancel("a guardrail ended the run")
        elif self._passed is not None:
            self._passed()
