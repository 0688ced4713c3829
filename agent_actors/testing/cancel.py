"""Cancel a piece of async code at every place at which trio lets it be cancelled.

`cancel_at_every_step` runs the code again and again, each time in a `trio.run` of its own, under a
virtual clock and with one and the same order of tasks, and cancels it at the first, the second, the
third … step that any task takes, until a run ends before its step comes. What a cancel can break
(a lock that stays held, a task that stays behind, a half-written history) is found at the step that
breaks it, every time.

How it works: an instrument counts the steps (`before_task_step`) while the code is under way and
cancels a scope around it. The order of tasks is fixed by seeding the random source that trio's
scheduler draws from, which trio itself offers to Hypothesis only: two private names of
`trio._core._run`, the same that pytest-trio sets. They are touched in `_fixed_order` alone.
"""

import importlib
import inspect
import random
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar, overload

import attrs
import trio
from trio.lowlevel import Task
from trio.testing import MockClock

T = TypeVar("T")

# Enough for a run with tools and hooks many times over; a code that needs more should be cut down.
_MAX_STEPS: Final = 20_000
# Seconds of the virtual clock, which cost nothing: longer than any deadline that code may wait for.
_TIME_LIMIT: Final = 86_400.0
_NOT_ASKED: Final = -1


@attrs.frozen
class StepOutcome(Generic[T]):
    """What one run came to.

    Attributes:
        step: The step at which it was cancelled, counted from 0: before the code's first line.
        requested: False if the code had ended before that step; it is then the last run.
        cancelled: True if the cancel ended the code.
        value: What the code returned, if it did.
        error: What it raised beside the cancel, if it did; one of `allowed`, else the run failed.
        subject: What `around` gave; None without it.
    """

    step: int
    requested: bool
    cancelled: bool
    value: object
    error: Exception | None
    subject: T


Check: TypeAlias = Callable[[int, StepOutcome[T]], Awaitable[None] | None]


@overload
def cancel_at_every_step(
    fn: Callable[[], Awaitable[object]],
    *,
    check: Check[None] | None = None,
    cancel: Callable[[], object] | None = None,
    allowed: tuple[type[Exception], ...] = (),
    may_swallow: bool = False,
    may_stay: Callable[[Task], bool] | None = None,
    max_steps: int = _MAX_STEPS,
    time_limit: float = _TIME_LIMIT,
    seed: int = 0,
) -> int: ...
@overload
def cancel_at_every_step(
    fn: Callable[[T], Awaitable[object]],
    *,
    around: Callable[[], AbstractAsyncContextManager[T]],
    check: Check[T] | None = None,
    cancel: Callable[[T], object] | None = None,
    allowed: tuple[type[Exception], ...] = (),
    may_swallow: bool = False,
    may_stay: Callable[[Task], bool] | None = None,
    max_steps: int = _MAX_STEPS,
    time_limit: float = _TIME_LIMIT,
    seed: int = 0,
) -> int: ...
def cancel_at_every_step(
    fn: Callable[..., Awaitable[object]],
    *,
    around: Callable[[], AbstractAsyncContextManager[object]] | None = None,
    check: Callable[..., Awaitable[None] | None] | None = None,
    cancel: Callable[..., object] | None = None,
    allowed: tuple[type[Exception], ...] = (),
    may_swallow: bool = False,
    may_stay: Callable[[Task], bool] | None = None,
    max_steps: int = _MAX_STEPS,
    time_limit: float = _TIME_LIMIT,
    seed: int = 0,
) -> int:
    """Run `fn` once per scheduling step and cancel it there; a synchronous function.

    Each run has a `trio.run` of its own under `MockClock(autojump_threshold=0)`, so that the code
    must not use real sockets, processes or threads. After each run, no task may be alive that was
    not before.

    Args:
        fn: The code: an async function without arguments, or of what `around` gives.
        around: Makes an async context manager for each run, which is entered before the code and
            is never cancelled: what should outlive the code, such as a runtime.
        check: Called with the step and the outcome after each run, inside `around`; it asserts.
            It may be async.
        cancel: Called, with what `around` gives, to cancel in another way than by a scope around
            the code. It must not raise.
        allowed: Errors that the code may raise when it is cancelled.
        may_swallow: Whether the code may return although its cancel was delivered to it.
        may_stay: Says of a task that is left whether it may be.
        max_steps: The most steps to try.
        time_limit: Seconds of the virtual clock after which a run counts as hung.
        seed: Another number is another order of tasks.

    Returns:
        The number of steps at which the code was cancelled.

    Raises:
        AssertionError: A task was left, the cancel was swallowed, the code hung, or there are
            more than `max_steps` steps; it names the step.
        Exception: What `fn` raised, or `check`; a note names the step.
    """
    for step in range(max_steps):
        attempt = _Attempt(
            step=step,
            fn=fn,
            around=around,
            check=check,
            cancel=cancel,
            allowed=allowed,
            may_swallow=may_swallow,
            may_stay=may_stay,
            time_limit=time_limit,
        )
        try:
            with _fixed_order(seed):
                trio.run(attempt.main, clock=MockClock(autojump_threshold=0), instruments=[attempt])
        except BaseException as error:
            error.add_note(attempt.where)
            raise
        if not attempt.requested:
            return step
    raise AssertionError(
        f"the code has more than {max_steps} steps; raise max_steps or cut it down"
    )


