"""The state that the parts of one run share, which is passed to them explicitly."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors.actors.resources.checkpoints import RunCheckpoints
from agent_actors.actors.resources.session_resources import WorkspaceLease
from agent_actors.actors.run_tree import RunNode, current_call
from agent_actors.actors.session_gate import Lease
from agent_actors.actors.session_log import OpenSession
from agent_actors.actors.tool_servers.servers import ToolServerLease
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, EventScope
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import AgentContext, CompactionReport, RunInfo, SubagentResult
from agent_actors.kernel.fair_limiter import FairLimiter
from agent_actors.options.agent_options import AgentOptions
from agent_actors.permissions import PermissionPolicy
from agent_actors.protocol.turn import TurnMachine
from agent_actors.runs.cancellation import RunStop
from agent_actors.runs.hooks.run_hooks import RunHooks
from agent_actors.runs.model.budget import Budget
from agent_actors.runs.model.structured_output import RunOutput
from agent_actors.runs.model.token_reports import TokenReporter
from agent_actors.runs.model.usage_accounting import UsageAccounting
from agent_actors.runs.output.event_mailbox import EventFactory, EventMailbox
from agent_actors.runs.output.journal import Journal
from agent_actors.runs.project.run_project import RunProject
from agent_actors.runs.services import RunServices
from agent_actors.runs.spec import RunSpec
from agent_actors.runs.steering import Inbox
from agent_actors.runs.tools.effective_policy import effective_policy
from agent_actors.runs.tools.result_limit import ResultLimit, can_read_results
from agent_actors.sessions.records import recordable

current_context: Final[ContextVar["RunContext | None"]] = ContextVar(
    "agent_actors_run_context", default=None
)
"""The context of the run that started the current code; that run may have ended."""


@attrs.define(eq=False)
class RunContext:
    """The state of one run, shared by its parts.

    Attributes:
        spec: The caller's request.
        services: The parts of the runtime that the run may use.
        node: The run's node in the tree of runs.
        parent: The run whose tool or hook started this run, and which may have ended; None for a
            root run.
        parent_tool_use_id: The call that started this run; None for a root run.
        ancestors: The sessions that the live ancestor runs hold.
        mailbox: The mailbox of the reader; None if the run has no reader.
        machine: The agent loop.
        stop: Cancels the run.
        inbox: Receives steering input.
        events: Builds the events of the run.
        journal: Records events and publishes them.
        usage: Counts the usage of the run.
        budget: The budget of the run; None after the run has ended.
        result_limit: Truncates tool results that are too long.
        output: The output of the run.
        hooks: The hooks of the agent; None if the agent has no hooks.
        permissions: The policy for tool calls; None: no restriction.
        started_at: The start time of the run, in seconds since the epoch.
        started: The start time of the run, by trio's clock.
        token: The token of the trio run that executes this run.
        lease: The lease of the session; None before it is acquired and after the run has ended.
        session: The session; None until it is open, and after the run has ended.
        cwd: The directory at which relative paths in arguments begin: the root of the workspace, or
            the working directory of the options without a workspace.
        workspace: The lease of the workspace; None if the run has no workspace, before the lease is
            acquired, and after the run has ended.
        tool_servers: The lease of the servers of remote tools; None if the run has none, before the
            lease is acquired, and after the run has ended.
        project: The project knowledge; None if the agent uses none, and before it is read.
        checkpoints: The checkpoints of the workspace; None if the run makes none.
        began_after: The `seq` of the session's last record before the records of the run.
        compactions: The steps in which the run made the conversation shorter.
        client_calls: The calls that the run left to its client, by id; set when the run ends.
        subagents: The agents that `Task` started and that have ended.
        agent_slots: Limits the agents that run at once, for a root run; None before the first.
        announces_children: True if the run's hooks are notified of nested runs.
        ended: True if the run has ended.
        ended_untrusted: True if the run has ended, and its conversation had content from outside.
    """

    spec: RunSpec
    services: RunServices
    node: RunNode
    parent: "RunContext | None"
    parent_tool_use_id: str | None
    ancestors: tuple[str, ...]
    mailbox: EventMailbox | None
    machine: TurnMachine = attrs.field(init=False)
    stop: RunStop = attrs.field(init=False)
    inbox: Inbox = attrs.field(init=False)
    events: EventFactory = attrs.field(init=False)
    journal: Journal = attrs.field(init=False)
    usage: UsageAccounting = attrs.field(init=False)
    budget: Budget | None = attrs.field(init=False)
    result_limit: ResultLimit = attrs.field(init=False)
    output: RunOutput = attrs.field(init=False)
    hooks: RunHooks | None = attrs.field(init=False)
    permissions: PermissionPolicy | None = attrs.field(init=False)
    started_at: float = attrs.field(init=False)
    started: float = attrs.field(factory=trio.current_time, init=False)
    token: trio.lowlevel.TrioToken = attrs.field(
        factory=trio.lowlevel.current_trio_token, init=False
    )
    lease: Lease | None = attrs.field(default=None, init=False)
    session: OpenSession | None = attrs.field(default=None, init=False)
    cwd: Path = attrs.field(init=False)
    workspace: WorkspaceLease | None = attrs.field(default=None, init=False)
    tool_servers: ToolServerLease | None = attrs.field(default=None, init=False)
    project: RunProject | None = attrs.field(default=None, init=False)
    checkpoints: RunCheckpoints | None = attrs.field(default=None, init=False)
    began_after: int = attrs.field(default=0, init=False)
    compactions: list[CompactionReport] = attrs.field(factory=list[CompactionReport], init=False)
    client_calls: dict[str, ToolUseBlock] = attrs.field(factory=dict[str, ToolUseBlock], init=False)
    subagents: tuple[SubagentResult, ...] = attrs.field(default=(), init=False)
    agent_slots: FairLimiter | None = attrs.field(default=None, init=False)
    announces_children: bool = attrs.field(default=False, init=False)
    ended: bool = attrs.field(default=False, init=False)
    ended_untrusted: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        spec, services, options = self.spec, self.services, self.spec.options
        self.cwd = options.cwd
        self.started_at = services.wall_clock()
        self.machine = TurnMachine(
            spec.max_iterations, options.retries_of_output, options.max_calls_per_response
        )
        within = self.parent if spec.slot is not None else None
        above = None if within is None else within.budget
        self.usage = UsageAccounting(
            options.prices, counted_in=None if within is None else within.usage
        )
        self.budget = Budget(spec, self.usage, above)
        if options.token_callback is not None or services.instrumentation is not None:
            self.usage.reporter = TokenReporter(
                spec.session_id,
                self.node.run_id,
                options,
                options.token_callback,
                services.instrumentation,
                services.take_interrupt,
            )
        self.output = RunOutput(options.output)
        scope = EventScope(
            spec.session_id,
            self.node.run_id,
            spec.request_id,
            agent_name=options.agent_name,
            parent_tool_use_id=self.parent_tool_use_id,
        )
        self.events = EventFactory(services.ids, services.wall_clock, scope)
        chain = options.hook_chain
        self.hooks = (
            RunHooks(chain, options, self, services.take_interrupt, services.instrumentation)
            if chain
            else None
        )
        policy = None if self.parent is None else self.parent.permissions
        self.permissions = effective_policy(options.permissions, policy, spec.tool_whitelist)
        self.inbox = Inbox(options, self.machine, self.hooks)
        if spec.from_client:
            self.inbox.close()  # a run that `Client` starts only takes its own prompt
        self.stop = RunStop(self.inbox)
        self.result_limit = ResultLimit(
            spec.session_id,
            options.max_result_bytes,
            services.kept_results,
            readable=partial(
                can_read_results,
                options,
                self.permissions,
                client_side_tools=spec.client_side_tools,
            ),
        )
        self.journal = Journal(
            services.bus, self.events, self.mailbox, self.inbox, services.instrumentation
        )

    @property
    def deps(self) -> object:
        """The dependencies of the run, or those of the run that started it; None if none."""
        if self.spec.deps is not None or self.parent is None:
            return self.spec.deps
        return self.parent.deps

    def for_options(self) -> AgentContext[object]:
        """Return the context for functions of the options."""
        return AgentContext(self.snapshot(), self.deps, self.messages())

    @property
    def options(self) -> AgentOptions:
        """The options of the agent."""
        return self.spec.options

    @property
    def opened_session(self) -> OpenSession:
        """The session; only valid once the session is open."""
        assert self.session is not None
        return self.session

    @property
    def ids(self) -> tuple[str, str, str]:
        """The ids of the session, the run and the request."""
        return self.spec.session_id, self.node.run_id, self.spec.request_id

    @property
    def untrusted(self) -> bool:
        """True if the conversation of this run or of an ancestor has content from outside."""
        if self._has_untrusted_results():
            return True
        return self.parent is not None and self.parent.untrusted

    def messages(self) -> Messages:
        """Return the conversation so far; empty if the session is not open."""
        return Messages() if self.session is None else self.session.history()

    def snapshot(self) -> RunInfo:
        """Return the state of the run that hooks and tools see."""
        request = self.spec.request
        return RunInfo(
            session_id=self.spec.session_id,
            run_id=self.node.run_id,
            request_id=self.spec.request_id,
            iteration=self.usage.model_calls,
            started_at=self.started_at,
            last_output=self.usage.text,
            agent_name=self.spec.options.agent_name or "",
            traits=request.traits,
            channels=request.channels,
            tags=request.merged_tags,
            metadata=request.metadata,
            entry_point=request.entry_point,
        )

    def note_commit(self) -> None:
        """Handle a commit; if it contained the new history, mark the replacement as recorded."""
        replacement = self.spec.replace_history
        if replacement is not None and replacement.queued:
            replacement.recorded = True

    @contextmanager
    def pause_deadlines(self) -> Generator[None]:
        """Pause the deadlines of this run, of the call that started it, and of its ancestors.

        If the current code runs in a tool of this run, the deadline of that tool's call is paused
        as well.
        """
        outer = current_call.get()
        self.node.pause_deadlines()
        if outer is not None:
            outer.pause_deadlines()
        try:
            yield
        finally:
            if outer is not None:
                outer.resume_deadlines()
            self.node.resume_deadlines()

    def note(self, builder: EventBuilder) -> None:
        """Record a hook's action with the next commit, or drop it if no commit follows."""
        if not self.ended or self.spec.from_client:  # `Client` commits results after the run
            self.journal.note(builder)

    def record(self, builder: EventBuilder, call_id: str | None) -> None:
        """Record an event that a tool or a hook produced.

        Args:
            builder: The event without its header.
            call_id: The call; the event is recorded with its result. None to record the event with
                the next commit.

        Raises:
            ConfigError: Only runs may record events of this type.
            InvalidEventError: The event cannot be read back from a log.
            RuntimeError: The call or the run has ended.
        """
        builder = recordable(builder)
        if call_id is not None:
            self.usage.call_records.add(call_id, builder)
        elif self.ended:
            raise RuntimeError("the run has ended; ctx.record() can be called only during the run")
        else:
            self.journal.note(builder)

    def end(self) -> None:
        """Mark the run as ended, and drop all state that live nested runs do not need."""
        self.ended_untrusted = self._has_untrusted_results()
        if self.ended_untrusted and self.node.call is not None:
            self.node.call.untrusted = True
        self.ended, self.announces_children = True, False
        self.session = self.lease = self.workspace = self.checkpoints = None
        self.tool_servers = None
        self.journal.close()
        self.usage, self.budget = self.usage.summary(), None

    def _has_untrusted_results(self) -> bool:
        session = self.session
        return self.ended_untrusted or (session is not None and bool(session.state.untrusted_calls))
