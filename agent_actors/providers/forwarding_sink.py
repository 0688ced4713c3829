"""Sinks that providers need themselves."""

from collections.abc import Sequence

from agent_actors.domain.model import ModelDelta


class DroppingSink:
    """`ModelSink` for a caller who waits for the whole answer: takes every piece and keeps none."""

    @property
    def full(self) -> bool:
        """Never."""
        return False

    def feed(self, deltas: Sequence[ModelDelta]) -> None:
        """Take these pieces, and drop them."""

    async def wait_room(self) -> None:
        """Return at once: there is always room.

        Cancellation: safe.
        """
