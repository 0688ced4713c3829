"""The `call_next` function of a hook that wraps a step.

`CallNext` keeps the outcome of each call of the step, and decides when the step may be called. Only
one task at a time may make a model call: all attempts show their deltas to the same reader, and
with two concurrent attempts, it would be unclear which text to discard. Consecutive model calls are
allowed: the text of the earlier call is then discarded. After the hook has ended, its remaining
tasks may not make a model call, because the run has continued. Tool handlers do not stream output,
so they may run concurrently.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

from agent_actors.errors import HookError
from agent_actors.hooks.phases import Phase
from agent_actors.hooks.registry import BoundHook
from agent_actors.kernel.pausable_deadline import PausableDeadline

A = TypeVar("A")
T = TypeVar("T")


class CallNext(Generic[A, T]):
    """The step that one call of a hook wraps.

    Args:
        hook: The hook that wraps the step.
        step: Executes the step.
        clock: The deadline of the hook, which is paused during the step; None: the time of the step
            counts against the hook's deadline.
    """

    def __init__(
        self,
        hook: BoundHook,
        step: Callable[[A], Awaitable[T]],
        clock: PausableDeadline | None = None,
    ) -> None:
        self._hook = hook
        self._step = step
        self._clock = clock
        self._one_by_one = hook.phase is Phase.WRAP_MODEL_CALL
        self._under_way = False
        self._ended = False
        self._outcomes: list[object] = []
        self._refusals: list[BaseException] = []

    async def __call__(self, argument: A) -> T:
        """Execute the step.

        Raises:
            HookError: The step is a model call, and either another model call is in progress or the
                hook has ended.
            BaseException: The step raised this error.

        Cancellation: see the wrapped step.
        """
        if self._one_by_one and (self._under_way or self._ended):
            raise self._refusal()
        self._under_way = True
        if self._clock is not None:
            self._clock.pause()
        try:
            outcome = await self._step(argument)
        except BaseException as error:
            self._outcomes.append(error)
            raise
        finally:
            self._under_way = False
            if self._clock is not None:
                self._clock.resume()
        self._outcomes.append(outcome)
        return outcome

    def raised(self, error: BaseException) -> bool:
        """Return whether the step raised this error."""
        return any(error is outcome for outcome in self._outcomes)

    def gave(self, result: object) -> bool:
        """Return whether this object is the outcome of the last call of the step."""
        return bool(self._outcomes) and result is self._outcomes[-1]

    def refusal_in(self, error: BaseException) -> BaseException | None:
        """Return the refused call's error from an exception group; None if the group contains none.

        A group is raised, for example, if the hook used a nursery.
        """
        if not isinstance(error, BaseExceptionGroup):
            return None
        group = cast("BaseExceptionGroup[BaseException]", error)
        refused = group.subgroup(lambda member: any(member is own for own in self._refusals))
        return None if refused is None else self._refusals[0]

    def end(self) -> None:
        """Mark the hook as ended."""
        self._ended = True

    def _refusal(self) -> HookError:
        why = (
            "the hook called call_next after it had ended"
            if self._ended
            else "the hook called call_next while another call of it was in progress; "
            "make one call after the other"
        )
        refusal = HookError(why, hook=self._hook.name, phase=self._hook.phase)
        self._refusals.append(refusal)
        return refusal
