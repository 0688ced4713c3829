import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from agent_actors.testing.cancel import StepOutcome, cancel_at_every_step


async def three_checkpoints() -> str:
    for _ in range(3):
        await trio.lowlevel.checkpoint()
    return "done"


def test_every_step_is_tried() -> None:
    seen: list[StepOutcome[None]] = []

    steps = cancel_at_every_step(three_checkpoints, check=lambda _, outcome: seen.append(outcome))

    assert [outcome.step for outcome in seen] == list(range(steps + 1))
    assert [outcome.requested for outcome in seen] == [True] * steps + [False]
    assert seen[0].cancelled
    assert seen[-1].value == "done"
    assert seen[-1].error is None
    # A cancellation before the first line, and one at each checkpoint.
    assert steps == 4
    assert [outcome.cancelled for outcome in seen] == [True] * 4 + [False]


def test_stride_samples_the_steps() -> None:
    tried: list[int] = []

    steps = cancel_at_every_step(three_checkpoints, stride=3, check=lambda at, _: tried.append(at))

    assert (tried, steps) == ([0, 3, 6], 6)
    with pytest.raises(ValueError, match="stride must be at least 1; got 0"):
        cancel_at_every_step(three_checkpoints, stride=0)


def test_straight_code_is_cancelled_before_start() -> None:
    async def plain() -> None:
        pass

    assert cancel_at_every_step(plain) == 1


def test_steps_of_children_count() -> None:
    async def with_children() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(three_checkpoints)

    assert cancel_at_every_step(with_children) > 3 * 4


def test_seed_determines_the_steps() -> None:
    def orders(seed: int) -> list[list[int]]:
        found: list[list[int]] = []

        async def racing() -> None:
            order: list[int] = []
            found.append(order)

            async def racer(number: int) -> None:
                for _ in range(2):
                    await trio.lowlevel.checkpoint()
                    order.append(number)

            async with trio.open_nursery() as nursery:
                for number in range(4):
                    nursery.start_soon(racer, number)

        cancel_at_every_step(racing, seed=seed)
        return found

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_waits_take_no_time() -> None:
    async def patient() -> None:
        await trio.sleep(3600)

    assert cancel_at_every_step(patient) == 2


def test_held_lock_is_found() -> None:
    locks: list[trio.Lock] = []

    async def careless() -> None:
        lock = trio.Lock()
        locks.append(lock)
        await lock.acquire()
        await trio.lowlevel.checkpoint()
        lock.release()

    def check(_step: int, _outcome: StepOutcome[None]) -> None:
        assert not locks[-1].locked()

    with pytest.raises(AssertionError) as caught:
        cancel_at_every_step(careless, check=check)

    assert caught.value.__notes__ == ["when cancelled at step 1"]


@asynccontextmanager
async def service() -> AsyncGenerator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        yield nursery
        nursery.cancel_scope.cancel()


async def leak_if_cancelled(nursery: trio.Nursery) -> None:
    try:
        await trio.sleep(1)
    finally:
        if trio.current_effective_deadline() == -float("inf"):
            nursery.start_soon(trio.sleep_forever, name="the leaked one")


def test_leaked_task_is_found_by_name() -> None:
    with pytest.raises(
        AssertionError, match="tasks were left running when cancelled at step 0"
    ) as caught:
        cancel_at_every_step(leak_if_cancelled, around=service)

    assert "the leaked one" in str(caught.value)


def test_permitted_task_is_no_leak() -> None:
    steps = cancel_at_every_step(
        leak_if_cancelled, around=service, may_stay=lambda task: task.name == "the leaked one"
    )

    assert steps == 2


def test_leaked_system_task_is_found() -> None:
    async def leaky() -> None:
        trio.lowlevel.spawn_system_task(trio.sleep_forever, name="hidden")
        await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="hidden"):
        cancel_at_every_step(leaky)


async def swallow() -> str:
    with contextlib.suppress(trio.Cancelled):  # the mistake that the check must find
        await trio.sleep(1)
    return "as if nothing had been"


def test_a_swallowed_cancel_is_found() -> None:
    with pytest.raises(AssertionError, match="swallowed Cancelled when cancelled at step 0"):
        cancel_at_every_step(swallow)


def test_swallowed_cancel_needs_permission() -> None:
    assert cancel_at_every_step(swallow, may_swallow=True) == 2


def test_own_cancel_is_not_swallowed() -> None:
    async def times_out() -> None:
        with trio.move_on_after(1):
            await trio.sleep_forever()

    assert cancel_at_every_step(times_out) == 2


