"""Cancel async code at every point where trio can cancel it.

`cancel_at_every_step` runs the code again and again. Each run is a separate `trio.run` under a
virtual clock, with the same order of tasks. The first run is cancelled at the first step that any
task takes, the second run at the second step, and so on, until a run ends before its step is
reached. A bug that a cancellation exposes (a lock that stays held, a task that is left running, a
half-written history) is found at the same step every time.

How it works: an instrument counts the steps (`before_task_step`) while the code runs, and cancels a
scope around the code. To fix the order of tasks, `_fixed_order` seeds the random generator of
trio's scheduler, which trio supports only for Hypothesis. It uses two private names of
`trio._core._run`, the same names that pytest-trio sets; no other function touches them.
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

# Far more than the number of steps of a run with tools and hooks; longer code should be shortened.
_MAX_STEPS: Final = 20_000
# Seconds of the virtual clock, which take no real time: longer than any deadline of the tested
# code.
_TIME_LIMIT: Final = 86_400.0
_NOT_ASKED: Final = -1


@attrs.frozen
class StepOutcome(Generic[T]):
    """The outcome of one run.

    Attributes:
        step: The step at which the run was cancelled, counted from 0. Step 0 is before the first
            line of the code.
        requested: False if the code ended before that step; this run is then the last one.
        cancelled: True if the cancellation ended the code.
        value: The value that the code returned, if it returned.
        error: The error that the code raised, if any, apart from the cancellation. It is one of
            `allowed`; any other error fails the run.
        subject: The value that `around` yielded; None without `around`.
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
    stride: int = 1,
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
    stride: int = 1,
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
    stride: int = 1,
    max_steps: int = _MAX_STEPS,
    time_limit: float = _TIME_LIMIT,
    seed: int = 0,
) -> int:
    """Run `fn` once per scheduling step, and cancel it at that step. This function is synchronous.

    Each run is a separate `trio.run` under `MockClock(autojump_threshold=0)`, so the code must not
    use real sockets, processes or threads. After each run, no task may be left that did not exist
    before it.

    Args:
        fn: The code: an async function without arguments, or with the value that `around` yields.
        around: Returns an async context manager for each run. It is entered before the code and is
            never cancelled. Use it for objects that should outlive the code, such as a runtime.
        check: Called with the step and the outcome after each run, inside `around`, to make
            assertions. It may be async.
        cancel: Called with the value of `around`, to cancel in another way than by a scope around
            the code. It must not raise.
        allowed: Errors that the code may raise when it is cancelled.
        may_swallow: True if the code may return although its cancellation was delivered.
        may_stay: Returns whether a task may be left after a run.
        stride: The distance between the steps to try. With 3, the code is cancelled at steps 0, 3,
            6 and so on, which takes a third of the time. Use it to sample the steps of long code.
        max_steps: The maximum number of steps of the code.
        time_limit: Seconds of the virtual clock after which a run is considered hung.
        seed: The seed for the order of tasks.

    Returns:
        The number of steps of the code, rounded up to a multiple of `stride`.

    Raises:
        ValueError: `stride` is less than 1.
        AssertionError: A task was left, the cancellation was swallowed, the code hung, or it has
            more than `max_steps` steps. The message names the step.
        Exception: An error of `fn` or `check`; a note names the step.
    """
    if stride < 1:
        raise ValueError(f"stride must be at least 1; got {stride}")
    for step in range(0, max_steps, stride):
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
        f"the code has more than {max_steps} steps; raise max_steps or shorten the code"
    )


@attrs.define(eq=False, kw_only=True)
class _Attempt(trio.abc.Instrument):
    """One run, cancelled at one step.

    `fn` and `cancel` take the value that `around` yields, or no argument without `around`. The
    overloads check this.
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
        """A description of this run for error messages."""
        if not self.requested:
            return f"in the run that was not cancelled (steps: {self.step})"
        return f"when cancelled at step {self.step}"

    def before_task_step(self, task: Task) -> None:
        """Count the step, and cancel at the requested one; trio drops instruments that raise."""
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
        except Exception as error:  # noqa: BLE001 - main() raises it after the run
            self._failure = error

    async def main(self) -> None:
        """Run `around`, the code and the check."""
        manager = nullcontext() if self.around is None else self.around()
        async with manager as subject:
            try:
                await self._run(subject)
            except Exception as error:  # noqa: BLE001 - raised below, outside `around`
                self._failure = self._failure or error
        if self._failure is not None:
            raise self._failure

    async def _run(self, subject: object) -> None:
        before = _all_tasks()
        outcome = await self._cancelled_run(subject)
        left = [task for task in _all_tasks() - before if not self._may_stay(task)]
        if left:
            names = ", ".join(sorted(repr(task.name) for task in left))
            raise AssertionError(f"tasks were left running {self.where}: {names}")
        if self._failure is None and self.check is not None:
            found = self.check(self.step, outcome)
            if inspect.isawaitable(found):
                await found

    async def _cancelled_run(self, subject: object) -> StepOutcome[object]:
        value: object = None
        error: Exception | None = None
        arguments = () if self.around is None else (subject,)
        with trio.move_on_after(self.time_limit) as limit, trio.CancelScope() as scope:
            self._request = partial(self.cancel, *arguments) if self.cancel else scope.cancel
            self._left = self.step
            if self.step == 0:
                self._cancel_now()
            try:
                value = await _watched(_as_coroutine(self.fn(*arguments)), self._saw_cancelled)
            except self.allowed as raised:
                if not self.requested:
                    raise
                error = raised
            finally:
                self._left = _NOT_ASKED
        if limit.cancel_called:
            raise AssertionError(
                f"the code hung for {self.time_limit} virtual seconds {self.where}"
            )
        cancelled = scope.cancelled_caught
        returned = not cancelled and error is None
        if self.cancel is None and returned and self._delivered and not self.may_swallow:
            raise AssertionError(f"the code swallowed Cancelled {self.where}")
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
    """Run the code, and call `saw_cancelled` when a Cancelled is thrown into the code's own task.

    Trio resumes a task by sending an outcome, which the task unwraps. This generator inspects the
    outcome before it passes it to the code.
    """
    message: object = None
    try:
        while True:
            try:
                awaited = code.send(message)
            except StopIteration as stop:
                return stop.value
            message = yield awaited
            if isinstance(getattr(message, "error", None), trio.Cancelled):
                saw_cancelled()
    finally:
        code.close()


def _all_tasks() -> set[Task]:
    """Return every task of the current trio run, including the caller."""
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
    """Let only this seed determine the order of trio's tasks; restore the old state on exit."""
    scheduler = importlib.import_module("trio._core._run")
    source: object = getattr(scheduler, "_r", None)
    fixed: object = getattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", None)
    if not isinstance(source, random.Random) or not isinstance(fixed, bool):
        raise RuntimeError(
            f"trio {trio.__version__} is not supported: cannot fix the order of its tasks"
        )
    state = source.getstate()
    source.seed(seed)
    setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True)  # noqa: B010 - private by design
    try:
        yield
    finally:
        setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", fixed)  # noqa: B010
        source.setstate(state)