@attrs.define(eq=False, kw_only=True)
class _Attempt(trio.abc.Instrument):
    """One run, cancelled at one step.

    `fn` and `cancel` take what `around` gives, or nothing without it: the overloads see to that.
    """

    step: int
    fn: Callable[..., Awaitable[object]]
    around: Callable[[], AbstractAsyncContextManager[object]] | None
    check: Callable[..., Awaitable[None] | None] | None
    cancel: Callable[..., object] | None
    allowed: tuple[type[Exception], ...]
    may_swallow: bool
    may_stay: Callable[[Task], bool] | None
    time_limit: float
    requested: bool = attrs.field(default=False, init=False)
    _left: int = attrs.field(default=_NOT_ASKED, init=False)
    _request: Callable[[], object] = attrs.field(default=lambda: None, init=False)
    _delivered: bool = attrs.field(default=False, init=False)
    _failure: Exception | None = attrs.field(default=None, init=False)

    @property
    def where(self) -> str:
        """For a person: which run this is."""
        if not self.requested:
            return f"in the run that was not cancelled, after {self.step} steps"
        return f"when cancelled at step {self.step}"

    def before_task_step(self, task: Task) -> None:
        """Count, and cancel when it is time. Trio drops an instrument that raises: never raise."""
        if self._left < 0:
            return
        self._left -= 1
        if self._left == 0:
            self._cancel_now()

    def _cancel_now(self) -> None:
        self.requested = True
        self._left = _NOT_ASKED
        try:
            self._request()
        except Exception as error:  # noqa: BLE001 - raised when the run has ended
            self._failure = error

    async def main(self) -> None:
        """The whole of one run."""
        manager = nullcontext() if self.around is None else self.around()
        async with manager as subject:
            try:
                await self._run(subject)
            except Exception as error:  # noqa: BLE001 - raised below, past what `around` would add
                self._failure = self._failure or error
        if self._failure is not None:
            raise self._failure

    async def _run(self, subject: object) -> None:
        before = _all_tasks()
        outcome = await self._cancelled_run(subject)
        left = [task for task in _all_tasks() - before if not self._may_stay(task)]
        if left:
            names = ", ".join(sorted(repr(task.name) for task in left))
            raise AssertionError(f"{len(left)} tasks are left {self.where}: {names}")
        if self._failure is None and self.check is not None:
            found = self.check(self.step, outcome)
            if inspect.isawaitable(found):
                await found

    async def _cancelled_run(self, subject: object) -> StepOutcome[object]:
        value: object = None
        error: Exception | None = None
        given = () if self.around is None else (subject,)
        with trio.move_on_after(self.time_limit) as limit, trio.CancelScope() as scope:
            self._request = partial(self.cancel, *given) if self.cancel else scope.cancel
            self._left = self.step
            if self.step == 0:
                self._cancel_now()
            try:
                value = await _watched(_as_coroutine(self.fn(*given)), self._saw_cancelled)
            except self.allowed as raised:
                if not self.requested:
                    raise
                error = raised
            finally:
                self._left = _NOT_ASKED
        if limit.cancel_called:
            raise AssertionError(f"hung for {self.time_limit} virtual seconds {self.where}")
        cancelled = scope.cancelled_caught
        returned = not cancelled and error is None
        if self.cancel is None and returned and self._delivered and not self.may_swallow:
            raise AssertionError(f"Cancelled was raised in the code and swallowed {self.where}")
        return StepOutcome(self.step, self.requested, cancelled, value, error, subject)

    def _saw_cancelled(self) -> None:
        self._delivered = self._delivered or self.requested

    def _may_stay(self, task: Task) -> bool:
        return self.may_stay is not None and self.may_stay(task)


async def _as_coroutine(awaited: Awaitable[object]) -> object:
    return await awaited


@types.coroutine
def _watched(
    code: Coroutine[object, object, object], saw_cancelled: Callable[[], None]
) -> Generator[object, object, object]:
    """Run the code, and tell when a Cancelled is thrown into its own task.

    Trio resumes a task with an outcome that the task unwraps; this looks at it on its way.
    """
    message: object = None
    try:
        while True:
            try:
                wanted = code.send(message)
            except StopIteration as stop:
                return stop.value
            message = yield wanted
            if isinstance(getattr(message, "error", None), trio.Cancelled):
                saw_cancelled()
    finally:
        code.close()


def _all_tasks() -> set[Task]:
    """Every task of this run of trio, its own included."""
    root = trio.lowlevel.current_root_task()
    found: set[Task] = set()
    waiting = [root] if root is not None else []
    while waiting:
        task = waiting.pop()
        found.add(task)
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)
    return found


@contextmanager
def _fixed_order(seed: int) -> Generator[None]:
    """Have trio order its tasks by this seed alone; what was before is put back."""
    scheduler = importlib.import_module("trio._core._run")
    source: object = getattr(scheduler, "_r", None)
    fixed: object = getattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", None)
    if not isinstance(source, random.Random) or not isinstance(fixed, bool):
        raise RuntimeError(
            f"trio {trio.__version__} has no fixed order of tasks where this version looks for it"
        )
    state = source.getstate()
    source.seed(seed)
    setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True)  # noqa: B010 - private by design
    try:
        yield
    finally:
        setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", fixed)  # noqa: B010
        source.setstate(state)
