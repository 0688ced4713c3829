"""query(), run() and run_sync(): one prompt, without opening a runtime.

They use the innermost open runtime, or open one for the duration of the run.

`Query` is a class and not an async generator, since an abandoned generator could not close a
runtime cleanly. For the same reason, a bare `async for` works only inside an open runtime. If the
iterator of such a loop is abandoned, the run is cancelled and the runtime cleans it up.
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias, TypeVar, Unpack

import attrs
import trio

from agent_actors.client.content_stream import StreamBlock
from agent_actors.client.session import open_client_session
from agent_actors.client.turn import ClientTurn
from agent_actors.domain.run import Partial, RunResult
from agent_actors.domain.usage import Usage
from agent_actors.errors import ClientError
from agent_actors.options.agent_options import AgentOptions, as_agent
from agent_actors.protocol.turn import UserInput
from agent_actors.runs.prompt import Prompt, user_input
from agent_actors.runs.spec import NO_REQUEST, RequestArguments, RunRequest, run_request
from agent_actors.runtime.current import asyncio_is_running
from agent_actors.runtime.runtime import Runtime, find_open_runtime, open_runtime

OutputT = TypeVar("OutputT")
DepsT = TypeVar("DepsT")

_ENTER_IT: Final = """\
a bare `async for` over query() requires an open runtime around it; without one, enter the query:
    async with query(...) as messages:
        async for message in messages:"""


def _as_tuple(blocks: Iterable[StreamBlock]) -> tuple[StreamBlock, ...]:
    return tuple(blocks)


@attrs.frozen
class QueryMessage:
    """A part of the model's response, yielded by `query()`.

    The old name `AssistantMessage` remains as an alias, for programs ported from other SDKs.

    Attributes:
        role: Always `assistant`.
        content: The new blocks: usually one, but none in the last message.
        usage: In the last message, the tokens that the run used.
        stop_reason: In the last message, the reason why the run ended; see `StopReason`.
    """

    role: Literal["assistant"] = "assistant"
    content: tuple[StreamBlock, ...] = attrs.field(default=(), converter=_as_tuple)
    usage: Usage | None = None
    stop_reason: str | None = None


AssistantMessage: TypeAlias = QueryMessage
"""The old name of `QueryMessage`, for programs ported from other SDKs."""


@attrs.frozen
class PartialOutput(QueryMessage):
    """The output so far, yielded by `query()` if the agent has an `output_type`.

    Its `content` is empty, because the text itself is yielded too.

    Attributes:
        partial: The output so far, not validated.
    """

    partial: Partial[object] = attrs.field(kw_only=True)


def query(
    prompt: Prompt,
    options: AgentOptions[object, DepsT],
    *,
    deps: DepsT | None = None,
    **request: Unpack[RequestArguments],
) -> "Query":
    """Send one prompt to an agent, and read its response as it streams.

    `async with query(...) as messages:` followed by `async for message in messages:` works
    anywhere. Inside an open runtime, a bare `async for message in query(...):` works too. Each
    message holds new content: some text, or a complete tool call. If the agent has an
    `output_type`, a `PartialOutput` with the output so far follows the text. The last message holds
    the usage and the stop reason. Without `auto_execute_tools`, the run ends when the model calls
    tools, and you execute the calls. Use a `Client` to continue with their results.

    Args:
        prompt: The user's input: text, or a sequence of texts, images and files; not blank.
        options: The agent.
        deps: The dependencies for `ctx.deps`; see `Runtime.run`.
        **request: `force_skills`, `traits`, `channels`, `tags`, `metadata`, `entry_point`; see
            `RequestArguments`.

    Raises:
        ConfigError: The prompt is blank, or the options or an argument are not valid.
    """
    passed = run_request(request)
    return Query(passed.changed_prompt(user_input(prompt)), as_agent(options), deps, passed)


class Query:
    """One run, for one `async for`; returned by `query()`."""

    def __init__(
        self,
        prompt: UserInput,
        options: AgentOptions,
        deps: object = None,
        request: RunRequest = NO_REQUEST,
    ) -> None:
        self._prompt = prompt
        self._options = options
        self._deps = deps
        self._request = request
        self._owned: Runtime | None = None
        self._turn: ClientTurn | None = None
        self._messages: _Messages | None = None

    @property
    def result(self) -> RunResult | None:
        """The result of the run; None until the run ends, or if it failed."""
        return None if self._turn is None else self._turn.result

    async def __aenter__(self) -> "_Messages":
        """Start the run, in the innermost open runtime or in a new one.

        Raises:
            ClientError: The query has already been used.
            RuntimeClosed: The runtime accepts no more runs.
        """
        self._check_unused()
        runtime = find_open_runtime()
        if runtime is None:
            self._owned = runtime = open_runtime()
            await runtime.__aenter__()
        try:
            turn = self._make_turn(runtime)
            await turn.begin(admitted=False)
        except BaseException as error:
            if self._owned is not None:
                await self._owned.__aexit__(type(error), error, error.__traceback__)  # noqa: ASYNC102 - it shields
            raise
        self._messages = _Messages(turn)
        return self._messages

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._turn is not None
        raised = exc
        try:
            await self._turn.leave(exc_type, exc, traceback)  # noqa: ASYNC102 - it shields
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised when the runtime is left
            raised = error
        if self._owned is not None:
            kind = None if raised is None else type(raised)
            trace = None if raised is None else raised.__traceback__
            await self._owned.__aexit__(kind, raised, trace)  # noqa: ASYNC102 - it shields
        if raised is not None and raised is not exc:
            raise raised  # noqa: ASYNC104

    def __aiter__(self) -> "_Messages":
        """Return the messages of a run in the innermost open runtime.

        Raises:
            TypeError: There is no open runtime. The error message shows the two lines to write.
        """
        if self._messages is not None:
            return self._messages
        runtime = find_open_runtime()
        if runtime is None:
            raise TypeError(_ENTER_IT)
        return _DroppableMessages(self._make_turn(runtime))

    def _make_turn(self, runtime: Runtime) -> ClientTurn:
        self._check_unused()
        session = open_client_session(runtime, self._options.resume)
        spec = session.spec(self._prompt, self._options, deps=self._deps)
        spec = attrs.evolve(spec, request=self._request)
        self._turn = ClientTurn(runtime.stream_spec(spec), spec, partials=True)
        return self._turn

    def _check_unused(self) -> None:
        if self._turn is not None:
            raise ClientError("a query can be used only once; call query() again")


class _Messages:
    """The messages of a turn that has started."""

    def __init__(self, turn: ClientTurn) -> None:
        self._turn = turn
        self._ended = False

    @property
    def result(self) -> RunResult | None:
        """The result of the run; None until the run ends, or if it failed."""
        return self._turn.result

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> QueryMessage:
        """Return the next message.

        Raises:
            PromptBlocked: A hook blocked the model request.
            AgentError: The run failed with this error.

        Cancellation: safe; no message is lost.
        """
        block = await self._turn.next()
        if isinstance(block, Partial):
            return PartialOutput(partial=block)
        if block is not None:
            return QueryMessage(content=(block,))
        result = self._turn.result
        if self._ended or result is None:
            raise StopAsyncIteration
        self._ended = True
        return QueryMessage(usage=result.usage, stop_reason=result.stop_reason)


class _DroppableMessages(_Messages):
    """The messages of a turn that starts with the first `__anext__` call and may be abandoned."""

    def __init__(self, turn: ClientTurn) -> None:
        super().__init__(turn)
        self._token = trio.lowlevel.current_trio_token()
        self._begun = False

    async def __anext__(self) -> QueryMessage:
        """Return the next message; the first call starts the run.

        Raises:
            PromptBlocked: A hook blocked the model request.
            AgentError: The run failed with this error.

        Cancellation: safe; no message is lost.
        """
        if not self._begun:
            self._begun = True
            await self._turn.begin(admitted=False)
        return await super().__anext__()

    def __del__(self) -> None:
        # This method may be called in any thread, so trio cannot be used here.
        if self._begun and not self._turn.left:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._turn.drop)


async def run(
    prompt: Prompt,
    options: AgentOptions[OutputT, DepsT],
    *,
    deps: DepsT | None = None,
    **request: Unpack[RequestArguments],
) -> RunResult[OutputT]:
    """Send one prompt to an agent, execute its tool calls, and return the result.

    The run uses the innermost open runtime, or a new one if none is open.

    Args:
        prompt: The user's input: text, or a sequence of texts, images and files; not blank.
        options: The agent.
        deps: The dependencies for `ctx.deps`; see `Runtime.run`.
        **request: See `query`.

    Raises:
        AgentError: See `Runtime.run`.

    Cancellation: see `Runtime.run`; all tasks of the run have ended when the call returns.
    """
    runtime = find_open_runtime()
    if runtime is not None:
        return await runtime.run(prompt, options, deps=deps, **request)
    async with open_runtime() as own:
        return await own.run(prompt, options, deps=deps, **request)


def run_sync(
    prompt: Prompt,
    options: AgentOptions[OutputT, DepsT],
    *,
    deps: DepsT | None = None,
    **request: Unpack[RequestArguments],
) -> RunResult[OutputT]:
    """Start trio, do what `run` does, and return the result; for scripts without an event loop.

    Args:
        prompt: The user's input: text, or a sequence of texts, images and files; not blank.
        options: The agent.
        deps: The dependencies for `ctx.deps`; see `Runtime.run`.
        **request: See `query`.

    Raises:
        RuntimeError: An event loop is running in this thread.
        AgentError: See `Runtime.run`.
    """
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "run_sync() cannot run inside trio, which it would block; use `await run(...)`"
        )
    if asyncio_is_running():
        raise RuntimeError(
            "run_sync() cannot run inside asyncio, which it would block; use `await run(...)` "
            "from agent_actors.asyncio"
        )
    return trio.run(partial(run, prompt, options, deps=deps, **request))
