"""The interface through which a tool learns about its run. Independent of trio."""

from pathlib import Path
from typing import Protocol

import attrs

from agent_actors.domain.events import EventBuilder
from agent_actors.domain.json import JsonValue
from agent_actors.domain.run import RunInfo


class ToolContext(Protocol):
    """The context of a tool call. Handlers may also use every member from a thread."""

    @property
    def session_id(self) -> str:
        """The session."""
        ...

    @property
    def run_id(self) -> str:
        """The run."""
        ...

    @property
    def request_id(self) -> str:
        """The caller's id of the request."""
        ...

    @property
    def call_id(self) -> str:
        """The id of this call, unique in its session; usable as an idempotency key."""
        ...

    @property
    def tool_name(self) -> str:
        """The name under which the tool was called."""
        ...

    @property
    def cwd(self) -> Path:
        """The working directory of the run's options, as an absolute path."""
        ...

    @property
    def run(self) -> RunInfo:
        """The current state of the run."""
        ...

    @property
    def cancelled(self) -> bool:
        """True if the call was cancelled. A handler in a thread should check it and return."""
        ...

    def report(self, progress: JsonValue) -> None:
        """Report progress to the readers of the run; never blocks. Slow readers may miss it."""
        ...

    def record(self, event: EventBuilder) -> None:
        """Record an event in the session, in the same commit as the result of the call.

        Args:
            event: An event without its header, for example `functools.partial(FileChanged,
                path="a.txt", content="new")`; also `TodosChanged`, `SkillActivated` and
                `Notification`.

        Raises:
            ConfigError: Only runs may record events of this type.
            InvalidEventError: The event could not be read back from a log.
            RuntimeError: The call has ended, or was not made by a run.
        """
        ...


@attrs.frozen
class DetachedContext:
    """The context of a call outside a run, by `Tool.execute` in manual mode."""

    tool_name: str

    @property
    def session_id(self) -> str:
        """Always empty: there is no session."""
        return ""

    @property
    def run_id(self) -> str:
        """Always empty: there is no run."""
        return ""

    @property
    def request_id(self) -> str:
        """Always empty: there is no request."""
        return ""

    @property
    def call_id(self) -> str:
        """Always empty: no model made the call."""
        return ""

    @property
    def cwd(self) -> Path:
        """The process's working directory."""
        return Path.cwd()

    @property
    def run(self) -> RunInfo:
        """An empty `RunInfo`."""
        return RunInfo("", "", "", iteration=0, started_at=0.0)

    @property
    def cancelled(self) -> bool:
        """Always False: the call cannot be cancelled through this context."""
        return False

    def report(self, progress: JsonValue) -> None:
        """Do nothing: there are no readers."""

    def record(self, event: EventBuilder) -> None:
        """Raise `RuntimeError`: there is no session."""
        raise RuntimeError("no run made this call, so ctx.record() has no session to record in")
