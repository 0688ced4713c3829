"""The driver of one run: feeds the turn machine and carries out its commands.

Owns the run's cancel scope, its open calls and its place in the log. It holds no policy: what
happens next is the turn machine's to say, who may run is the gate's, what is kept is the log's.
Every record is committed before it is shown. Whatever ends the run (its answer, an error, a
cancel at any checkpoint), the way out is one: cancel the open calls, join them, commit what they
gave and close what they left open, show the last event, release the session.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import trio

from agent_actors.actors.run_tree import current_call, current_run
from agent_actors.actors.tool_executor import RunTools
from agent_actors.context.sending import messages_to_send
from agent_actors.domain.events import (
    AssistantDelta,
    ErrorEvent,
    EventBuilder,
    EventScope,
    ResultEvent,
    SessionRewind,
    SystemInit,
    ToolProgress,
)
from agent_actors.domain.json import JsonValue
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.run import CancelReason, RunInfo, RunResult, StopReason, ToolCallResult
from agent_actors.errors import RunDeadlineExceeded, RuntimeShutdown
from agent_actors.kernel.pausable_deadline import Home, Standstill
from agent_actors.kernel.request import RequestCancelled
from agent_actors.protocol.response.call_ids import with_unique_ids
from agent_actors.protocol.turn import (
    Append,
    Command,
    Entry,
    Finish,
    Interrupted,
    StartTool,
    State,
    ToolFinished,
    TurnMachine,
    UserInput,
)
from agent_actors.run.cancellation import RunStop
from agent_actors.run.hooks.run_hooks import Blocked, HookedRun
from agent_actors.run.hooks.subagent_hooks import subagent_of
from agent_actors.run.model.budget import Budget
from agent_actors.run.model.model_calls import Attempts
from agent_actors.run.model.structured_output import RunOutput
from agent_actors.run.model.usage_accounting import Ledger
from agent_actors.run.output.event_mailbox import EventMailbox, RunSink, Stamp
from agent_actors.run.output.journal import RunRecord
from agent_actors.run.spec import RunSpec
from agent_actors.run.steering import Inbox, Steering, take_at_once, wait_in_line
from agent_actors.run.suspension import RunSuspension
from agent_actors.run.tools.effective_policy import policy_of
from agent_actors.run.tools.permission_prompts import RunClock
from agent_actors.run.tools.tool_calls import RunCalls
from agent_actors.run.tools.toolset import Toolset
from agent_actors.runtime.lifecycle import Actors
from agent_actors.sessions.metadata import metadata_of
from agent_actors.sessions.records import opening_of, report_of
from agent_actors.sessions.skills import append_skills_prompt
from agent_actors.version import __version__

if TYPE_CHECKING:
    from agent_actors.actors.session_gate import Lease
    from agent_actors.actors.session_log import OpenSession


class Driver:
    """One run, from its start to its last event.

    Args:
        actors: Whom to ask.
        spec: What to run.
        mailbox: Where the reader takes its events; None for a run that nobody reads.
    """

    def __init__(
        self,
        actors: Actors,
        spec: RunSpec,
        mailbox: EventMailbox | None,
    ) -> None:
        self._actors = actors
        self._spec = spec
        self._options = spec.options
        self._lease: Lease | None = None
        self._mailbox = mailbox
        self._face = face = spec.face
        self._machine = TurnMachine(
            spec.options.max_iterations if face is None else face.max_iterations,
            spec.options.retries_of_output,
        )
        self._output = RunOutput(spec.options.output)
        self._ledger = Ledger(spec.options.prices)
        self._budget = Budget(spec.options, self._ledger)
        self._session: OpenSession | None = None
        self._started_at = actors.wall_clock()
        self._started = trio.current_time()
        scope = EventScope(
            spec.node.session_id,
            spec.node.run_id,
            spec.request_id,
            agent_name=spec.options.agent_name,
            parent_tool_use_id=spec.parent_tool_use_id,
        )
        self._stamp = Stamp(actors.ids, actors.wall_clock, scope)
        self._record = RunRecord(actors, self._stamp, mailbox)
        self._attempts = Attempts(
            actors,
            spec.options,
            self._ledger,
            self._budget,
            make_sink=self._make_sink,
            record=self._record.commit,
        )
        self._calls = RunCalls(actors.executor)
        self._subagent = subagent_of(actors, spec)
        chain, take = spec.options.hook_chain, actors.take_interrupt
        self._hooked = HookedRun(chain, spec.options, self._info, take) if chain else None
        self._toolset = Toolset(actors, spec, self._hooked, policy_of(spec))
        self._suspension = RunSuspension(spec, self._toolset, self._hooked, actors.wall_clock)
        self._why = ""
        # The last record before the run's own.
        self._began_after = 0
        self.inbox: Inbox = Inbox(spec.options, self._machine, self._hooked)
        self._stop = RunStop(self.inbox.close)
        self._steering = Steering(self._stop.scope.cancel)
        if face is not None:
            face.begin(spec.node.run_id, spec.request_id, self._hooked)
            self.inbox.close()  # what such a run leaves to its caller comes first
        self._record.beside = self._beside
        self._record.confirmed = self.inbox.confirm

    def cancel(self, reason: str) -> None:
        """End the run; the first reason counts. Its driver closes the session in order."""
        self._stop.cancel(reason)

    def acquire_nowait(self) -> None:
        """Take the session, or raise `SessionBusy`."""
        self._lease = take_at_once(self._actors, self._spec, self._stop.stop)

    async def drive(self) -> RunResult:
        """Run to the end.

        Raises:
            AgentError: What the run failed with; the session is valid all the same.
            RequestCancelled: The caller cancelled it.
        """
        self._spec.node.home = Home(Standstill(self._stop.scope))
        current_run.set(self._spec.node)
        current_call.set(None)
        try:
            failure, stop_reason = await self._attempt()
        except BaseException:
            # An actor broke, and takes this task along: its calls end before the caller is told.
            await self._calls.join()  # noqa: ASYNC102 - shielded there
            raise
        return await self._end(failure, stop_reason)

    def release(self) -> None:
        """Let go of what the run holds; its request calls this, also if it never began."""
        # Each is let go whatever becomes of the others: waiters and readers hang on them.
        with ExitStack() as held:
            if self._hooked is not None:
                held.callback(self._hooked.ring.leave)
            if self._mailbox is not None:
                held.callback(self._mailbox.close)
            if self._lease is not None:
                held.callback(self._lease.release)
            if self._session is not None:
                held.callback(self._session.close)
            held.callback(self.inbox.end, None)

    def _beside(self) -> list[EventBuilder]:
        drafts = [] if self._hooked is None else self._hooked.drafts()
        return [*drafts, *self._toolset.drafts()]

    # From the first turn to the last.

    async def _attempt(self) -> tuple[Exception | None, str]:
        failure: Exception | None = None
        stop_reason = ""
        timeout = self._options.run_timeout
        scope = self._stop.scope
        scope.deadline = self._started + timeout
        with scope:
            try:
                await self._open_session()
                stop_reason = await self._turns()
            except _Ended as ended:
                stop_reason, self._why = ended.blocked.stop_reason, ended.blocked.why
                if ended.blocked.usage is not None:
                    self._record.hold_also(self._ledger.enter_usage(ended.blocked.usage))
            except Exception as error:  # noqa: BLE001 - the caller's, once the session is closed
                failure = error
            except KeyboardInterrupt as error:  # only users' code can be interrupted here
                self._actors.take_interrupt(error)
                failure = RuntimeShutdown()
        if self._steering.fate is not None:
            return self._steering.fate
        if scope.cancelled_caught and self._stop.reason is None:
            failure = RunDeadlineExceeded(timeout)
        return failure, stop_reason

    async def _open_session(self) -> None:
        if self._lease is None:
            self._lease = await wait_in_line(
                self._actors, self._spec, self._steering, self._stop.stop, self._record.queued
            )
            # Its input may have been taken in the very tick of the grant.
            await trio.lowlevel.checkpoint_if_cancelled()
        self._session = self._record.session = await self._actors.log.open(self._lease)
        self._budget.session, self.inbox.session = self._session.state, self._session
        self._session.note(metadata_of(self._spec))
        self._began_after = self._session.state.last_seq
        self._stop.opened()

    async def _turns(self) -> str:
        machine = self._machine
        init: EventBuilder = partial(
            SystemInit,
            cwd=str(self._options.cwd),
            sdk_version=__version__,
            model=self._options.model,
            tools=tuple(self._options.tools_by_name),
        )
        assert self._session is not None
        closed = self._ledger.enter(self._suspension.begin(self._session.state))
        # Should hooks end the run before it has begun; what is suspended then stays so.
        self._record.hold([] if self._suspension.resumes else [init])
        said = await self._begin()
        commands = await self._suspension.first(machine, said, self._record.messages())
        first = opening_of(self._spec, self._session.state)
        notices = [*report_of(self._session.state), *self._toolset.notices()]
        stop_reason = await self._carry_out(commands, *first, init, *closed, *notices)
        self._leave_if_blocked()
        if self._face is not None:
            self._face.replaces = None  # it is on record
        while stop_reason is None:
            answer = await self._call_model() if machine.state is State.MODEL else None
            if answer is None:
                commands = await self._await_calls()
            else:
                self.inbox.before_answer(answer)
                commands = self._output.look(machine, machine.feed(answer))
            stop_reason = await self._carry_out(commands, answer=answer)
        if stop_reason == StopReason.AWAITING_APPROVAL:
            self._record.hold_also(self._suspension.draft())
        elif self._hooked is not None and stop_reason != StopReason.AWAITING_RESULTS:
            await self._hooked.stop(self._ledger.text, stop_reason)
        return stop_reason

    def _leave_if_blocked(self) -> None:
        if self._toolset.blocked is not None:
            raise _Ended(self._toolset.blocked)

    async def _begin(self) -> UserInput:
        said, hooked = self._spec.prompt, self._hooked
        assert self._session is not None
        if self._subagent is not None:
            blocked = await self._subagent.start()
            if blocked is not None:
                raise _Ended(blocked)
        if hooked is None:
            return said
        self._actors.hooked[self._spec.node.run_id] = hooked
        blocked = await self._actors.session_hooks.begin(self._session, hooked)
        if blocked is not None:
            raise _Ended(blocked)
        history = self._session.history() if self._face is None else self._face.replaces
        begun = await hooked.begin(said, self._session.history() if history is None else history)
        if isinstance(begun, Blocked):
            raise _Ended(begun)
        return begun

    async def _carry_out(
        self,
        commands: Sequence[Command],
        *first: EventBuilder,
        answer: ModelCompleted | None = None,
    ) -> str | None:
        if self._face is not None:
            commands = self._face.bound(self._machine, commands)
        entries, others = _split(self._budget.allow(self._machine, commands, answer))
        stop_reason = next((c.stop_reason for c in others if isinstance(c, Finish)), None)
        if stop_reason is not None:
            # The end follows at once, and takes these along in its one commit.
            self._record.hold([*first, *self._ledger.enter(entries)])
        elif entries or first:
            await self._record.commit([*first, *self._ledger.enter(entries)])
        for command in others:
            if isinstance(command, StartTool):
                await self._calls.start(command.call, self._make_tools)
        return stop_reason  # CallModel: the machine's state says so, and `_turns` looks at that

    async def _call_model(self) -> ModelCompleted:
        assert self._session is not None
        self._ledger.model_calls += 1
        self._stamp.next_iteration(self._ledger.model_calls)
        hooked, state = self._hooked, self._session.state
        request = ModelRequest(
            messages=messages_to_send(
                self._session.history(),
                self._options.resume_window,
                state.memo,
                resend_refused=self._options.resends_refused,
            ),
            settings=self._options.settings,
            system_prompt=append_skills_prompt(self._options.system_prompt, state.skills),
            tools=self._toolset.specs,
            turn=state.turns + 1,
            known_call_ids=state.call_ids,
            idempotency_key=self._actors.ids.new(),
            output=self._options.output_schema,
            memo=state.memo,
        )
        if hooked is None:
            answer = await self._attempts.answer(request)
        else:
            answer = await self._inside_hooks(hooked, request)
        return with_unique_ids(answer, turn=request.turn, known=request.known_call_ids)

    async def _inside_hooks(self, hooked: HookedRun, request: ModelRequest) -> ModelCompleted:
        answer = await hooked.call_model(request, self._attempts.answer)
        if isinstance(answer, Blocked):
            raise _Ended(answer)
        if hooked.withholds and answer.text:
            stamp = self._stamp
            delta = AssistantDelta(stamp.scope, stamp.ids.new(), stamp.wall_clock(), answer.text)
            await self._record.show((delta,))
        return answer

    def _make_sink(self) -> RunSink:
        silent = self._hooked is not None and self._hooked.withholds
        return RunSink(
            self._stamp,
            self._mailbox,
            self._actors.bus,
            tool_deltas=self._options.tool_deltas,
            shows=not silent,
            more=self._budget.take_request,
        )

    # Tools.

    async def _await_calls(self) -> list[Command]:
        commands: list[Command] = []
        ended = await self._calls.ended()
        if not ended:
            await self._record.commit([])  # a question was asked, or a call was put down
        if self._face is not None:
            commands = await self._face.take(
                self._machine, ended, self._record.messages(), self._toolset.blocked
            )
            ended = []
        self.inbox.before_results(len(ended))
        for result in ended:
            commands += self._machine.feed(ToolFinished(result))
        if self._toolset.blocked is not None:
            await self._carry_out(commands)
            self._leave_if_blocked()
        return [*commands, *self._suspension.leave(self._machine)]

    def _make_tools(self) -> RunTools:
        clock, wake = RunClock(self._spec.node), self._calls.wake
        guard = self._toolset.guard(self._info, self._record.messages, wake=wake, clock=clock)
        return RunTools(
            run_id=self._spec.node.run_id,
            tools=self._toolset.tools,
            guard=guard if self._face is None else self._face.guard(guard),
            cwd=self._options.cwd,
            info=self._info,
            on_progress=self._on_progress,
            timeout=self._options.tool_timeout,
        )

    # The end.

    async def _end(self, failure: Exception | None, stop_reason: str) -> RunResult:
        finished = await self._calls.join()
        if self._face is not None:
            finished = self._face.carried_out(finished)
        cancelled = failure is None and not stop_reason
        if cancelled:
            stop_reason = StopReason.INTERRUPTED
            if self._stop.reason is CancelReason.SHUTDOWN:
                failure = RuntimeShutdown()
        stop_reason = self._stop.outcome(stop_reason)
        stopped = self._why or self._stop.told
        why = _told(failure) if failure else stopped
        if self._hooked is not None:
            failure = await self._hooked.end(self._ledger.text, stop_reason or "error", failure)
        if self._subagent is not None:
            failure = await self._subagent.stop(stop_reason, self._ledger.text, failure)
        drafts = self._ledger.enter(self._closing_entries(finished, stop_reason or "error", why))
        drafts += [*self._attempts.cut_off(), *self._ledger.enter_unanswered()]
        # From here on it is too late to roll the run back: what it came to is on its way.
        stop_reason = self._stop.outcome(stop_reason)
        if self._stop.rolls_back and self._session is not None:
            drafts.append(partial(SessionRewind, to_seq=self._began_after))
        failure = await self._record.commit_end(
            drafts, partial(self._last_draft, stop_reason), failure
        )
        self.inbox.end(failure)
        if failure is not None:
            raise failure
        if cancelled and self._stop.reason in (None, CancelReason.CALLER):
            raise RequestCancelled("caller")
        return self._result(stop_reason)

    def _closing_entries(
        self, finished: Sequence[ToolCallResult], stop_reason: str, why: str
    ) -> list[Entry]:
        machine = self._machine
        commands: list[Command] = []
        for result in finished:
            commands += machine.feed(ToolFinished(result))
        if machine.state is not State.DONE:
            commands += machine.feed(Interrupted(stop_reason, why))
        return _split(commands)[0]

    def _last_draft(self, stop_reason: str, failure: Exception | None) -> EventBuilder:
        if failure is not None:
            return partial(ErrorEvent, error=type(failure).__name__, message=str(failure))
        return partial(
            ResultEvent,
            text=self._ledger.text,
            stop_reason=stop_reason,
            usage=self._ledger.usage,
            iterations=self._ledger.model_calls,
            duration=trio.current_time() - self._started,
            cost=self._ledger.cost,
            output=self._output.data,
            stop_details=self._ledger.stop_details,
            damaged_lines=self._ledger.damaged_lines,
        )

    def _result(self, stop_reason: str) -> RunResult:
        ledger = self._ledger
        return RunResult(
            text=ledger.text,
            stop_reason=stop_reason,
            messages=self._record.messages(),
            tool_calls=ledger.tool_calls,
            usage=ledger.usage,
            iterations=ledger.model_calls,
            duration=trio.current_time() - self._started,
            session_id=self._spec.node.session_id,
            run_id=self._spec.node.run_id,
            request_id=self._spec.request_id,
            cost=ledger.cost,
            output=self._output.of_result(),
            hook_events=tuple(self._record.hook_events),
            questions=self._suspension.questions,
            external_calls=self._suspension.external_calls,
            stop_details=ledger.stop_details,
            damaged_lines=ledger.damaged_lines,
        )

    # What others see of the run.

    def _info(self) -> RunInfo:
        return RunInfo(
            session_id=self._spec.node.session_id,
            run_id=self._spec.node.run_id,
            request_id=self._spec.request_id,
            iteration=self._ledger.model_calls,
            started_at=self._started_at,
            last_output=self._ledger.text,
            agent_name=self._options.agent_name or "",
        )

    def _on_progress(self, call_id: str, name: str, progress: JsonValue) -> None:
        if call_id not in self._calls:
            return  # a thread that was left behind still reports; its call has ended
        stamp = self._stamp
        event = ToolProgress(
            stamp.scope, stamp.ids.new(), stamp.wall_clock(), call_id, name, progress
        )
        self._record.offer(event)


class _Ended(Exception):
    """A hook ended the run: it leaves the turns, and closes as every run does."""

    def __init__(self, blocked: Blocked) -> None:
        super().__init__(blocked.why)
        self.blocked = blocked


def _split(commands: Sequence[Command]) -> tuple[list[Entry], list[Command]]:
    # Entries of one batch of events are committed together, before anything else is done.
    entries: list[Entry] = []
    others: list[Command] = []
    for command in commands:
        if isinstance(command, Append):
            entries.extend(command.entries)
        else:
            others.append(command)
    return entries, others


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
