"""What a hook that stands around a step calls to have it done: its `call_next`.

Owns what the step came to, each time, and when it may be called. A model call is made by one task
at a time: all its tries show what they bring to the same reader, and of two at once nobody could
say which text is void. One after the other is fine: the later one voids what was shown of the
earlier. Nor is it made for a task that the hook left behind when it ended, since the run has gone
on. Tools' handlers show nothing while they run, and may run side by side.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

from agent_actors.errors import HookError
from agent_actors.hooks.phases import Phase
from agent_actors.hooks.registry import BoundHook

A = TypeVar("A")
T = TypeVar("T")


class CallNext(Generic[A, T]):
    """The step inside one call of a hook.

    Args:
        hook: Who stands around it.
        step: Does it.
    """

    def __init__(self, hook: BoundHook, step: Callable[[A], Awaitable[T]]) -> None:
        self._hook = hook
        self._step = step
        self._one_by_one = hook.phase is Phase.WRAP_MODEL_CALL
        self._under_way = False
        self._ended = False
        self._outcomes: list[object] = []
        self._refusals: list[BaseException] = []

    async def __call__(self, argument: A) -> T:
        """Do the step.

        Raises:
            HookError: It is a model call, and one is under way or the hook has ended.
            Whatever the step raises.

        Cancellation: that of the step.
        """
        if self._one_by_one and (self._under_way or self._ended):
            raise self._refusal()
        self._under_way = True
        try:
            outcome = await self._step(argument)
        except BaseException as error:
            self._outcomes.append(error)
            raise
        finally:
            self._under_way = False
        self._outcomes.append(outcome)
        return outcome

    def raised(self, error: BaseException) -> bool:
        """Whether this is what the step raised."""
        return any(error is one for one in self._outcomes)

    def gave(self, found: object) -> bool:
        """Whether this is what the step came to when it was called last."""
        return bool(self._outcomes) and found is self._outcomes[-1]

    def refusal_in(self, error: BaseException) -> BaseException | None:
        """The refusal in a group, such as a nursery of the hook's own raises; None: none."""
        if not isinstance(error, BaseExceptionGroup):
            return None
        group = cast("BaseExceptionGroup[BaseException]", error)
        refused = group.subgroup(lambda one: any(one is mine for mine in self._refusals))
        return None if refused is None else self._refusals[0]

    def end(self) -> None:
        """The hook has ended."""
        self._ended = True

    def _refusal(self) -> HookError:
        why = (
            "called call_next when it had ended"
            if self._ended
            else "called call_next while a call of it was under way; make one after the other"
        )
        refusal = HookError(why, hook=self._hook.name, phase=self._hook.phase)
        self._refusals.append(refusal)
        return refusal
