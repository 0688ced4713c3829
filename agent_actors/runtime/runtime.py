"""The runtime: the face of everything, and the order in which runs begin.

`open_runtime()` starts one task that holds the actors (`runtime/lifecycle.py`); runs are workers on
them and end in their own scopes. Should an actor break, the body of the `async with` is cancelled
and `ActorCrashed` is raised, bare, where it is left.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, cast

import attrs
import trio

from agent_actors.abc import SessionStore
from agent_actors.actors.hook_bus import DEFAULTS, SubscriptionOptions
from agent_actors.actors.model_stream import MAX_LIVE_STREAMS
from agent_actors.actors.question_board import Answer
from agent_actors.actors.run_tree import RunNode, current_call, current_run, lending
from agent_actors.actors.session_gate import OnBusy
from agent_actors.actors.session_log import MAX_SESSIONS, SESSION_TTL
from agent_actors.actors.tool_executor import (
    THREADS_PER_RUNTIME,
    TOOLS_PER_RUN,
    TOOLS_PER_RUNTIME,
)
from agent_actors.domain.run import RunResult
from agent_actors.domain.session import session_id_fault
from agent_actors.errors import ConfigError, RuntimeClosed, RuntimeFailure
from agent_actors.options.agent_options import AgentOptions, as_agent
from agent_actors.protocol.turn import UserInput
from agent_actors.run.context import RunContext, current_context
from agent_actors.run.driver import Driver
from agent_actors.run.output.event_mailbox import EventMailbox
from agent_actors.run.prompt import Prompt, user_input
from agent_actors.run.services import RunServices
from agent_actors.run.spec import RunSpec
from agent_actors.run.tools.deferred_calls import as_outputs
from agent_actors.runtime.config import (
    DRAIN,
    RuntimeOptions,
    RuntimeStatistics,
    check_policy,
)
from agent_actors.runtime.current import current_runtime, trio_around
from agent_actors.runtime.lifecycle import Actors
from agent_actors.runtime.questions import Asked
from agent_actors.runtime.sessions.admin import Stored
from agent_actors.runtime.sessions.control import Busy
from agent_actors.runtime.stream import RunStream, StartedRun, outcome_of
from agent_actors.runtime.subscriptions import Observed

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

OutputT = TypeVar("OutputT")


class Runtime(Observed, Busy, Asked, Stored):
    """Runs agents: many sessions at once, one run a session. Made by `open_runtime`.

    Enter it with `async with`; it belongs to that task's `trio.run` and to no other.
    """

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options
        self._body = trio.CancelScope()
        self._actors = Actors(options, on_crash=partial(self._body.cancel, "actor crashed"))
        # Made on entering: a runtime may be built before there is a trio run.
        self._nursery_manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._around: Runtime | None = None

    # Running.

    async def run(
        self,
        prompt: Prompt,
        options: AgentOptions[OutputT],
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        on_busy: OnBusy | None = None,
        model: str | None = None,
        tool_whitelist: Sequence[str] | None = None,
    ) -> RunResult[OutputT]:
        """Run an agent on a session until it has an answer.

        Args:
            prompt: What the user says: text, or texts, images and files in a sequence; not blank.
            options: The agent.
            session_id: The session to go on with; None: a new one, whose id is in the result.
            request_id: Stands on every event and in the result; None: one is made.
            on_busy: What to do if the session is held; None: the runtime's `on_busy`.
            model: The model to ask in place of the options'; None: theirs.
            tool_whitelist: The only tools that this run is offered, by name; None: all of the
                agent's. A name that no tool has adds none.

        Raises:
            ConfigError: The prompt or the model is blank, the policy is none, or the id names none.
            MediaError: An image or a file of the prompt has no sound source.
            SessionBusy: The session is held, and the policy is `reject`.
            ProviderError: The model's side failed; the session stays usable.
            RunStopped: The run was ended from outside.
            RuntimeClosed: The runtime takes no more runs.

        Cancellation: ends the run in order and returns only when nothing of it is alive: its
        tools have finished their `finally`, its connection is closed, the history is valid and
        committed. A result that was reached is returned.
        """
        asked = _with_model(options, model)
        spec = self._spec(
            prompt, asked, session_id, request_id, on_busy, tool_whitelist=tool_whitelist
        )
        request = (await self._start(spec, None)).request
        async with lending(current_call.get()):
            # The options named the type, and the run checked it.
            return cast("RunResult[OutputT]", await outcome_of(request))

    def stream(
        self,
        prompt: Prompt,
        options: AgentOptions[OutputT],
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        on_busy: OnBusy | None = None,
        model: str | None = None,
        tool_whitelist: Sequence[str] | None = None,
    ) -> RunStream[OutputT]:
        """The same as `run`, with its events to read meanwhile.

        Use it as `async with runtime.stream(...) as events:` and iterate over `events`. Leaving
        the block early cancels the run (`reader_left`), joins and commits it.

        Args:
            prompt: What the user says: text, or texts, images and files in a sequence; not blank.
            options: The agent.
            session_id: The session to go on with; None: a new one.
            request_id: Stands on every event; None: one is made.
            on_busy: What to do if the session is held; None: the runtime's `on_busy`.
            model: The model to ask in place of the options'; None: theirs.
            tool_whitelist: The only tools that this run is offered, by name; None: all of the
                agent's. A name that no tool has adds none.

        Raises:
            ConfigError: The prompt or the model is blank, the policy is none, or the id names none.
                What `run` raises besides is raised on entering, on iterating or on leaving.
        """
        asked = _with_model(options, model)
        spec = self._spec(
            prompt, asked, session_id, request_id, on_busy, tool_whitelist=tool_whitelist
        )
        return RunStream(partial(self._start, spec), EventMailbox(options.reader_stall))

    # Asking people.

    async def resume(
        self,
        session_id: str,
        answers: Mapping[str, Answer],
        options: AgentOptions[OutputT],
        *,
        results: Mapping[str, object] | None = None,
        request_id: str | None = None,
    ) -> RunResult[OutputT]:
        """Go on with a session whose last run ended with `awaiting_approval`.

        Args:
            session_id: The session.
            answers: By the ids of `result.questions`; those that are left out are asked again.
            options: The agent.
            results: By the ids of `result.external_calls`, what came of them: whatever a tool may
                return, a `ToolOutput`, a `ToolResultBlock`, or an exception where it failed. Those
                that are left out stay open: the run ends with them again, when all else is done.
            request_id: Stands on every event and in the result; None: one is made.

        Raises:
            ConfigError: A result cannot be told to a model, and nothing has begun; or an answer is
                none to its question, and the session waits as before.
            SessionSuspended: The session waits for nothing.
            QuestionClosed: It does not wait for one of these answers.
            CallClosed: It does not wait for one of these results.
            AgentError: What `run` raises besides.

        Cancellation: as `run`.
        """
        given = as_outputs(results)
        spec = self._spec("resume", _with_model(options, None), session_id, request_id, "reject")
        spec = attrs.evolve(spec, prompt=UserInput(""), answers=dict(answers), results=given)
        request = (await self._start(spec, None)).request
        async with lending(current_call.get()):
            return cast("RunResult[OutputT]", await outcome_of(request))

    @property
    def is_open(self) -> bool:
        """True from its opening, in this trio run, until it begins to close."""
        return (
            self._token is not None
            and trio.lowlevel.in_trio_run()
            and self._token is trio.lowlevel.current_trio_token()
            and not self._actors.closing
        )

    def statistics(self) -> RuntimeStatistics:
        """A snapshot."""
        return self._actors.statistics()

    # Opening and closing.

    async def __aenter__(self) -> Self:
        """Start the actors.

        Raises:
            RuntimeFailure: It was entered before.
            SessionStoreError: The store cannot be used.
        """
        if self._token is not None:
            raise RuntimeFailure("a runtime is opened once; call open_runtime() again")
        self._token = trio_around()
        self._nursery_manager = trio.open_nursery()
        nursery = await self._nursery_manager.__aenter__()
        self._body.__enter__()
        # Bounded by the store's deadline. Left half way, the actors' task, which no cancel of ours
        # reaches, would stay; a cancel comes at the body's first checkpoint.
        failure: Exception | None = None
        with trio.CancelScope(shield=True):
            failure = await nursery.start(self._actors.serve)
        if failure is not None:
            self._actors.closing = True
            self._body.__exit__(None, None, None)
            await self._nursery_manager.__aexit__(None, None, None)
            raise failure
        self._around = current_runtime.get()
        current_runtime.set(self)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._nursery_manager is not None
        if current_runtime.get() is self:  # else it was entered in another context, as fixtures are
            current_runtime.set(self._around)
        closing: BaseException | None = None
        try:
            # A body that failed or was cancelled waits for nobody. Closing sees to its own shields.
            await self._actors.close(self._options.drain if exc is None else 0.0)  # noqa: ASYNC102
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised below, once all is left
            closing = error
        left = self._leave_body(exc_type, exc, traceback)
        # Its one task has ended, so this waits for nobody.
        await self._nursery_manager.__aexit__(None, None, None)  # noqa: ASYNC102
        self._raise_first(exc, left, self._actors.crash, closing)

    def _leave_body(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> BaseException | None:
        # What is left of the body's exception. Only a crash cancels the body, and it is raised in
        # the place of what is absorbed here; of a group, the other members remain.
        try:
            absorbed = self._body.__exit__(exc_type, exc, traceback)
        except BaseException as rest:  # noqa: ASYNC103, BLE001 - raised when all is left
            return rest  # noqa: ASYNC104
        return None if absorbed else exc

    @staticmethod
    def _raise_first(
        exc: BaseException | None,
        left: BaseException | None,
        crash: BaseException | None,
        closing: BaseException | None,
    ) -> None:
        for failure in (crash, closing):
            # An interrupt is nobody's to lose; what it has broken on its way is no news.
            if isinstance(failure, KeyboardInterrupt) and (
                left is None or isinstance(left, Exception)
            ):
                raise failure
        if left is not None:
            for failure in (crash, closing):
                if isinstance(failure, Exception):
                    left.add_note(f"and the runtime failed: {failure}")
            if left is not exc:
                raise left
            return
        for failure in (crash, closing):
            if failure is not None:
                raise failure

    async def aclose(self, *, drain: float | None = None) -> None:
        """Close: refuse new root runs, wait for live ones, cancel what is left, end every actor.

        Args:
            drain: Seconds to wait for live runs; None: the runtime's `drain`.

        Raises:
            RuntimeError: Called from inside one of this runtime's own runs or session hooks.

        Cancellation: the wait for live runs ends, and they are cancelled; the rest is done all
        the same. Idempotent.
        """
        if self._live_around(current_run.get()) or self._actors.session_hooks.are_around:
            raise RuntimeError(
                "a tool cannot close the runtime that runs it, nor can a hook: it would wait for "
                "itself; let the caller of the run close it"
            )
        self._check_token()
        await self._actors.close(self._options.drain if drain is None else drain)

    # Starting a run.

    @property
    def services(self) -> RunServices:
        """What runs use of this runtime; for `Client` and `query()`.

        Raises:
            RuntimeClosed: The runtime is closed.
        """
        self._check_open()
        return self._actors.services

    @property
    def default_on_busy(self) -> OnBusy:
        """The policy for sessions that another run holds, unless a request names one."""
        return self._options.on_busy

    def stream_spec(self, spec: RunSpec) -> RunStream:
        """Return the stream of a run that begins when the stream is entered; for `Client`."""
        return RunStream(partial(self._start, spec), EventMailbox(spec.options.reader_stall))

    def _spec(
        self,
        prompt: Prompt,
        options: AgentOptions,
        session_id: str | None,
        request_id: str | None,
        on_busy: OnBusy | None,
        *,
        tool_whitelist: Sequence[str] | None = None,
    ) -> RunSpec:
        said = user_input(prompt)
        policy = self._options.on_busy if on_busy is None else on_busy
        check_policy(policy)
        ids = self._actors.ids
        if session_id and (fault := session_id_fault(session_id)) is not None:
            raise ConfigError(fault)
        if isinstance(tool_whitelist, str):
            raise ConfigError(f"tool_whitelist is a list of names; got {tool_whitelist!r}")
        return RunSpec(
            said, options, session_id or ids.new(), request_id or ids.new(), policy, tool_whitelist
        )

    async def _start(self, spec: RunSpec, mailbox: EventMailbox | None) -> StartedRun:
        self._check_token()
        actors = self._actors
        parent = current_run.get()
        around = self._live_around(parent)
        if actors.closing and not around:
            raise RuntimeClosed
        run_id = actors.ids.new()
        held = current_call.get() if around else None
        context = RunContext(
            spec=spec,
            services=actors.services,
            node=RunNode(spec.session_id, run_id, self, parent, current_call.get()),
            parent=current_context.get(),
            parent_tool_use_id=held.call_id if held else None,
            ancestors=tuple(node.session_id for node in around),
            mailbox=mailbox,
        )
        driver = Driver(context)
        if spec.on_busy == "reject" or not actors.gate.is_busy(spec.session_id):
            driver.acquire_nowait()
        actors.services.inboxes[run_id] = context.inbox
        request = await actors.start_run(
            run_id, driver.drive, cancel=driver.cancel, ended=driver.release
        )
        return StartedRun(request, context)

    def _live_around(self, node: RunNode | None) -> list[RunNode]:
        # A context can outlive its run; only runs that are alive hold sessions or wait for us.
        if node is None:
            return []
        return [n for n in node.lineage() if n.runtime is self and n.run_id in self._actors.live]

    def _check_open(self) -> None:
        self._check_token()
        if self._actors.closing:
            raise RuntimeClosed

    def _check_token(self) -> None:
        if self._token is None:
            raise RuntimeFailure(
                "the runtime is not open; use `async with open_runtime() as runtime:`"
            )
        if self._token is not trio.lowlevel.current_trio_token():
            raise RuntimeFailure("the runtime belongs to another trio.run(); open one in each")


def _with_model(options: AgentOptions[object], model: str | None) -> AgentOptions:
    # Only the face tells the output's type: inside, nothing depends on it.
    asked = as_agent(options)
    if model is None:
        return asked
    if not model.strip():
        raise ConfigError("the model is blank; pass its name, or None for that of the options")
    return attrs.evolve(asked, model=model)


def open_runtime(
    *,
    store: SessionStore | None = None,
    drain: float = DRAIN,
    on_busy: OnBusy = "reject",
    max_sessions: int = MAX_SESSIONS,
    session_ttl: float = SESSION_TTL,
    tools_per_run: int = TOOLS_PER_RUN,
    tools_per_runtime: int = TOOLS_PER_RUNTIME,
    threads: int = THREADS_PER_RUNTIME,
    streams_per_endpoint: float = MAX_LIVE_STREAMS,
    subscriptions: SubscriptionOptions = DEFAULTS,
) -> Runtime:
    """Make a runtime, to be entered with `async with`.

    Args:
        store: Where session logs are kept; None: in memory.
        drain: Seconds that closing waits for runs before it cancels them.
        on_busy: What a second run on a session does: `reject` raises `SessionBusy`; `queue` waits
            in line; `interrupt` stops the first and keeps what that had finished; `rollback` stops
            it, and what it put on record counts no longer; `steer` speaks to it.
        max_sessions: Sessions in memory; beyond it the longest unused goes.
        session_ttl: Seconds that an idle session stays in memory.
        tools_per_run: Calls of one run that may run at once.
        tools_per_runtime: Calls of all runs that may run at once.
        threads: Sync tools that may run at once.
        streams_per_endpoint: Streams of one endpoint that may be live at once; `math.inf`: any.
        subscriptions: How observers wait that do not say otherwise.

    Raises:
        ConfigError: Naming the option, what was expected and what came.
    """
    return Runtime(
        RuntimeOptions(
            store=store,
            drain=drain,
            on_busy=on_busy,
            max_sessions=max_sessions,
            session_ttl=session_ttl,
            tools_per_run=tools_per_run,
            tools_per_runtime=tools_per_runtime,
            threads=threads,
            streams_per_endpoint=streams_per_endpoint,
            subscriptions=subscriptions,
        )
    )
