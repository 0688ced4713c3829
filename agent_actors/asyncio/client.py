"""AsyncioClient: a conversation for asyncio tasks, one turn at a time."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import attrs

from agent_actors.asyncio.runtime import AsyncioRuntime, open_runtime
from agent_actors.client.client import Client, ClientMessages
from agent_actors.client.content_stream import StreamBlock
from agent_actors.codec.openai_messages import MessageDict
from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from agent_actors.domain.run import RunResult
from agent_actors.errors import ClientError
from agent_actors.kernel.user_code import outside_caller
from agent_actors.options.agent_options import AgentOptions
from agent_actors.runs.prompt import Prompt

if TYPE_CHECKING:
    from agent_actors.asyncio.bridge import Bridge

DepsT = TypeVar("DepsT")
ItemT = TypeVar("ItemT")
T = TypeVar("T")


@attrs.frozen
class _AsyncioCaller:
    """The asyncio task that uses a client."""

    name: str
    task_id: int


class AsyncioMessages(Generic[ItemT]):
    """The blocks of one turn, or the messages of a query; for one `async for`.

    Args:
        take: Returns the next item; None after the last one.
    """

    def __init__(self, take: Callable[[], Awaitable[ItemT | None]]) -> None:
        self._take = take

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ItemT:
        """Return the next item.

        Raises:
            PromptBlocked: A hook blocked the model request.
            AgentError: The turn failed with this error.

        Cancellation: the turn continues.
        """
        item = await self._take()
        if item is None:
            raise StopAsyncIteration
        return item


@attrs.frozen
class _View:
    """The state of a client after its last call."""

    session_id: str
    history: tuple[MessageDict, ...]
    open_calls: tuple[ToolUseBlock, ...]
    turn_count: int
    result: RunResult | None


class AsyncioClient:
    """A conversation with an agent, for asyncio; enter it with `async with`.

    The methods are those of `agent_actors.Client`. The properties show the state after the last
    call of a method or the last block that was read.

    Args:
        options: The agent.
        runtime: The runtime to use; None: a new one, which closes with the client.
        resume: The id of an existing session to continue; None: `options.resume`, unless
            `session_id` is set.
        session_id: The id of a session to continue or to create.
        deps: The dependencies for `ctx.deps` in all turns, of the class `options.deps_type`.
    """

    def __init__(
        self,
        options: AgentOptions[object, DepsT],
        *,
        runtime: AsyncioRuntime | None = None,
        resume: str | None = None,
        session_id: str | None = None,
        deps: DepsT | None = None,
    ) -> None:
        self._runtime = runtime
        self._make_client = partial(
            Client, options, resume=resume, session_id=session_id, deps=deps
        )
        self._owned: AsyncioRuntime | None = None
        self._bridge: Bridge | None = None
        self._client: Client | None = None
        self._view: _View | None = None
        self._closed = False

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._seen.session_id

    @property
    def history(self) -> list[MessageDict]:
        """A copy of the conversation, in the OpenAI chat completions format; always valid."""
        return [*self._seen.history]

    @property
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls that are waiting for `add_tool_result`, in the model's order."""
        return self._seen.open_calls

    @property
    def turn_count(self) -> int:
        """The number of turns that have been read."""
        return self._seen.turn_count

    @property
    def result(self) -> RunResult | None:
        """The result of the last turn; None until the turn ends, or if it failed."""
        return self._seen.result

    async def query(self, prompt: Prompt) -> None:
        """Send a prompt; read the response with `receive_messages`. See `Client.query`.

        Cancellation: either nothing is sent, or the turn is ended.
        """
        await self._call(lambda client: client.query(prompt))

    async def continue_turn(self) -> None:
        """Request a response without a new prompt. See `Client.continue_turn`.

        Cancellation: see `query`.
        """
        await self._call(lambda client: client.continue_turn())

    def receive_messages(self) -> AsyncioMessages[StreamBlock]:
        """Return the blocks of the turn that `query` or `continue_turn` started, as they stream.

        The first block raises `ClientError` if no turn was started. See `Client.receive_messages`.
        """
        messages: list[ClientMessages] = []

        async def take(client: Client) -> StreamBlock | None:
            if not messages:
                messages.append(client.receive_messages())
            return await anext(messages[0], None)

        return AsyncioMessages(lambda: self._call(take))

    async def add_tool_result(
        self,
        tool_call_id: str,
        content: object,
        name: str | None = None,
        is_error: bool = False,
    ) -> None:
        """Call the `post_tool_use` hooks, and record the result of a tool call.

        See `Client.add_tool_result` for the arguments and the errors.

        Cancellation: either the call is still open, or its result is recorded.
        """
        await self._call(
            lambda client: client.add_tool_result(tool_call_id, content, name, is_error)
        )

    async def replace_history(self, messages: Iterable[Mapping[str, object]]) -> None:
        """Replace the conversation, as an assignment to `Client.message_history` does.

        Raises:
            MessageError: A message is not valid. The error names the message.
            ClientError: A turn is in progress.
        """

        async def replace(client: Client) -> None:  # noqa: ASYNC124 - a call is a task
            client.message_history = messages

        await self._call(replace)

    async def interrupt(self) -> None:
        """End the current turn, from any task, and close open calls. See `Client.interrupt`.

        Cancellation: the turn still ends.
        """
        await self._call(lambda client: client.interrupt())

    async def __aenter__(self) -> Self:
        """Open the conversation.

        Raises:
            ConfigError: `resume` and `session_id` name different sessions, or an option is not
                valid.
            SessionError: The session to resume does not exist, or cannot be read.
            RuntimeClosed: The runtime is closed.
            ClientError: The client has already been entered.
        """
        if self._bridge is not None:
            raise ClientError("a client can be entered only once; create a new one")
        runtime = self._runtime
        if runtime is None:
            # The session is in use as long as the client is open, so it must not expire.
            self._owned = runtime = await open_runtime(session_ttl=math.inf).open()
        self._bridge = runtime.bridge
        try:
            await self._bridge.call(self._enter)
        except BaseException:
            if self._owned is not None:
                await self._owned.aclose(drain=0)  # noqa: ASYNC102 - it has a time limit
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        bridge, client = self._bridge, self._client
        self._closed = True
        if isinstance(exc, GeneratorExit) and bridge is not None and client is not None:
            bridge.start_apart(lambda: client.__aexit__(exc_type, exc, traceback))
            if self._owned is not None:
                bridge.close_apart()
            return
        try:
            await self._call_client(lambda client: client.__aexit__(exc_type, exc, traceback))
        finally:
            if self._owned is not None:
                await self._owned.aclose()  # noqa: ASYNC102 - it has a time limit

    async def _enter(self) -> None:
        assert self._bridge is not None
        self._client = self._make_client(runtime=self._bridge.runtime)
        await self._client.__aenter__()
        self._view = _view_of(self._client)

    async def _call(self, work: Callable[[Client], Awaitable[T]]) -> T:
        if self._closed:
            raise ClientError(
                "this client is closed; create a new one with resume=<session_id> to continue"
            )
        return await self._call_client(work)

    async def _call_client(self, work: Callable[[Client], Awaitable[T]]) -> T:
        bridge, client = self._bridge, self._client
        if bridge is None or client is None:
            raise ClientError(
                "the client is not entered; use `async with Client(options) as client:`"
            )
        task = asyncio.current_task()
        caller = _AsyncioCaller("" if task is None else task.get_name(), id(task))

        async def perform() -> T:
            outside_caller.set(caller)
            value: T | None = None
            try:
                value = await work(client)
                return value
            finally:
                # A view costs too much to make one for each delta.
                if not isinstance(value, TextBlock | ThinkingBlock):
                    self._view = _view_of(client)

        return await bridge.call(perform)

    @property
    def _seen(self) -> _View:
        if self._view is None:
            raise ClientError(
                "the client is not entered; use `async with Client(options) as client:`"
            )
        return self._view


def _view_of(client: Client) -> _View:
    return _View(
        client.session_id,
        tuple(client.history),
        client.open_calls,
        client.turn_count,
        client.result,
    )