def test_unexpected_error_names_its_step() -> None:
    async def turns_it_into_an_error() -> None:
        await trio.lowlevel.checkpoint()
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            raise RuntimeError("gave up") from None  # noqa: ASYNC104 - the mistake that the check must find

    with pytest.raises(RuntimeError, match="gave up") as caught:
        cancel_at_every_step(turns_it_into_an_error)

    assert caught.value.__notes__ == ["when cancelled at step 2"]


def test_permitted_error_needs_a_cancel() -> None:
    errors: list[Exception | None] = []

    async def gives_up() -> None:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            raise RuntimeError("gave up") from None  # noqa: ASYNC104 - the mistake that the check must find

    async def broken() -> None:
        raise RuntimeError("always")

    cancel_at_every_step(
        gives_up, allowed=(RuntimeError,), check=lambda _, outcome: errors.append(outcome.error)
    )
    assert [repr(error) for error in errors] == ["RuntimeError('gave up')"] * 2 + ["None"]

    with pytest.raises(RuntimeError, match="always") as caught:
        cancel_at_every_step(broken, allowed=(RuntimeError,))
    assert caught.value.__notes__ == ["in the run that was not cancelled (steps: 1)"]


def test_run_hanging_after_cancel_is_found() -> None:
    async def waits_for_nobody(_: None = None) -> None:
        with trio.CancelScope() as scope:
            try:
                await trio.sleep(1)
            finally:
                scope.shield = True
                with trio.move_on_after(200_000):
                    await trio.sleep_forever()  # noqa: ASYNC102 - the mistake that the check must find

    with pytest.raises(AssertionError, match=r"hung for .* virtual seconds when cancelled"):
        cancel_at_every_step(waits_for_nobody)


def test_check_runs_inside_surrounding_context() -> None:
    states: list[str] = []

    @asynccontextmanager
    async def opened() -> AsyncGenerator[list[str]]:
        state = ["open"]
        yield state
        state[0] = "closed"

    async def use(state: list[str]) -> None:
        await trio.sleep(1)

    async def check(_step: int, outcome: StepOutcome[list[str]]) -> None:
        await trio.lowlevel.checkpoint()
        states.append(outcome.subject[0])

    steps = cancel_at_every_step(use, around=opened, check=check)

    assert states == ["open"] * (steps + 1)


def test_check_error_is_raised_unwrapped() -> None:
    async def fine(_nursery: trio.Nursery) -> None:
        await trio.lowlevel.checkpoint()

    def check(step: int, _outcome: StepOutcome[trio.Nursery]) -> None:
        assert step < 1, "not good enough"

    with pytest.raises(AssertionError, match="not good enough") as caught:
        cancel_at_every_step(fine, around=service, check=check)

    assert caught.value.__notes__ == ["when cancelled at step 1"]


def test_another_way_of_cancelling_may_be_given() -> None:
    @asynccontextmanager
    async def switch() -> AsyncGenerator[trio.Event]:
        await trio.lowlevel.checkpoint()
        yield trio.Event()

    async def until_told(event: trio.Event) -> bool:
        with trio.move_on_after(5):
            await event.wait()
        return event.is_set()

    values: list[object] = []
    steps = cancel_at_every_step(
        until_told,
        around=switch,
        cancel=lambda event: event.set(),
        check=lambda _, outcome: values.append((outcome.value, outcome.cancelled)),
    )

    assert values == [(True, False)] * steps + [(False, False)]


def test_failing_cancel_function_is_an_error() -> None:
    def broken() -> None:
        raise LookupError("no such run")

    with pytest.raises(LookupError, match="no such run"):
        cancel_at_every_step(three_checkpoints, cancel=broken)


def test_code_with_too_many_steps_is_refused() -> None:
    with pytest.raises(AssertionError, match="more than 2 steps"):
        cancel_at_every_step(three_checkpoints, max_steps=2)


def test_order_of_other_runs_is_unchanged() -> None:
    async def order() -> list[int]:
        found: list[int] = []

        async def one(number: int) -> None:
            await trio.lowlevel.checkpoint()
            found.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(one, number)
        return found

    import trio._core._run as scheduler

    before = (scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r.getstate())
    cancel_at_every_step(order)
    assert (scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r.getstate()) == before


def test_nondeterministic_trio_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._core._run._r")

    with pytest.raises(RuntimeError, match="cannot fix the order of its tasks"):
        cancel_at_every_step(three_checkpoints)
