"""Client: a conversation with an agent, a turn at a time.

A turn is a run of the runtime, read as blocks; the client owns a runtime of its own, or takes
yours. It keeps no history: that is the session's, and so is which calls are open. It knows its
turn, the task that reads it, and a conversation that was put in the session's place and is not on
record yet. Between turns no task of it is alive.

One task uses a client at a time. Two that meet in it are told so, instead of mixing their turns;
only `interrupt` and `add_tool_result` are for any task.
"""

import math
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import attrs
import trio

from agent_actors.client.client_messages import ClientMessages
from agent_actors.client.content_stream import FaceBlock
from agent_actors.client.session import (
    ClientSession,
    SessionView,
    client_spec,
    open_client_session,
    view_of,
)
from agent_actors.client.turn import ClientTurn
from agent_actors.codec.message_merge import messages_rewritten
from agent_actors.codec.openai_messages import MessageDict, messages_to_openai
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.run import RunResult
from agent_actors.domain.session import session_id_fault
from agent_actors.errors import ClientError, ConfigError, SessionError, TurnLimitReached
from agent_actors.options.agent_options import AgentOptions, as_agent
from agent_actors.protocol.turn import UserInput
from agent_actors.run.prompt import Prompt, user_input
from agent_actors.run.spec import HistoryReplacement
from agent_actors.runtime.runtime import Runtime, open_runtime
from agent_actors.sessions.records import seen_after
from agent_actors.tools.output import to_output

if TYPE_CHECKING:
    from agent_actors.run.context import RunContext

_NEW: Final = SessionView(Messages(), (), is_new=True)
_GO_ON: Final = UserInput("")
_INTERRUPTED: Final = "the caller interrupted the turn before this call had a result"


@attrs.define(eq=False)
class _Turn:
    """A turn, and who uses it."""

    run: ClientTurn
    begun_by: trio.lowlevel.Task
    read_by: trio.lowlevel.Task | None = None


