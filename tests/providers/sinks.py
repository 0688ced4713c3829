"""Sinks for tests of providers."""

from collections.abc import Sequence

import attrs
import trio

from agent_actors.domain.model import ModelDelta


@attrs.define(eq=False)
class CollectingSink:
    """A sink that collects the deltas it is fed.

    Attributes:
        batches: The deltas of each call of `feed`.
        room: While this event is not set, the sink is full.
    """

    batches: list[list[ModelDelta]] = attrs.Factory(list[list[ModelDelta]])
    room: trio.Event = attrs.Factory(trio.Event)
    waited: int = 0

    @classmethod
    def roomy(cls) -> "CollectingSink":
        """Return a sink that is never full."""
        sink = cls()
        sink.room.set()
        return sink

    @property
    def full(self) -> bool:
        return not self.room.is_set()

    def feed(self, deltas: Sequence[ModelDelta]) -> None:
        self.batches.append(list(deltas))

    async def wait_room(self) -> None:
        self.waited += 1
        await self.room.wait()

    @property
    def deltas(self) -> list[ModelDelta]:
        """All deltas that the sink was fed."""
        return [delta for batch in self.batches for delta in batch]
