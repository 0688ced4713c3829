"""The interface through which a tool learns about its run. Independent of trio."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from agent_actors.abc import BackgroundTasks, Workspace
from agent_actors.domain.events import EventBuilder
from agent_actors.domain.json import JsonValue
from agent_actors.domain.run import DepsT_co, RunInfo, ToolCallResult
from agent_actors.domain.workspace.report import CallResources


class ToolContext(Protocol[DepsT_co]):
    """The context of a tool call. Handlers may also use every member from a thread.

    A handler that uses `deps` names their type: `ctx: ToolContext[Database]`.
    """

    @property
    def deps(self) -> DepsT_co:
        """The dependencies of the run, which are the object that was passed as `deps=`."""
        ...

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
        """The root of the run's workspace, or without one the working directory of its options."""
        ...

    @property
    def run(self) -> RunInfo:
        """The current state of the run."""
        ...

    @property
    def cancelled(self) -> bool:
        """True if the call was cancelled. A handler in a thread should check it and return."""
        ...

    @property
    def workspace(self) -> Workspace | None:
        """The workspace of the run; None if the run has none. Usable until the run ends."""
        ...

    @property
    def background(self) -> BackgroundTasks | None:
        """The background commands of the session; None if the run has no workspace."""
        ...

    def used(self, resources: CallResources) -> None:
        """Report files, hosts and resources that the call used.

        The reports of a call are joined in `ToolCallResult.resources`.
        """
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

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolCallResult:
        """Call another tool of this run, and return its result.

        The call passes the schema, hooks, permissions, limits and deadlines that apply to the
        model's own calls. Its `tool.use` and `tool.result` are recorded with this call as their
        `parent_tool_use_id`; the model does not see them. A failure of the tool is a result with
        `is_error`. `content` is not truncated, and content from outside is not marked: `untrusted`
        says so, and the result of this call is then marked instead. While the other tool runs, this
        call lends its slots.

        In a sync handler, use `trio.from_thread.run(context.call_tool, name, arguments)`.

        Args:
            name: The name of a tool that is offered in this run. External tools cannot be called.
            arguments: The arguments.

        Raises:
            TypeError: The arguments cannot be represented in JSON.
            RuntimeError: This call has ended, was not made by a run, or may be abandoned
                (`on_cancel="abandon"` in a thread).

        Cancellation: the inner call is cancelled, and this method returns once it has ended.
        """
        ...


@attrs.frozen
class DetachedContext:
    """The context of a call outside a run, by `Tool.execute` in manual mode."""

    tool_name: str
    deps: object = attrs.field(default=None, repr=False)

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

    @property
    def workspace(self) -> Workspace | None:
        """Always None: there is no run."""
        return None

    @property
    def background(self) -> BackgroundTasks | None:
        """Always None: there is no run."""
        return None

    def used(self, resources: CallResources) -> None:
        """Do nothing: there is no result."""

    def report(self, progress: JsonValue) -> None:
        """Do nothing: there are no readers."""

    def record(self, event: EventBuilder) -> None:
        """Raise `RuntimeError`: there is no session."""
        raise RuntimeError("no run made this call, so ctx.record() has no session to record in")

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolCallResult:
        """Raise `RuntimeError`: there is no run."""
        raise RuntimeError("no run made this call, so ctx.call_tool() has no tools to call")
