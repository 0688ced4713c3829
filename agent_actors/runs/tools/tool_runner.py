"""Runs the tool calls of one run, with the offered tools, their guard and the results."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from agent_actors.actors.tool_executor import RunTools, ToolGuard
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, Notification, ToolProgress
from agent_actors.domain.json import JsonValue
from agent_actors.domain.model import ToolSpec
from agent_actors.domain.run import ToolCallResult
from agent_actors.hooks.phases import Phase
from agent_actors.permissions import (
    DecisionContext,
    PermissionDecision,
    PermissionMode,
    PermissionPolicy,
)
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.run_hooks import HookBlock
from agent_actors.runs.model.budget import Budget
from agent_actors.runs.model.callbacks import call_function
from agent_actors.runs.tools.ancestor_hooks import AncestorHooks, ancestor_hooks
from agent_actors.runs.tools.deferred_calls import CallGuard, DeferredCalls, json_failure
from agent_actors.runs.tools.inner_calls import InnerCallRecorder
from agent_actors.runs.tools.permission_prompts import PermissionPrompter
from agent_actors.runs.tools.tool_calls import RunCalls
from agent_actors.runs.tools.tool_guard import RunGuard, validate_remember_rule
from agent_actors.tools import Tool
from agent_actors.tools.ask import asks_the_user
from agent_actors.tools.output import ToolOutput
from agent_actors.tools.read_result import READ_RESULT, read_result_tool

if TYPE_CHECKING:
    from agent_actors.actors.question_board import Answer

_NO_ANSWERS: Final[Mapping[str, "Answer"]] = {}


class ToolRunner:
    """Runs the tool calls of one run.

    Args:
        context: The context of the run.
        budget: The budget of the run.

    Attributes:
        answers: Answers from people that are known before the calls ask for them, by call id.
        deferred: The calls that the run leaves to its caller.
    """

    def __init__(self, context: RunContext, budget: Budget) -> None:
        self._context = context
        self._budget = budget
        self._calls = RunCalls(context.services.executor)
        # The results of ended calls that `results` has not returned yet.
        self._raw: list[ToolCallResult] = []
        self._ready: list[ToolCallResult] = []
        self._ancestors: AncestorHooks | None = ancestor_hooks(context)
        # Created for the first call, because many runs make no calls.
        self._guard: CallGuard | None = None
        self._run_tools: RunTools | None = None
        self._inner: InnerCallRecorder | None = None
        self._read_result: Tool | None = None
        # The names of the tools whose `offered` is false for the current model call.
        self._hidden: frozenset[str] = frozenset()
        self.answers: Mapping[str, Answer] = _NO_ANSWERS
        self.deferred: DeferredCalls = DeferredCalls(self._calls)

    @property
    def offered(self) -> Mapping[str, Tool]:
        """The tools that the model may call, by name."""
        tools, policy = self._all, self._context.permissions
        if self._hidden:
            tools = {name: tool for name, tool in tools.items() if name not in self._hidden}
        if policy is not None:
            tools = {tool.name: tool for tool in policy.offered(tools.values())}
        if self._offers_read_result and READ_RESULT not in tools:  # a hook may have added one
            if self._read_result is None:
                self._read_result = read_result_tool(self._read)
            tools = {**tools, READ_RESULT: self._read_result}
        return tools

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specifications of the offered tools, to send to the model."""
        context = self._context
        simple = context.hooks is None and context.permissions is None and not self._hidden
        if simple and not self._offers_read_result:
            return context.options.tool_specs
        return tuple(tool.spec for tool in self.offered.values())

    async def choose(self) -> None:
        """Call the functions `offered` of the tools, which decide about the next model call.

        Raises:
            CallbackError: A function failed.

        Cancellation: see the functions.
        """
        context = self._context
        hidden = frozenset(
            [
                tool.name
                for tool in self._all.values()
                if tool.offered is not None
                and not await call_function(context, f"offered of {tool.name!r}", tool.offered)
            ]
        )
        if hidden != self._hidden:
            self._hidden = hidden
            if self._run_tools is not None:
                self._run_tools = attrs.evolve(self._run_tools, tools=self.offered)

    @property
    def blocked(self) -> HookBlock | None:
        """The reason why a hook for a call ended the run; None if no hook ended it."""
        hooks, ancestors = self._context.hooks, self._ancestors
        blocked = None if hooks is None else hooks.blocked
        return blocked if blocked is not None or ancestors is None else ancestors.blocked

    def check_answers(self, calls: Sequence[ToolUseBlock]) -> None:
        """Check the known answers against their calls.

        If hooks may rewrite a call, its final arguments are not known yet. In that case, nothing is
        checked here, and a person is asked again if the answer turns out not to be valid for the
        call.

        Raises:
            ConfigError: The `remember` rule of a decision does not match its call.
        """
        context = self._context
        if context.hooks is not None and context.hooks.onion.takes_part(Phase.BEFORE_TOOL):
            return
        tools = context.options.tools_by_name
        situation = DecisionContext(context.cwd, context.spec.session_id)
        for call in calls:
            answer, tool = self.answers.get(call.id), tools.get(call.name)
            if isinstance(answer, PermissionDecision) and tool is not None:
                validate_remember_rule(answer, call, tool, situation)

    def notices(self) -> list[EventBuilder]:
        """Return a notification for each problem with the tools of the run.

        These are servers and remote tools that are not available, and unknown tools in
        `tool_whitelist`.
        """
        policy, whitelist = self._context.permissions, self._context.spec.tool_whitelist
        servers = self._context.tool_servers
        missing: list[EventBuilder] = []
        if servers is not None:
            missing = [partial(Notification, text=text) for text in servers.notices]
        if policy is None or whitelist is None:
            return missing
        return missing + [
            partial(
                Notification,
                text=f"this agent has no tool named {name!r}; tool_whitelist cannot add tools",
                data={"tool": name},
            )
            for name in policy.unknown(self._all.values(), whitelist)
            if name != READ_RESULT  # offered later, if a result is truncated
        ]

    async def start(self, call: ToolUseBlock) -> None:
        """Start a call without waiting for it.

        Raises:
            RuntimeClosed: The executor has ended.
            ActorCrashed: An actor has crashed.

        Cancellation: safe; a cancelled call starts nothing.
        """
        if self._run_tools is None:
            self._run_tools = self._make_run_tools()
        elif call.name == READ_RESULT and call.name not in self._run_tools.tools:
            self._run_tools = attrs.evolve(self._run_tools, tools=self.offered)
        self._context.usage.call_records.begin(call.id)
        await self._calls.start(self._run_tools, call)

    async def results(self) -> list[ToolCallResult]:
        """Wait for calls to end, and return their results in the order in which the calls ended.

        Returns:
            The results; empty if the driver was woken because a call was deferred.

        Raises:
            HookError: A hook for a call failed. `join` then returns the results.
            Exception: A call failed for a reason other than its tool. `join` then returns the
                results of the calls that ended at the same time.

        Cancellation: safe; no result is lost.
        """
        if not self._context.spec.json_failures:
            return await self._calls.ended()
        if not self._raw:
            self._raw = await self._calls.ended()
        while self._raw:
            self._ready.append(await self._as_json_failure(self._raw[0]))
            del self._raw[0]
        ready, self._ready = self._ready, []
        return ready

    async def join(self) -> list[ToolCallResult]:
        """Cancel the calls in progress, wait until they end, and return all remaining results.

        Cancellation: shielded; returns once all tools have ended.
        """
        return [*self._ready, *self._raw, *await self._calls.join()]

    async def _as_json_failure(self, result: ToolCallResult) -> ToolCallResult:
        if self._guard is None or result.id in self._guard.guarded:
            return result
        # The tool is unknown or the arguments are not valid, so the call never reached the guard.
        call = ToolUseBlock(result.id, result.name, result.input)
        output = json_failure(call, ToolOutput(result.content, is_error=True))
        hooks = self._context.hooks
        if hooks is not None:
            output = await hooks.onion.after_tool(call, output, self._context.messages())
        return attrs.evolve(result, content=output.content)

    @property
    def _offers_read_result(self) -> bool:
        context = self._context
        cut = context.session is not None and context.session.state.cut_results
        return bool(cut) and context.result_limit.readable()

    async def _read(self, call_id: str, offset: int) -> ToolOutput:
        cut = self._context.opened_session.state.cut_results
        if call_id not in cut:
            known = ", ".join(map(repr, cut)) or "none"
            return ToolOutput(
                f"no result of call {call_id!r} was truncated in this session; "
                f"the calls with truncated results are: {known}",
                is_error=True,
            )
        output = await self._context.result_limit.read(call_id, offset, cut[call_id])
        return attrs.evolve(
            output, untrusted=call_id in self._context.opened_session.state.untrusted_calls
        )

    @property
    def _all(self) -> Mapping[str, Tool]:
        hooks = self._context.hooks
        return self._context.options.tools_by_name if hooks is None else hooks.tools

    def _make_run_tools(self) -> RunTools:
        context, offered = self._context, self.offered
        self._inner = InnerCallRecorder(context, self._budget)
        lease = context.workspace
        return RunTools(
            run_id=context.node.run_id,
            tools=offered,
            guard=self._make_guard(offered),
            cutter=context.result_limit,
            cwd=context.cwd,
            info=context.snapshot,
            on_progress=self._on_progress,
            on_record=context.record,
            timeout=context.options.tool_timeout,
            validator=context.options.tool_validator,
            workspace=None if lease is None else lease.workspace,
            background=None if lease is None else lease.background,
            inner=self._inner,
            deps=context.deps,
            instrumentation=context.services.instrumentation,
        )

    def _make_guard(self, offered: Mapping[str, Tool]) -> ToolGuard | None:
        spec = self._context.spec
        inner = self._make_inner_guard(offered)
        if not spec.from_client and not any(tool.external for tool in offered.values()):
            return inner
        self._guard = CallGuard(inner, self.deferred, spec.client_side_tools, spec.json_failures)
        return self._guard

    def _make_inner_guard(self, offered: Mapping[str, Tool]) -> RunGuard | None:
        policy = self._context.permissions
        if policy is None and self.answers:
            # An answer that denies a call applies even if there is no policy.
            policy = PermissionPolicy(mode=PermissionMode.BYPASS)
        asks = any(map(asks_the_user, offered.values()))
        if self._context.hooks is None and self._ancestors is None and policy is None and not asks:
            return None
        prompter = PermissionPrompter(self._context, self.deferred, self.answers)
        return RunGuard(self._context, self._ancestors, policy, prompter)

    def _on_progress(self, call_id: str, name: str, progress: JsonValue) -> None:
        if call_id not in self._calls and (self._inner is None or call_id not in self._inner.live):
            return  # an abandoned thread is still reporting progress, but its call has ended
        reported: EventBuilder = partial(
            ToolProgress, tool_use_id=call_id, name=name, progress=progress
        )
        self._context.journal.publish_lossy(self._context.events.build(reported))
