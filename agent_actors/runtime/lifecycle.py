"""The actors of one runtime: construct them, run them in one task, and shut them down.

One task holds every actor and every run. The task is shielded from the caller's cancel scopes,
since actors must outlive the code that uses them. The task ends on `close()` or when an actor
crashes; pending callers then get `ActorCrashed`. This module knows nothing about prompts.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import trio

from agent_actors.abc import ResultStore
from agent_actors.actors.hook_bus import HookBus
from agent_actors.actors.kept_results import KeptResults
from agent_actors.actors.log_reader import LogReader
from agent_actors.actors.question_board import QuestionBoard
from agent_actors.actors.resources.checkpoints import Checkpointers
from agent_actors.actors.resources.session_resources import SessionResources
from agent_actors.actors.session_gate import SessionGate
from agent_actors.actors.session_log import STORE_TIMEOUT, SessionLog
from agent_actors.actors.tool_executor import ToolExecutor
from agent_actors.actors.tool_servers.servers import ToolServers
from agent_actors.domain.run import CancelReason, RunResult
from agent_actors.errors import ActorCrashed, RuntimeFailure
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.kernel.interrupts import finish, has_interrupt, without_interrupt
from agent_actors.kernel.observing import SafeInstrumentation
from agent_actors.kernel.request import Request
from agent_actors.permissions import GrantStore
from agent_actors.runs.hooks.session_hooks import SESSION_END_TIMEOUT, SessionHooks
from agent_actors.runs.services import RunServices
from agent_actors.runtime import wiring
from agent_actors.runtime.config import RuntimeOptions, RuntimeStatistics
from agent_actors.runtime.endpoints import Endpoints
from agent_actors.transport.reactor import set_read_tick

if TYPE_CHECKING:
    from agent_actors.abc import SessionStore
    from agent_actors.domain.ids import Ids

# Seconds that subscribers have to handle queued events when the runtime closes.
BUS_DRAIN: Final = 5.0
# Time limits, in seconds, for closing the store and the providers that were constructed here.
CLOSE_TIMEOUT: Final = 10.0
# Fencing numbers reserved each time a store is opened, so that no two openings share numbers.
_FENCES_PER_EPOCH: Final = 1 << 32


class Actors:
    """The actors of one runtime, with its clock and its id generator.

    Args:
        options: The options of the runtime.
        on_crash: Called when an actor has crashed and everything has stopped, or when Ctrl-C has
            interrupted user code.
    """

    # The error that stopped everything, if `close` did not; raised when the runtime is left.
    crash: BaseException | None = None
    # The Ctrl-C that interrupted user code; raised when the runtime is left.
    interrupt: BaseException | None = None
    # The reason why the store could not be opened.
    refused: Exception | None = None
    closing: bool = False

    def __init__(self, options: RuntimeOptions, on_crash: Callable[[], None]) -> None:
        self._read_tick = options.read_tick
        given = options.instrumentation
        self.instrumentation: SafeInstrumentation | None = (
            None if given is None else SafeInstrumentation(given)
        )
        self.ids: Ids = wiring.make_ids()
        self.wall_clock: Callable[[], float] = wiring.wall_clock
        self.chance: Callable[[], float] = wiring.chance
        self.gate: SessionGate = SessionGate()
        self.executor: ToolExecutor = ToolExecutor(
            self.wall_clock,
            tools_per_run=options.tools_per_run,
            tools_per_runtime=options.tools_per_runtime,
            threads=options.threads,
        )
        self.store: SessionStore = options.store or wiring.make_store()
        self.kept_results: KeptResults = KeptResults(
            self.store if isinstance(self.store, ResultStore) else None
        )
        self.bus: HookBus = HookBus(LogReader(self.store).read)
        self.log: SessionLog = SessionLog(
            self.store,
            self.ids,
            self.wall_clock,
            self.gate.is_busy,
            on_evicted=partial(self._session_left, reason="evicted"),
            on_deleted=partial(self._session_left, reason="deleted"),
            max_sessions=options.max_sessions,
            session_ttl=options.session_ttl,
        )
        self.endpoints: Endpoints = Endpoints(
            wiring.make_provider,
            wiring.provider_key,
            max_live=options.streams_per_endpoint,
            wall_clock=self.wall_clock,
            instrumentation=self.instrumentation,
        )
        self.session_hooks: SessionHooks = SessionHooks(self.wall_clock)
        self.questions: QuestionBoard = QuestionBoard()
        self.resources: SessionResources = SessionResources(
            wiring.make_workspace, self.ids, self.wall_clock, ttl=options.workspace_ttl
        )
        self.tool_servers: ToolServers = ToolServers(
            wiring.make_tool_server, ttl=options.workspace_ttl
        )
        self.checkpointers: Checkpointers = Checkpointers(wiring.make_checkpointer)
        self.memory: GrantStore = GrantStore(trio.current_time)
        self.services: RunServices = self._make_services()
        self.runs: ActorLoop = ActorLoop("runs")
        self.live: dict[str, Request[RunResult]] = {}
        self.runs_started: int = 0
        # Set when `serve` has started the actors, or has failed to start them.
        self.ready: trio.Event = trio.Event()
        self._on_crash = on_crash
        self._closed = trio.Event()
        # Limits the time that live runs may continue after closing has begun.
        self._drain = trio.CancelScope()
        self._services: trio.CancelScope | None = None
        self._owners = self._adopt_owners()

    def _adopt_owners(self) -> tuple[ActorLoop, ...]:
        owners = (
            self.runs,
            self.endpoints.owner,
            self.executor.owner,
            self.gate.owner,
            self.resources.owner,
            self.tool_servers.owner,
            self.log.owner,
            self.session_hooks.owner,
            self.bus.owner,
        )
        for owner in owners:
            owner.on_crash = self._tell_all
            owner.take_interrupt = self.take_interrupt
        return owners

    def _make_services(self) -> RunServices:
        return RunServices(
            gate=self.gate,
            log=self.log,
            reader=LogReader(self.store),
            bus=self.bus,
            executor=self.executor,
            kept_results=self.kept_results,
            endpoints=self.endpoints,
            questions=self.questions,
            grants=self.memory,
            resources=self.resources,
            checkpointers=self.checkpointers,
            tool_servers=self.tool_servers,
            make_project_files=wiring.make_project_files,
            session_hooks=self.session_hooks,
            inboxes={},
            ids=self.ids,
            wall_clock=self.wall_clock,
            chance=self.chance,
            take_interrupt=self.take_interrupt,
            instrumentation=self.instrumentation,
        )

    async def start_run(
        self,
        run_id: str,
        drive: Callable[[], Awaitable[RunResult]],
        *,
        cancel: Callable[[str], None],
        ended: Callable[[], None],
        in_order: bool,
    ) -> Request[RunResult]:
        """Start the driver of a run.

        Args:
            run_id: The id of the run.
            drive: Executes the run until its end.
            cancel: Called with the reason if the run must end early.
            ended: A sync function that is called after the run has ended, even if the run never
                began.
            in_order: True to begin after the runs that were started before this one. Required if
                the run competes with them for its session, because trio runs the tasks of one tick
                in any order.

        Raises:
            RuntimeClosed: The runtime has closed.
            ActorCrashed: An actor has crashed.

        Cancellation: safe; a cancelled call starts nothing.
        """
        request = Request(drive, on_cancel=cancel)
        self.live[run_id] = request
        self.runs_started += 1
        request.on_done(partial(self._forget, run_id, ended))
        try:
            if in_order:
                return await self.runs.submit(request)
            await trio.lowlevel.checkpoint_if_cancelled()
            self.runs.start(request)
            return request
        except BaseException:
            request.cancel(CancelReason.CALLER)
            raise

    async def serve(self) -> None:
        """Run every actor until `close`; the body of the runtime's only task.

        Sets `ready` after every actor has started. If the store cannot be opened, `refused` holds
        the reason, and `ready` is set after every actor has ended.
        """
        set_read_tick(self._read_tick)
        with trio.CancelScope(shield=True):
            try:
                async with trio.open_nursery() as services:
                    self._services = services.cancel_scope
                    for owner in self._owners:
                        await services.start(owner.serve)
                    self.refused = await self._open_log()
                    if self.refused is None:
                        self.ready.set()
                    else:
                        services.cancel_scope.cancel("not opened")
            except BaseException as error:  # noqa: ASYNC103, BLE001 - raised on leaving the runtime
                self._stop_with(error)
        self.ready.set()

    def abandon(self, reason: str) -> None:
        """Cancel every actor and every run at once, without a clean shutdown."""
        if self._services is not None:
            self._services.cancel(reason)

    def take_interrupt(self, error: BaseException) -> BaseException | None:
        """Take over the Ctrl-C that interrupted user code in a task of an actor or a run.

        The body of the runtime is cancelled, so that the runtime closes cleanly. Leaving the
        runtime then raises the interrupt.

        Returns:
            The rest of the error, without the interrupt; None if nothing else is left.
        """
        if has_interrupt(error) and self.interrupt is None:
            self.interrupt = KeyboardInterrupt()
            self.interrupt.__cause__ = error
            self._on_crash()
        return without_interrupt(error)

    async def close(self, drain: float) -> None:
        """Stop accepting root runs, wait for live runs, cancel the rest, and end every actor.

        Args:
            drain: Seconds to wait for live runs.

        Raises:
            Exception: The first error that closing the store or a provider raised. Its notes name
                the other errors. It is raised after everything else has been closed.

        Cancellation: stops waiting for live runs and cancels them; everything else is still closed.
        Idempotent. If several tasks call this method, the earliest deadline applies.
        """
        deadline = trio.current_time() + drain
        if self.closing and self.crash is None:
            self._drain.deadline = min(self._drain.deadline, deadline)
            try:
                await self._closed.wait()
            except BaseException:  # cancelled or interrupted
                self._drain.cancel("a closer was cancelled")
                raise
            return
        self.closing = True
        self._drain = trio.CancelScope(deadline=deadline)
        try:
            with self._drain:
                await self._join_runs()
        finally:
            # No deadline: the runtime is closed only after its tools have ended.
            with trio.CancelScope(shield=True):
                await self._close_all()

    def statistics(self) -> RuntimeStatistics:
        """Return a snapshot of all counters and gauges."""
        return RuntimeStatistics(
            runs=len(self.live),
            runs_started=self.runs_started,
            gate=self.gate.statistics(),
            tools=self.executor.statistics(),
            endpoints=self.endpoints.statistics(),
            log=self.log.statistics(),
            bus=self.bus.statistics(),
            resources=self.resources.statistics(),
            tool_servers=self.tool_servers.statistics(),
        )

    def _session_left(self, session_id: str, *, reason: str) -> None:
        self.session_hooks.end(session_id, reason)
        self.bus.session_left(session_id)
        self.memory.forget(session_id)
        if reason == "deleted":
            self.kept_results.forget(session_id)
            self.resources.forget(session_id)
            self.tool_servers.forget(session_id)
        self.questions.session_left(session_id)

    def _forget(self, run_id: str, ended: Callable[[], None]) -> None:
        del self.live[run_id]
        self.services.inboxes.pop(run_id, None)
        ended()

    async def _open_log(self) -> Exception | None:
        epoch = 0
        try:
            with trio.move_on_after(STORE_TIMEOUT) as deadline:
                epoch = await self.log.start()
            if deadline.cancelled_caught:
                return RuntimeFailure(f"the store did not open within {STORE_TIMEOUT:g} s")
        except Exception as error:  # noqa: BLE001 - raised, unwrapped, on entering the runtime
            return error
        self.gate.start_fences_at(epoch * _FENCES_PER_EPOCH)
        return None

    def _tell_all(self, failure: Exception) -> None:
        for owner in self._owners:
            owner.fail_with(failure)
        self.endpoints.fail_with(failure)

    def _stop_with(self, error: BaseException) -> None:
        self.closing = True
        members = _flat(error)
        if any(isinstance(member, KeyboardInterrupt) for member in members):
            self.crash = KeyboardInterrupt()
        else:
            names = {member.actor for member in members if isinstance(member, ActorCrashed)}
            self.crash = ActorCrashed(", ".join(sorted(names)) or "of the runtime")
        self.crash.__cause__ = error
        self._on_crash()

    async def _join_runs(self) -> None:
        while self.live:
            await next(iter(self.live.values())).wait_done()

    async def _close_all(self) -> None:
        failures: list[Exception] = []
        done = trio.Event()
        interrupt: KeyboardInterrupt | None = None
        try:
            # Close in a separate task: trio raises Ctrl-C in the main task, even inside a shielded
            # scope, and the current task may be the main task.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._close_apart, failures, done)
                try:
                    await finish(done.wait)
                except KeyboardInterrupt as error:
                    interrupt = error
                    if not done.is_set():
                        self.abandon("interrupted twice")
        finally:
            self.questions.end()
            self._closed.set()
        if interrupt is not None:
            raise interrupt
        for failure in failures[1:]:
            failures[0].add_note(f"and: {type(failure).__name__}: {failure}")
        if failures:
            raise failures[0]

    async def _close_apart(self, failures: list[Exception], done: trio.Event) -> None:
        try:
            with trio.CancelScope(shield=True):
                await self._close_inward(failures)
        finally:
            done.set()

    async def _close_inward(self, failures: list[Exception]) -> None:
        for request in tuple(self.live.values()):
            request.cancel(CancelReason.SHUTDOWN)
        await self._join_runs()
        await _end(self.runs)
        await _attempt(self.endpoints.aclose, failures)
        await _end(self.endpoints.owner)
        await _end(self.executor.owner)
        await self.resources.aclose()  # every step has a time limit
        await _end(self.resources.owner)
        await self.tool_servers.aclose()  # every step has a time limit
        await _end(self.tool_servers.owner)
        await _end(self.gate.owner)
        with trio.move_on_after(SESSION_END_TIMEOUT):
            await self.session_hooks.end_all()
        await _end(self.session_hooks.owner)
        with trio.move_on_after(BUS_DRAIN):
            await self.bus.drain()  # while the log can still be read
        await _end(self.log.owner)
        await _attempt(self.log.aclose, failures)
        await _end(self.bus.owner)


async def _attempt(close: Callable[[], Awaitable[None]], failures: list[Exception]) -> None:
    try:
        with trio.move_on_after(CLOSE_TIMEOUT):
            await close()
    except Exception as error:  # noqa: BLE001 - raised after everything else has been closed
        failures.append(error)


async def _end(owner: ActorLoop) -> None:
    owner.close()
    await owner.ended.wait()


def _flat(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for member in group.exceptions for leaf in _flat(member)]
