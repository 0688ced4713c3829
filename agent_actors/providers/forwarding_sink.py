"""Sinks that providers use internally."""

from collections.abc import Sequence

from agent_actors.domain.model import ModelDelta


class DroppingSink:
    """A `ModelSink` that discards all deltas, for callers that need only the complete response."""

    @property
    def full(self) -> bool:
        """Always False."""
        return False

    def feed(self, deltas: Sequence[ModelDelta]) -> None:
        """Discard the deltas."""

    async def wait_room(self) -> None:
        """Return immediately; the sink is never full.

        Cancellation: safe.
        """
