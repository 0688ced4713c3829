"""A client's session between runs: commits results for the calls that runs left open.

The session is held only for the duration of each commit. This module starts no tasks.
"""

from collections.abc import Callable, Sequence
from functools import partial

import attrs

from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, EventScope, ToolResult
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import RunInfo
from agent_actors.errors import PromptBlocked
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import UserInput
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.hook_host import NoRun
from agent_actors.runs.hooks.run_hooks import RunHooks
from agent_actors.runs.spec import HistoryReplacement, RunSpec
from agent_actors.runs.tools.result_limit import ResultLimit, can_read_results
from agent_actors.runtime.runtime import Runtime
from agent_actors.runtime.sessions.handle import SessionHandle
from agent_actors.sessions import SessionState
from agent_actors.sessions.records import closing, replacing, seen_after
from agent_actors.tools.fencing import fenced, is_untrusted
from agent_actors.tools.output import ToolOutput


@attrs.frozen
class SessionView:
    """A snapshot of a session.

    Attributes:
        messages: The conversation; always valid.
        open_calls: The calls without a result, in the model's order.
        is_new: True if the session has no records.
    """

    messages: Messages
    open_calls: tuple[ToolUseBlock, ...]
    is_new: bool


def open_client_session(runtime: Runtime, session_id: str | None) -> "ClientSession":
    """Return access to a session of a runtime, for `Client` and `query()`.

    Raises:
        RuntimeClosed: The runtime is closed.
    """
    return ClientSession(runtime.session_handle(session_id), runtime.default_on_busy)


def view_of(state: SessionState) -> SessionView:
    """Return a snapshot of a session."""
    # If a run deferred a call, take it with the arguments that hooks or people gave it.
    calls = tuple(state.external.get(call.id, call) for call in state.open_calls)
    return SessionView(state.history(), calls, state.last_seq == 0)


@attrs.frozen(eq=False)
class ClientSession:
    """One session of a client.

    Args:
        handle: The state of the session, and commits between its runs.
        on_busy: The policy of the runtime for sessions that another run holds.
    """

    _handle: SessionHandle
    _on_busy: OnBusy

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._handle.session_id

    def spec(
        self,
        prompt: UserInput,
        options: AgentOptions,
        replace_history: HistoryReplacement | None = None,
        deps: object = None,
    ) -> RunSpec:
        """Return the specification for a client's run on this session."""
        return RunSpec(
            prompt,
            options,
            self.session_id,
            self._handle.ids.new(),
            # The run uses the options of its own client, so its input must not be taken by another
            # run.
            "queue" if self._on_busy == "steer" else self._on_busy,
            max_tool_rounds=options.max_tool_iterations,
            client_side_tools=not options.auto_execute_tools,
            replace_history=replace_history,
            deps=deps,
        )

    def view(self) -> SessionView | None:
        """Return a snapshot of the session; None if the session is not in memory."""
        state = self._handle.peek()
        return None if state is None else view_of(state)

    async def look(self) -> SessionView:
        """Return a snapshot of the session, loading it from the store if necessary.

        Raises:
            SessionBusy: A run holds the session, and the runtime's policy is `reject`.
            SessionStoreError: The records of the session cannot be read.

        Cancellation: safe.
        """
        return await self._commit(EventScope(self.session_id, "", ""), lambda _: [])

    async def answer(
        self,
        call: ToolUseBlock,
        output: ToolOutput,
        options: AgentOptions,
        run: RunContext | None,
        replace_history: HistoryReplacement | None,
        *,
        deps: object = None,
    ) -> SessionView:
        """Call the `after_tool` hooks, and record the result of a call.

        Args:
            call: The call, with the arguments that the caller received.
            output: The output of the call.
            options: The agent.
            run: The run that left the call open; None if the call was made before this client was
                created.
            replace_history: A conversation that replaces the history, recorded before the result;
                None: no replacement.
            deps: The dependencies for hooks that are called outside a run.

        Raises:
            HookError: A hook failed. Nothing is recorded.
            PromptBlocked: A hook stopped the run. The result is recorded.
            SessionBusy: See `look`. Nothing is recorded.
            SessionStoreError: See `look`. It is unknown whether the result was recorded.

        Cancellation: safe; a cancelled call records nothing.
        """
        handle = self._handle
        run_id = run.node.run_id if run else handle.ids.new()
        request_id = run.spec.request_id if run else run_id
        hooks, recorded = run.hooks if run else None, list[EventBuilder]()
        if run is not None and hooks is not None:
            run.usage.call_records.begin(call.id)
            output = await hooks.onion.after_tool(call, output, self._messages())
            recorded = [*run.journal.take_notes(), *run.usage.call_records.end(call.id)]
        elif options.hook_chain:
            info = RunInfo(self.session_id, run_id, request_id, 0, handle.wall_clock())
            no_run = NoRun(info, deps=deps)
            hooks = RunHooks(options.hook_chain, options, no_run)
            output = await hooks.onion.after_tool(call, output, self._messages())
            recorded = no_run.builders
        limit = self._result_limit(options) if run is None else run.result_limit
        untrusted = is_untrusted(output, options.tools_by_name.get(call.name))
        output, complete_bytes = await limit.cut(call.id, output)
        if untrusted:
            output = fenced(output, call.name, call.id)
        result: EventBuilder = partial(
            ToolResult,
            tool_use_id=call.id,
            name=call.name,
            content=output.content,
            is_error=output.is_error,
            data=output.data,
            completed_at=handle.wall_clock(),
            complete_bytes=complete_bytes,
            untrusted=untrusted,
        )

        scope = EventScope(self.session_id, run_id, request_id, agent_name=options.agent_name)
        view = await self._commit(scope, lambda _: [*recorded, result], replace_history)
        if hooks is not None and hooks.blocked is not None:
            raise PromptBlocked(hooks.blocked.reason or hooks.blocked.why)
        return view

    async def close_calls(
        self, why: str, replace_history: HistoryReplacement | None
    ) -> SessionView:
        """Record a synthetic error result for every open call.

        Args:
            why: The content of the results, which the model receives.
            replace_history: A conversation that replaces the history, recorded before the results;
                None: no replacement.

        Raises:
            SessionBusy, SessionStoreError: See `look`.

        Cancellation: safe.
        """

        def results(state: SessionState) -> list[EventBuilder]:
            return [closing(call, why) for call in state.open_calls]

        run_id = self._handle.ids.new()
        scope = EventScope(self.session_id, run_id, run_id)
        return await self._commit(scope, results, replace_history)

    def _result_limit(self, options: AgentOptions) -> ResultLimit:
        readable = partial(
            can_read_results,
            options,
            options.permissions,
            client_side_tools=not options.auto_execute_tools,
        )
        return ResultLimit(
            self.session_id, options.max_result_bytes, self._handle.kept_results, readable
        )

    def _messages(self) -> Messages:
        view = self.view()
        return Messages() if view is None else view.messages

    async def _commit(
        self,
        scope: EventScope,
        make: Callable[[SessionState], Sequence[EventBuilder]],
        replacement: HistoryReplacement | None = None,
    ) -> SessionView:
        def drafts(state: SessionState) -> list[EventBuilder]:
            if replacement is None or replacement.recorded:
                return [*make(state)]
            messages = replacement.messages
            return [*replacing(state, messages), *make(seen_after(messages))]

        state = await self._handle.commit(scope, drafts)
        if replacement is not None:
            replacement.recorded = True
        return view_of(state)
