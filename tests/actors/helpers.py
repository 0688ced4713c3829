"""Shared helpers of the actor tests: calls in their own tasks, clocks, ids and events."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import attrs
import trio
from trio.testing import MockClock

from agent_actors.domain.events import EventScope, Notification, UserMessage
from agent_actors.testing.cancel import _fixed_order

T = TypeVar("T")


class Bug(Exception):
    """An error that only a bug in this project would raise."""


class Attempt(Generic[T]):
    """A call in its own task; the test can cancel it and check its outcome."""

    def __init__(self, nursery: trio.Nursery, call: Callable[[], Awaitable[T]]) -> None:
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.error: BaseException | None = None
        self._values: list[T] = []
        self._call = call
        nursery.start_soon(self._run)

    @property
    def outcome(self) -> str:
        """One of `waiting`, `value`, `error`, `cancelled`."""
        if not self.ended.is_set():
            return "waiting"
        if self.error is not None:
            return "error"
        return "value" if self._values else "cancelled"

    @property
    def value(self) -> T:
        assert self.outcome == "value", (self.outcome, self.error)
        return self._values[0]

    async def _run(self) -> None:
        try:
            with self.scope:
                self._values.append(await self._call())
        except Exception as error:  # noqa: BLE001 - checked by the test
            self.error = error
        except BaseExceptionGroup as group:
            # A crash of an actor may arrive in a group; an outer cancellation must pass through.
            cancels, rest = group.split(trio.Cancelled)
            if cancels is not None or rest is None:
                raise
            self.error = rest
        finally:
            self.ended.set()


def run_in_order(main: Callable[[], Awaitable[None]], seed: int) -> None:
    """Run a program under a virtual clock, with the task order that the seed gives."""
    with _fixed_order(seed):
        trio.run(main, clock=MockClock(autojump_threshold=0))


@attrs.define(eq=False)
class Clock:
    """A wall clock that shows the time set by the test."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@attrs.define(eq=False)
class CountedIds:
    """Predictable ids."""

    made: int = 0

    def new(self) -> str:
        self.made += 1
        return f"id-{self.made}"

    def take(self, count: int) -> list[str]:
        return [self.new() for _ in range(count)]


def scope_of(session_id: str) -> EventScope:
    return EventScope(session_id, "run", "request")


def said(text: str) -> partial[UserMessage]:
    """Build a record that has no header yet."""
    return partial(UserMessage, text=text)


def notice(
    text: str, *, event_id: str | None = None, session_id: str = "s", seq: int | None = None
) -> Notification:
    """Build an event with this text; the text is also its id unless `event_id` is given."""
    return Notification(scope_of(session_id), event_id or text, 1.0, text, seq=seq)