class Client:
    """A conversation with an agent; for `async with`.

    Example:
        ```python
        async with Client(options) as client:
            await client.query("What is 6 times 7?")
            async for block in client.receive_messages():
                ...
        ```

    With `auto_execute_tools=False` (the default) you carry out the calls: read a turn to its end,
    `await client.add_tool_result(...)` for each `ToolUseBlock`, then `await client.continue_turn()`
    and read on. With `True` tools run by themselves until the model answers without a call.

    Args:
        options: The agent.
        runtime: Where to run; None: a runtime of its own, which ends with the client.
        resume: A session to go on with; it has to be there.
        session_id: A name for the session; it may be there, and need not.

    Raises:
        ConfigError: `resume` and `session_id` name two sessions or none, or the options are none.
    """

    def __init__(
        self,
        options: AgentOptions[object],
        *,
        runtime: Runtime | None = None,
        resume: str | None = None,
        session_id: str | None = None,
    ) -> None:
        if resume is not None and session_id not in (None, resume):
            raise ConfigError(
                f"resume={resume!r} and session_id={session_id!r} name two sessions; pass one"
            )
        named = resume or session_id  # an empty one is a new session, as everywhere
        if named and (fault := session_id_fault(named)) is not None:
            raise ConfigError(fault)
        self._options = as_agent(options)
        self._given = runtime
        self._resume = resume
        self._wanted = session_id
        self._owned: Runtime | None = None
        self._session: ClientSession | None = None
        self._runtime: Runtime | None = None
        self._left = False
        self._turn: _Turn | None = None
        self._last: SessionView = _NEW
        self._result: RunResult | None = None
        # How often turns were begun and read.
        self._begun = self._read = 0
        self._run: RunContext | None = None
        self._inside = ""
        self._adding: set[str] = set()
        self._add_lock = trio.Lock()
        self._replacement: HistoryReplacement | None = None
        self._head: Message | None = None

    # What it knows.

    @property
    def session_id(self) -> str:
        """The session.

        Raises:
            ClientError: The client was never entered.
        """
        return self._entered().session_id

    @property
    def history(self) -> list[MessageDict]:
        """The conversation so far, as dicts of OpenAI's chat completions; a copy.

        It is valid at any time: calls without a result stand there with one that says so. The
        system prompt of the options is not in it.
        """
        head = () if self._head is None else (self._head,)
        return messages_to_openai((*head, *self._view().messages))

    @property
    def message_history(self) -> list[MessageDict]:
        """The same; what is assigned to it is the conversation from here on.

        It is put on record with the next prompt or result. A system message at its head is sent in
        place of the options' system prompt.

        Raises:
            MessageError: On assigning: it is no conversation; names the message.
            ClientError: On assigning: a turn is under way.
        """
        return self.history

    @message_history.setter
    def message_history(self, messages: Iterable[Mapping[str, object]]) -> None:
        self._check_between_turns("a history is set")
        # What comes back as it was keeps what dicts cannot hold, such as the seals of thoughts.
        read = messages_rewritten(self._view().messages, messages)
        head = read[0] if read and read[0].role == "system" else None
        replaces = read if head is None else read[1:]
        seen_after(replaces)  # refuses what no session can hold, before anything is changed
        self._head, self._replacement = head, HistoryReplacement(replaces)

    @property
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls that wait for `add_tool_result`, also those from before a `resume=`, in order.

        None while a turn is under way.
        """
        if self._turn is not None and not self._turn.run.left:
            return ()
        waiting = (call for call in self._view().open_calls if call.id not in self._adding)
        return tuple(map(self._as_handed, waiting))

    @property
    def turn_count(self) -> int:
        """How many turns were read."""
        return self._read

    @property
    def turn_metadata(self) -> dict[str, int]:
        """The turns so far, as `{"turn_count": n}`."""
        return {"turn_count": self._read}

    @property
    def result(self) -> RunResult | None:
        """What the last turn came to, with its stop reason and usage.

        None before its end, and if it failed.
        """
        return self._result

    # Using it.

    async def query(self, prompt: Prompt) -> None:
        """Say something; the answer is read with `receive_messages`.

        An empty text goes on without a word, as `continue_turn` does. A turn that was not read to
        its end is ended first, as leaving it early does; calls that are open are closed.

        Raises:
            PromptBlocked: A hook refused the prompt; nothing was sent.
            TurnLimitReached: The client has made its `max_turns`.
            ClientError: Another task has a turn under way.
            ConfigError: The prompt says nothing, and is not an empty text.
            SessionBusy: Somebody else runs on the session.
            AgentError: What a turn failed with that is ended here and that nobody had read.

        Cancellation: nothing was sent, or the turn was ended.
        """
        if prompt == "":
            await self.continue_turn()
        else:
            await self._begin(user_input(prompt), "query")

    async def continue_turn(self) -> None:
        """Have the model asked with the conversation as it stands, and no word of the user.

        After tool results, or to try again after an error. No `user_prompt_submit` fires.

        Raises:
            ClientError: A call has no result yet, there is nothing to go on with, or another task
                has a turn under way.
            TurnLimitReached: The client has made its `max_turns`.
            SessionBusy: Somebody else runs on the session.

        Cancellation: as `query`.
        """
        await self._begin(_GO_ON, "continue_turn")

    def receive_messages(self) -> ClientMessages:
        """The blocks of the turn that `query` or `continue_turn` began, as they stream.

        `TextBlock` and `ThinkingBlock` hold what is new; a `ToolUseBlock` is whole. A call that
        cannot be carried out, was refused or failed is a `ToolUseError`. Where tools run by
        themselves, a `ToolResultBlock` follows each call.

        Raises:
            ClientError: No turn was begun, or the last one was read.
        """
        turn = self._turn
        if turn is None or (turn.run.done and turn.read_by is not None):
            raise ClientError("there is nothing to receive; call query() first")
        return ClientMessages(partial(self._next, turn))

    async def add_tool_result(
        self,
        tool_call_id: str,
        content: object,
        name: str | None = None,
        is_error: bool = False,
    ) -> None:
        """Give a call its result; it is on record when this returns.

        Tasks may add results at once. The `post_tool_use` hooks see it first.

        Args:
            tool_call_id: The `id` of the `ToolUseBlock`.
            content: Text stays text; dicts, lists and other JSON become JSON; a `ToolOutput` may
                say more.
            name: The tool's name; by default that of the call.
            is_error: Whether the call failed.

        Raises:
            ClientError: There is no such call, it has a result, or the name is another's.
            TypeError: The content is no JSON.
            HookError: A hook failed; the call is still open.
            PromptBlocked: A hook stopped the conversation; the result is on record.
            SessionError: It could not be recorded.

        Cancellation: the call is still open then, or its result is on record.
        """
        session = self._usable()
        self._check_between_turns("a result is added")
        output = to_output(content)
        if is_error:
            output = attrs.evolve(output, is_error=True)
        call = self._open_call(tool_call_id, name)
        self._adding.add(tool_call_id)
        try:
            async with self._add_lock:
                self._last = await session.answer(
                    call, output, self._options, self._run, self._replaces
                )
                self._replacement = None
        finally:
            self._adding.discard(tool_call_id)

    async def interrupt(self) -> None:
        """End the turn that is under way, from any task; calls that are open are closed.

        What was said so far is on record, and the history is valid. Nothing happens between turns.

        Cancellation: the turn ends all the same.
        """
        session, turn = self._usable(), self._turn
        if turn is not None and not turn.run.left:
            await turn.run.interrupt()
        elif self._view().open_calls and not self._adding:
            self._last = await session.close_calls(_INTERRUPTED, self._replaces)
            self._replacement = None

    async def __aenter__(self) -> Self:
        """Open the conversation.

        Raises:
            SessionError: There is no session of the name to resume, or it cannot be read.
            RuntimeClosed: The runtime is closed.
        """
        if self._session is not None:
            raise ClientError("a client is entered once; make another")
        if self._given is None:
            # Its one session is in use as long as the client is, however long nobody speaks.
            self._owned = open_runtime(session_ttl=math.inf)
            await self._owned.__aenter__()
        try:
            await self._open(self._given or self._owned)
        except BaseException as error:
            if self._owned is not None:
                await self._owned.__aexit__(type(error), error, error.__traceback__)  # noqa: ASYNC102
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        raised = exc
        try:
            if self._turn is not None:
                await self._turn.run.leave(exc_type, exc, traceback)  # noqa: ASYNC102 - it shields
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised when the runtime is left
            raised = error
        self._keep_view()
        self._left = True
        if self._owned is not None:
            kind = None if raised is None else type(raised)
            trace = None if raised is None else raised.__traceback__
            await self._owned.__aexit__(kind, raised, trace)  # noqa: ASYNC102 - it shields
        if raised is not None and raised is not exc:
            raise raised  # noqa: ASYNC104

    async def _open(self, runtime: Runtime | None) -> None:
        assert runtime is not None
        session = open_client_session(runtime, self._resume or self._wanted)
        if self._resume is not None or self._wanted is not None:
            self._last = await session.look()
            if self._resume is not None and self._last.is_new:
                raise SessionError("there is nothing to resume", session_id=self._resume)
        self._session, self._runtime = session, runtime

    # A turn.

    async def _begin(self, said: UserInput, doing: str) -> None:
        session = self._usable()
        self._enter(doing)
        try:
            self._check_may_begin()
            if self._turn is not None:
                turn, self._turn = self._turn, None
                await turn.run.leave()
                self._keep_view()
            if said is _GO_ON:
                self._check_may_go_on()
            await self._start(session, said)
        finally:
            self._inside = ""

    async def _start(self, session: ClientSession, said: UserInput) -> None:
        assert self._runtime is not None
        pending = self._replaces
        self._replacement = None if pending is None else HistoryReplacement(pending)
        spec = client_spec(
            self._runtime, session.session_id, said, self._agent(), self._replacement
        )
        run = ClientTurn(self._runtime.stream_spec(spec), spec)
        self._result = None
        self._turn = _Turn(run, trio.lowlevel.current_task())
        try:
            await run.begin(admitted=said is not _GO_ON)
        except BaseException:
            self._turn, self._result = None, run.result
            raise
        self._begun += 1
        self._run = run.context

    async def _next(self, turn: _Turn) -> FaceBlock | None:
        if turn is not self._turn:
            return None  # a later turn has ended it
        task = trio.lowlevel.current_task()
        if turn.read_by is None:
            turn.read_by = task
            self._read += 1
        elif turn.read_by is not task:
            raise ClientError(f"task {turn.read_by.name} reads this turn; a turn has one reader")
        self._enter("receive_messages")
        try:
            return await turn.run.next()
        finally:
            self._inside = ""
            if turn.run.left:
                self._result = turn.run.result
                self._keep_view()

    def _agent(self) -> AgentOptions:
        if self._head is None:
            return self._options
        return attrs.evolve(self._options, system_prompt=self._head.content)

    def _check_may_begin(self) -> None:
        turn, task = self._turn, trio.lowlevel.current_task()
        if turn is not None and not turn.run.done and task not in (turn.begun_by, turn.read_by):
            raise ClientError(
                f"task {turn.begun_by.name} has a turn under way; give each task a client of its "
                "own, or read the turn to its end, or interrupt it, first"
            )
        if self._adding:
            raise ClientError(f"the result of call {min(self._adding)!r} is still being added")
        most = self._options.max_turns
        if most is not None and self._begun >= most:
            raise TurnLimitReached(most)

    def _check_may_go_on(self) -> None:
        view = self._view()
        if view.open_calls:
            ids = ", ".join(f"{call.name} ({call.id})" for call in view.open_calls)
            raise ClientError(
                f"these calls have no result: {ids}; call add_tool_result() for each, or close "
                "them with a new prompt"
            )
        if not view.messages:
            raise ClientError("there is nothing to go on with; say something with query() first")

    def _open_call(self, call_id: str, name: str | None) -> ToolUseBlock:
        if call_id in self._adding:
            raise ClientError(f"the result of call {call_id!r} is being added already")
        view = self._view()
        call = next((call for call in view.open_calls if call.id == call_id), None)
        if call is None:
            answered = any(message.tool_call_id == call_id for message in view.messages)
            what = "has a result" if answered else "is not known"
            known = ", ".join(call.id for call in view.open_calls) or "none"
            raise ClientError(f"call {call_id!r} {what}; open are: {known}")
        if name is not None and name != call.name:
            raise ClientError(f"call {call_id!r} is one of {call.name!r}, not of {name!r}")
        return self._as_handed(call)

    def _as_handed(self, call: ToolUseBlock) -> ToolUseBlock:
        # As hooks rewrote it, where it was handed out here.
        return call if self._run is None else self._run.client_calls.get(call.id, call)

    # Keeping it in order.

    def _enter(self, doing: str) -> None:
        if self._inside:
            raise ClientError(
                f"{doing}() was called while another task is in {self._inside}(); a client is for "
                "one task at a time, give each its own"
            )
        self._inside = doing

    def _check_between_turns(self, when: str) -> None:
        turn = self._turn
        if turn is not None and not turn.run.left:
            raise ClientError(
                f"a turn is under way; read it to its end, or interrupt it, before {when}"
            )

    def _entered(self) -> ClientSession:
        if self._session is None:
            raise ClientError("enter it first: `async with Client(options) as client:`")
        return self._session

    def _usable(self) -> ClientSession:
        if self._left:
            raise ClientError("the client was left; make another, with resume= to go on")
        return self._entered()

    @property
    def _replaces(self) -> Messages | None:
        replacement = self._replacement
        return None if replacement is None or replacement.recorded else replacement.messages

    def _view(self) -> SessionView:
        if self._replaces is not None:
            return view_of(seen_after(self._replaces))
        if self._session is None or self._left:
            return self._last
        return self._session.view() or self._last

    def _keep_view(self) -> None:
        """Remember the session as it stands: a runtime may let it go from memory."""
        self._last = self._entered().view() or self._last
