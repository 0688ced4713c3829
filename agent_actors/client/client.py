# size: one public object; most lines are docstrings of its methods
"""Client: a conversation with an agent, one turn at a time.

A turn is one run, read as blocks. The session holds the history and the open tool calls. The client
only holds its current turn, and an assigned conversation that is not recorded yet. Between turns, a
client has no running tasks.

Only one task may use a client at a time; any other task gets a `ClientError`. The exceptions are
`interrupt` and `add_tool_result`, which may be called from any task.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

import attrs
import trio

from agent_actors.client.content_stream import StreamBlock
from agent_actors.client.session import (
    ClientSession,
    SessionView,
    open_client_session,
    view_of,
)
from agent_actors.client.turn import ClientTurn
from agent_actors.codec.message_merge import messages_rewritten
from agent_actors.codec.openai_messages import MessageDict, messages_to_openai
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.run import Partial, RunResult
from agent_actors.domain.session import find_session_id_error
from agent_actors.errors import (
    ClientError,
    ConfigError,
    PromptBlocked,
    SessionError,
    TurnLimitReached,
)
from agent_actors.kernel.user_code import Caller, current_caller
from agent_actors.options.agent_options import AgentOptions, as_agent
from agent_actors.protocol.turn import UserInput
from agent_actors.runs.prompt import Prompt, user_input
from agent_actors.runs.spec import HistoryReplacement
from agent_actors.runtime.runtime import Runtime, open_runtime
from agent_actors.sessions.records import seen_after
from agent_actors.tools.output import to_output

if TYPE_CHECKING:
    from agent_actors.runs.context import RunContext

_NEW: Final = SessionView(Messages(), (), is_new=True)
_CONTINUE: Final = UserInput("")
_INTERRUPTED: Final = "the caller interrupted the turn before this call had a result"


@attrs.define(eq=False)
class _Turn:
    """A turn and the tasks that use it."""

    run: ClientTurn
    begun_by: Caller
    read_by: Caller | None = None


DepsT = TypeVar("DepsT")


class ClientMessages:
    """The blocks of one turn, in order; for one `async for`.

    Args:
        take: Returns the next block; None after the last one.
    """

    def __init__(self, take: Callable[[], Awaitable[StreamBlock | None]]) -> None:
        self._take = take

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamBlock:
        """Return the next block.

        Raises:
            PromptBlocked: A hook blocked the model request.
            ClientError: Another task is reading this turn.
            AgentError: The turn failed with this error.

        Cancellation: safe; no block is lost, and the turn continues.
        """
        block = await self._take()
        if block is None:
            raise StopAsyncIteration
        return block


class Client:
    """A conversation with an agent; enter it with `async with`.

    Example:
        ```python
        async with Client(options) as client:
            await client.query("What is 6 times 7?")
            async for block in client.receive_messages():
                ...
        ```

    With `auto_execute_tools=False` (the default), you execute the tool calls: read a turn to its
    end, `await client.add_tool_result(...)` for each `ToolUseBlock`, then `await
    client.continue_turn()`, and read the next turn. With `True`, tools are executed automatically
    until the model responds without calling a tool.

    Args:
        options: The agent.
        runtime: The runtime to use; None: a new one, which closes with the client.
        resume: The id of an existing session to continue; None: `options.resume`, unless
            `session_id` is set.
        session_id: The id of a session to continue or to create.
        deps: The dependencies for `ctx.deps` in all turns, of the class `options.deps_type`.

    Raises:
        ConfigError: `resume` and `session_id` name different sessions, an id is not valid, or the
            options are not valid.
    """

    def __init__(
        self,
        options: AgentOptions[object, DepsT],
        *,
        runtime: Runtime | None = None,
        resume: str | None = None,
        session_id: str | None = None,
        deps: DepsT | None = None,
    ) -> None:
        if resume is not None and session_id not in (None, resume):
            raise ConfigError(
                f"resume={resume!r} and session_id={session_id!r} name different sessions; "
                "pass only one of them"
            )
        named = resume or session_id  # as everywhere, an empty id means a new session
        if named and (fault := find_session_id_error(named)) is not None:
            raise ConfigError(fault)
        self._options = as_agent(options)
        self._deps: object = deps
        self._runtime = runtime
        is_named = resume is not None or session_id is not None
        self._resume = resume if is_named else self._options.resume
        self._session_id = session_id
        self._owned: Runtime | None = None
        self._session: ClientSession | None = None
        self._open_runtime: Runtime | None = None
        self._closed = False
        self._turn: _Turn | None = None
        self._last: SessionView = _NEW
        self._result: RunResult | None = None
        # The number of turns that were started, and the number that were read.
        self._begun = self._read = 0
        # The last run of this client.
        self._run: RunContext | None = None
        # The method that a task is currently executing; empty: none.
        self._inside = ""
        # The calls whose results are being added.
        self._adding: set[str] = set()
        self._add_lock = trio.Lock()
        # An assigned conversation that has not been recorded yet, and its system message.
        self._replacement: HistoryReplacement | None = None
        self._system_message: Message | None = None

    # State.

    @property
    def session_id(self) -> str:
        """The id of the session.

        Raises:
            ClientError: The client has not been entered.
        """
        return self._entered().session_id

    @property
    def history(self) -> list[MessageDict]:
        """A copy of the conversation, in the OpenAI chat completions format.

        The conversation is always valid: every open call gets a synthetic result. The system prompt
        from the options is not included.
        """
        system = () if self._system_message is None else (self._system_message,)
        return messages_to_openai((*system, *self._view().messages))

    @property
    def message_history(self) -> list[MessageDict]:
        """The same as `history`; assign a new value to replace the conversation.

        An assigned conversation is recorded with the next prompt or result. A system message at the
        beginning replaces the system prompt from the options.

        Raises:
            MessageError: On assignment, if a message is not valid. The error names the message.
            ClientError: On assignment, if a turn is in progress.
        """
        return self.history

    @message_history.setter
    def message_history(self, messages: Iterable[Mapping[str, object]]) -> None:
        self._check_between_turns("assigning a history")
        # Unchanged messages keep data that the dicts cannot hold, such as the signatures of
        # thinking blocks.
        merged = messages_rewritten(self._view().messages, messages)
        system = merged[0] if merged and merged[0].role == "system" else None
        messages_only = merged if system is None else merged[1:]
        seen_after(messages_only)  # validates the messages before anything is changed
        self._system_message, self._replacement = system, HistoryReplacement(messages_only)

    @property
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls that are waiting for `add_tool_result`, in the model's order.

        Calls made before `resume` are included. Empty while a turn is in progress.
        """
        if self._turn is not None and not self._turn.run.left:
            return ()
        waiting = (call for call in self._view().open_calls if call.id not in self._adding)
        return tuple(map(self._as_deferred, waiting))

    @property
    def turn_count(self) -> int:
        """The number of turns that have been read."""
        return self._read

    @property
    def turn_metadata(self) -> dict[str, int]:
        """The number of turns that have been read, as `{"turn_count": n}`."""
        return {"turn_count": self._read}

    @property
    def result(self) -> RunResult | None:
        """The result of the last turn, with its stop reason and usage.

        None until the turn ends, or if it failed.
        """
        return self._result

    # Start turns and add results.

    async def query(self, prompt: Prompt) -> None:
        """Send a prompt; read the response with `receive_messages`.

        An empty string continues without a prompt, as `continue_turn` does. If the previous turn
        was not read to its end, it is cancelled first. Open calls are closed.

        Raises:
            PromptBlocked: A hook blocked the prompt. Nothing was sent.
            TurnLimitReached: The client has already started `max_turns` turns.
            ClientError: Another task has a turn in progress.
            ConfigError: The prompt is blank but not an empty string.
            SessionBusy: Another run holds the session.
            AgentError: The previous turn failed with this error, which no caller has received yet.

        Cancellation: either nothing is sent, or the turn is ended.
        """
        if prompt == "":
            await self.continue_turn()
        else:
            await self._begin(user_input(prompt), "query")

    async def continue_turn(self) -> None:
        """Request a response to the current conversation, without a new prompt.

        Use this method after adding tool results, or to retry after an error. `user_prompt_submit`
        hooks are not called.

        Raises:
            ClientError: A call has no result yet, the conversation is empty, or another task has a
                turn in progress.
            TurnLimitReached: The client has already started `max_turns` turns.
            SessionBusy: Another run holds the session.

        Cancellation: see `query`.
        """
        await self._begin(_CONTINUE, "continue_turn")

    def receive_messages(self) -> ClientMessages:
        """Return the blocks of the turn that `query` or `continue_turn` started, as they stream.

        Each `TextBlock` or `ThinkingBlock` holds only new text. A `ToolUseBlock` is always
        complete. A call that is invalid, was denied or failed is yielded as a `ToolUseError`. If
        tools are executed automatically, a `ToolResultBlock` follows each call.

        Raises:
            ClientError: No turn was started, or the last turn has already been read.
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
        """Call the `post_tool_use` hooks, and record the result of a tool call.

        Several tasks may add results at the same time.

        Args:
            tool_call_id: The `id` of the `ToolUseBlock`.
            content: Text, any value that can be represented in JSON, or a `ToolOutput`, which can
                also hold other content.
            name: The expected name of the tool; None: do not check the name.
            is_error: True if the call failed.

        Raises:
            ClientError: The id is unknown, the call has a result, or its tool is not `name`.
            TypeError: The content cannot be represented in JSON.
            HookError: A hook failed. The call is still open.
            PromptBlocked: A hook stopped the conversation. The result is recorded.
            SessionError: The result could not be recorded.

        Cancellation: either the call is still open, or its result is recorded.
        """
        session = self._usable()
        self._check_between_turns("adding a result")
        output = to_output(content)
        if is_error:
            output = attrs.evolve(output, is_error=True)
        call = self._open_call(tool_call_id, name)
        self._adding.add(tool_call_id)
        try:
            async with self._add_lock:
                self._last = await session.answer(
                    call, output, self._options, self._run, self._replacement, deps=self._deps
                )
        except PromptBlocked:
            self._keep_view()  # the result is recorded
            raise
        finally:
            self._adding.discard(tool_call_id)

    async def interrupt(self) -> None:
        """End the current turn, from any task, and close open calls.

        The messages received so far are recorded, and the history stays valid. Between turns, this
        method only closes open calls.

        Cancellation: the turn still ends.
        """
        session, turn = self._usable(), self._turn
        if turn is not None and not turn.run.left:
            await turn.run.interrupt()
        elif self._view().open_calls and not self._adding:
            self._last = await session.close_calls(_INTERRUPTED, self._replacement)

    async def __aenter__(self) -> Self:
        """Open the conversation.

        Raises:
            SessionError: The session to resume does not exist, or cannot be read.
            RuntimeClosed: The runtime is closed.
            ClientError: The client has already been entered.
        """
        if self._session is not None:
            raise ClientError("a client can be entered only once; create a new one")
        if self._runtime is None:
            # The session is in use as long as the client is open, so it must not expire.
            self._owned = open_runtime(session_ttl=math.inf)
            await self._owned.__aenter__()
        try:
            await self._open(self._runtime or self._owned)
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
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised after the runtime closed
            raised = error
        self._keep_view()
        self._closed = True
        if self._owned is not None:
            kind = None if raised is None else type(raised)
            trace = None if raised is None else raised.__traceback__
            await self._owned.__aexit__(kind, raised, trace)  # noqa: ASYNC102 - it shields
        if raised is not None and raised is not exc:
            raise raised  # noqa: ASYNC104

    async def _open(self, runtime: Runtime | None) -> None:
        assert runtime is not None
        session = open_client_session(runtime, self._resume or self._session_id)
        if self._resume is not None or self._session_id is not None:
            self._last = await session.look()
            if self._resume is not None and self._last.is_new:
                raise SessionError("there is nothing to resume", session_id=self._resume)
        self._session, self._open_runtime = session, runtime

    # Steps of one turn.

    async def _begin(self, prompt: UserInput, method: str) -> None:
        session = self._usable()
        self._enter(method)
        try:
            self._check_may_begin()
            if self._turn is not None:
                turn, self._turn = self._turn, None
                await turn.run.leave()
                self._keep_view()
            if prompt is _CONTINUE:
                self._check_may_continue()
            await self._start(session, prompt)
        finally:
            self._inside = ""

    async def _start(self, session: ClientSession, prompt: UserInput) -> None:
        assert self._open_runtime is not None
        pending = self._replaces
        self._replacement = None if pending is None else HistoryReplacement(pending)
        spec = session.spec(prompt, self._agent(), self._replacement, self._deps)
        run = ClientTurn(self._open_runtime.stream_spec(spec), spec)
        self._result = None
        self._turn = _Turn(run, current_caller())
        try:
            await run.begin(admitted=prompt is not _CONTINUE)
        except BaseException:
            self._turn, self._result = None, run.result
            raise
        self._begun += 1
        self._run = run.context

    async def _next(self, turn: _Turn) -> StreamBlock | None:
        if turn is not self._turn:
            return None  # a later turn has ended this turn
        task = current_caller()
        if turn.read_by is None:
            turn.read_by = task
            self._read += 1
        elif turn.read_by != task:
            raise ClientError(
                f"task {turn.read_by.name} is already reading this turn; "
                "a turn can have only one reader"
            )
        self._enter("receive_messages")
        try:
            block = await turn.run.next()
            assert not isinstance(block, Partial)  # the turn was not asked for them
            return block
        finally:
            self._inside = ""
            if turn.run.left:
                self._result = turn.run.result
                self._keep_view()

    def _agent(self) -> AgentOptions:
        if self._system_message is None:
            return self._options
        return attrs.evolve(self._options, system_prompt=self._system_message.content)

    def _check_may_begin(self) -> None:
        turn, task = self._turn, current_caller()
        if turn is not None and not turn.run.done and task not in (turn.begun_by, turn.read_by):
            raise ClientError(
                f"task {turn.begun_by.name} has a turn in progress; give each task its own client, "
                "or first read the turn to its end or interrupt it"
            )
        if self._adding:
            raise ClientError(f"the result of call {min(self._adding)!r} is still being added")
        max_turns = self._options.max_turns
        if max_turns is not None and self._begun >= max_turns:
            raise TurnLimitReached(max_turns)

    def _check_may_continue(self) -> None:
        view = self._view()
        if view.open_calls:
            ids = ", ".join(f"{call.name} ({call.id})" for call in view.open_calls)
            raise ClientError(
                f"these calls have no result: {ids}; call add_tool_result() for each, or close "
                "them with a new prompt"
            )
        if not view.messages:
            raise ClientError("there is nothing to continue; send a prompt with query() first")

    def _open_call(self, call_id: str, name: str | None) -> ToolUseBlock:
        if call_id in self._adding:
            raise ClientError(f"the result of call {call_id!r} is already being added")
        view = self._view()
        call = next((call for call in view.open_calls if call.id == call_id), None)
        if call is None:
            answered = any(message.tool_call_id == call_id for message in view.messages)
            problem = "already has a result" if answered else "does not exist"
            open_ids = ", ".join(call.id for call in view.open_calls) or "none"
            raise ClientError(f"call {call_id!r} {problem}; open calls: {open_ids}")
        if name is not None and name != call.name:
            raise ClientError(f"call {call_id!r} is for tool {call.name!r}, not {name!r}")
        return self._as_deferred(call)

    def _as_deferred(self, call: ToolUseBlock) -> ToolUseBlock:
        # If the last turn of this client deferred the call, return it with the input that hooks
        # rewrote.
        return call if self._run is None else self._run.client_calls.get(call.id, call)

    # Checks and the view of the session.

    def _enter(self, method: str) -> None:
        if self._inside:
            raise ClientError(
                f"{method}() was called while another task is in {self._inside}(); only one "
                "task at a time may use a client, so give each task its own"
            )
        self._inside = method

    def _check_between_turns(self, action: str) -> None:
        turn = self._turn
        if turn is not None and not turn.run.left:
            raise ClientError(
                f"a turn is in progress; read it to its end or interrupt it before {action}"
            )

    def _entered(self) -> ClientSession:
        if self._session is None:
            raise ClientError(
                "the client is not entered; use `async with Client(options) as client:`"
            )
        return self._session

    def _usable(self) -> ClientSession:
        if self._closed:
            raise ClientError(
                "this client is closed; create a new one with resume=<session_id> to continue"
            )
        return self._entered()

    @property
    def _replaces(self) -> Messages | None:
        replacement = self._replacement
        return None if replacement is None or replacement.recorded else replacement.messages

    def _view(self) -> SessionView:
        if self._replaces is not None:
            return view_of(seen_after(self._replaces))
        if self._session is None or self._closed:
            return self._last
        return self._session.view() or self._last

    def _keep_view(self) -> None:
        """Keep a snapshot of the session, since the runtime may evict the session from memory."""
        self._last = self._entered().view() or self._last
