"""query() and run() for asyncio: one prompt, without opening a runtime."""

from functools import partial
from types import TracebackType
from typing import TypeVar, Unpack

from agent_actors.asyncio.client import AsyncioMessages
from agent_actors.asyncio.runtime import AsyncioRuntime, find_open_runtime, open_runtime
from agent_actors.client.query import Query, QueryMessage
from agent_actors.client.query import query as trio_query
from agent_actors.domain.run import RunResult
from agent_actors.options.agent_options import AgentOptions
from agent_actors.runs.prompt import Prompt
from agent_actors.runs.spec import RequestArguments

OutputT = TypeVar("OutputT")
DepsT = TypeVar("DepsT")


def query(
    prompt: Prompt,
    options: AgentOptions[object, DepsT],
    *,
    deps: DepsT | None = None,
    **request: Unpack[RequestArguments],
) -> "AsyncioQuery":
    """Send one prompt to an agent, and read its response as it streams.

    Write `async with query(...) as messages:` followed by `async for message in messages:`. Each
    message holds new content: some text, or a complete tool call. If the agent has an
    `output_type`, a `PartialOutput` with the output so far follows the text. The last message holds
    the usage and the stop reason. The run uses the innermost open runtime, or a new one if none is
    open.

    Args:
        prompt: The user's input: text, or a sequence of texts, images and files; not blank.
        options: The agent.
        deps: The dependencies for `ctx.deps`; see `agent_actors.Runtime.run`.
        **request: See `agent_actors.query`.

    Raises:
        ConfigError: The prompt is blank, or the options are not valid.
    """
    return AsyncioQuery(trio_query(prompt, options, deps=deps, **request))


class AsyncioQuery:
    """One run, for one `async for`; returned by `query()`.

    Args:
        trio_query: The query in the trio thread.
    """

    def __init__(self, trio_query: Query) -> None:
        self._query = trio_query
        self._owned: AsyncioRuntime | None = None
        self._runtime: AsyncioRuntime | None = None

    @property
    def result(self) -> RunResult | None:
        """The result of the run; None until the run ends, or if it failed."""
        return self._query.result

    async def __aenter__(self) -> AsyncioMessages[QueryMessage]:
        """Start the run.

        Raises:
            ClientError: The query has already been used.
            RuntimeClosed: The runtime accepts no more runs.
        """
        runtime = find_open_runtime()
        if runtime is None:
            self._owned = runtime = await open_runtime().open()
        self._runtime = runtime
        try:
            messages = await runtime.bridge.call(self._query.__aenter__)
        except BaseException:
            await self._close()  # noqa: ASYNC102 - closing has a time limit
            raise

        async def take() -> QueryMessage | None:
            return await anext(messages, None)

        return AsyncioMessages(partial(runtime.bridge.call, take))

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._runtime is not None
        leave = partial(self._query.__aexit__, exc_type, exc, traceback)
        if isinstance(exc, GeneratorExit):
            self._runtime.bridge.start_apart(leave)
            if self._owned is not None:
                self._runtime.bridge.close_apart()
            return
        try:
            await self._runtime.bridge.call(leave)  # noqa: ASYNC102 - it has a time limit
        finally:
            await self._close()  # noqa: ASYNC102 - closing has a time limit

    async def _close(self) -> None:
        if self._owned is not None:
            await self._owned.aclose(drain=0)


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
        deps: The dependencies for `ctx.deps`; see `agent_actors.Runtime.run`.
        **request: See `agent_actors.query`.

    Raises:
        AgentError: See `Runtime.run`.

    Cancellation: ends the run cleanly, and waits until all of its tasks have ended.
    """
    runtime = find_open_runtime()
    if runtime is not None:
        return await runtime.run(prompt, options, deps=deps, **request)
    async with open_runtime() as own:
        return await own.run(prompt, options, deps=deps, **request)
