"""The run that hooks serve, as the hooks see it."""

from typing import Protocol

import attrs

from agent_actors.domain.events import EventBuilder
from agent_actors.domain.run import RunInfo
from agent_actors.sessions.records import recordable


class HookHost(Protocol):
    """The run that hooks serve, as they see it."""

    def snapshot(self) -> RunInfo:
        """Return the current state of the run."""
        ...

    def note(self, builder: EventBuilder) -> None:
        """Record an action of a hook with the next commit."""
        ...

    def record(self, builder: EventBuilder, call_id: str | None) -> None:
        """Record an event of a hook: with the result of a call, or with the next commit."""
        ...


@attrs.define(eq=False)
class NoRun:
    """Stands in for a run where hooks are called outside of one.

    Args:
        info: The state that hooks see.

    Attributes:
        accepts_records: Whether hooks may record events.
        builders: The events that were recorded; the caller commits or drops them.
    """

    _info: RunInfo
    accepts_records: bool = True
    builders: list[EventBuilder] = attrs.field(factory=list[EventBuilder], init=False)

    def snapshot(self) -> RunInfo:
        """Return the fixed state."""
        return self._info

    def note(self, builder: EventBuilder) -> None:
        """Keep an action of a hook."""
        self.builders.append(builder)

    def record(self, builder: EventBuilder, call_id: str | None) -> None:
        """Keep an event of a hook.

        Raises:
            RuntimeError: Nothing can be recorded here.
        """
        if not self.accepts_records:
            raise RuntimeError("no run is live, so ctx.record() cannot record an event")
        self.builders.append(recordable(builder))
