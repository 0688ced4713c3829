"""The interface between hooks and the run that calls them."""

from typing import Protocol

import attrs

from agent_actors.domain.events import EventBuilder
from agent_actors.domain.run import RunInfo
from agent_actors.sessions.records import recordable


class HookHost(Protocol):
    """The interface between hooks and the run that calls them."""

    @property
    def deps(self) -> object:
        """The dependencies of the run; None if there are none."""
        ...

    def snapshot(self) -> RunInfo:
        """Return the current state of the run."""
        ...

    def note(self, builder: EventBuilder) -> None:
        """Record a hook's action with the next commit."""
        ...

    def record(self, builder: EventBuilder, call_id: str | None) -> None:
        """Record a hook's event, with the result of a call or with the next commit."""
        ...


@attrs.define(eq=False)
class NoRun:
    """A substitute for the run when hooks are called outside of a run.

    Args:
        info: The state that hooks see.

    Attributes:
        accepts_records: True if hooks may record events.
        deps: The dependencies that hooks see.
        builders: The recorded events, which the caller commits or drops.
    """

    _info: RunInfo
    accepts_records: bool = True
    deps: object = attrs.field(default=None, repr=False)
    builders: list[EventBuilder] = attrs.field(factory=list[EventBuilder], init=False)

    def snapshot(self) -> RunInfo:
        """Return the state that was passed in."""
        return self._info

    def note(self, builder: EventBuilder) -> None:
        """Keep a hook's action."""
        self.builders.append(builder)

    def record(self, builder: EventBuilder, call_id: str | None) -> None:
        """Keep a hook's event.

        Raises:
            RuntimeError: Events cannot be recorded here.
        """
        if not self.accepts_records:
            raise RuntimeError("no run is live, so ctx.record() cannot record an event")
        self.builders.append(recordable(builder))
