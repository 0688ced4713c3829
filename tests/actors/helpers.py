"""What the tests of the actors have in common: a call under way, and events to speak of."""

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
    """What only our own mistake would raise."""


class Attempt(Generic[T]):
    """A call in a task of its own, that can be cancelled and whose outcome can be looked at."""

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
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.error = error
        except BaseExceptionGroup as group:
            # What tears an actor down may come in a group; a cancel from outside is not ours.
            cancels, rest = group.split(trio.Cancelled)
            if cancels is not None or rest is None:
                raise
            self.error = rest
        finally:
            self.ended.set()


def run_in_order(main: Callable[[], Awaitable[None]], seed: int) -> None:
    """Run a program under a virtual clock, its tasks in the order that the seed gives."""
    with _fixed_order(seed):
        trio.run(main, clock=MockClock(autojump_threshold=0))


@attrs.define(eq=False)
class Clock:
    """A wall clock that stands where it is put."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@attrs.define(eq=False)
class CountedIds:
    """Ids that can be foreseen."""

    made: int = 0

    def new(self) -> str:
        self.made += 1
        return f"id-{self.made}"

    def take(self, count: int) -> list[str]:
        return [self.new() for _ in range(count)]


def scope_of(session_id: str) -> EventScope:
    return EventScope(session_id, "run", "request")


def said(text: str) -> partial[UserMessage]:
    """A record still without its header."""
    return partial(UserMessage, text=text)


def notice(
    text: str, *, event_id: str | None = None, session_id: str = "s", seq: int | None = None
) -> Notification:
    """An event whose text tells it apart; its id is the text unless given."""
    return Notification(scope_of(session_id), event_id or text, 1.0, text, seq=seq)
