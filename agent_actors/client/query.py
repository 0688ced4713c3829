"""query(), run() and run_sync(): one prompt, without a runtime to be named.

A `Query` owns one turn and, where none is open around it, a runtime for the length of it. It is a
class and no generator: what a nursery holds must not hang on an iterator that anybody may drop. A
bare `async for` therefore works only where an open runtime takes the run; an iterator that is
dropped there cancels it, and the runtime sees to its end.
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

import attrs
import trio

from agent_actors.client.content_stream import FaceBlock
from agent_actors.client.session import client_spec
from agent_actors.client.turn import ClientTurn
from agent_actors.domain.run import RunResult
from agent_actors.domain.usage import Usage
from agent_actors.errors import ClientError
from agent_actors.options.agent_options import AgentOptions, as_agent
from agent_actors.protocol.turn import UserInput
from agent_actors.run.prompt import Prompt, user_input
from agent_actors.runtime.current import asyncio_runs, runtime_around
from agent_actors.runtime.runtime import Runtime, open_runtime

OutputT = TypeVar("OutputT")

_ENTER_IT: Final = """\
a bare `async for` over query() needs an open runtime around it; enter it instead:
    async with query(...) as messages:
        async for message in messages:"""


def _as_tuple(blocks: Iterable[FaceBlock]) -> tuple[FaceBlock, ...]:
    return tuple(blocks)


@attrs.frozen
class AssistantMessage:
    """A piece of the model's answer, as `query()` yields it.

    Attributes:
        role: Always `assistant`.
        content: What is new: mostly one block; none in the last message.
        usage: In the last message, the tokens of the whole run.
        stop_reason: In the last message, why it ended; see `StopReason`.
    """

    role: Literal["assistant"] = "assistant"
    content: tuple[FaceBlock, ...] = attrs.field(default=(), converter=_as_tuple)
    usage: Usage | None = None
    stop_reason: str | None = None


def query(prompt: Prompt, options: AgentOptions[object]) -> "Query":
    """Ask an agent one thing, and read its answer as it streams.

    `async with query(...) as messages:` and `async for message in messages:` work anywhere; inside
    an open runtime a bare `async for message in query(...):` does too. Each message holds what is
    new: some text, or a call that is whole; the last one holds usage and stop reason. Without
    `auto_execute_tools` the run ends with the calls that the model made, for you to carry out; who
    wants to go on from there takes a `Client`.

    Args:
        prompt: What the user says: text, or texts, images and files in a sequence; not blank.
        options: The agent.

    Raises:
        ConfigError: The prompt says nothing, or the options are none.
    """
    return Query(user_input(prompt), as_agent(options))


class Query:
    """One answer, for one `async for`; made by `query()`.

    Attributes:
        result: What the run came to; None before its end, and if it failed.
    """

    def __init__(self, said: UserInput, options: AgentOptions) -> None:
        self._said = said
        self._options = options
        self._owned: Runtime | None = None
        self._turn: ClientTurn | None = None
        self._messages: _Messages | None = None

    @property
    def result(self) -> RunResult | None:
        """What the run came to; None before its end, and if it failed."""
        return None if self._turn is None else self._turn.result

    async def __aenter__(self) -> "_Messages":
        """Start the run, in the runtime around this or in one of its own.

        Raises:
            ClientError: It was used before.
            RuntimeClosed: The runtime takes no more runs.
        """
        self._check_unused()
        runtime = runtime_around()
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
        """The messages, of a run that the runtime around this owns.

        Raises:
            TypeError: There is no open runtime; it shows the two lines to write.
        """
        if self._messages is not None:
            return self._messages
        runtime = runtime_around()
        if runtime is None:
            raise TypeError(_ENTER_IT)
        return _DroppableMessages(self._make_turn(runtime))

    def _make_turn(self, runtime: Runtime) -> ClientTurn:
        self._check_unused()
        session_id = runtime.services.ids.new()
        spec = client_spec(runtime, session_id, self._said, self._options)
        self._turn = ClientTurn(runtime.stream_spec(spec), spec)
        return self._turn

    def _check_unused(self) -> None:
        if self._turn is not None:
            raise ClientError("a query is one run, and this one was used; call query() again")


class _Messages:
    """The messages of a turn that was begun."""

    def __init__(self, turn: ClientTurn) -> None:
        self._turn = turn
        self._ended = False

    @property
    def result(self) -> RunResult | None:
        """What the run came to; None before its end, and if it failed."""
        return self._turn.result

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AssistantMessage:
        """The next message.

        Raises:
            PromptBlocked: A hook refused to have the model asked.
            AgentError: What the run failed with.

        Cancellation: safe; no message is lost.
        """
        block = await self._turn.next()
        if block is not None:
            return AssistantMessage(content=(block,))
        result = self._turn.result
        if self._ended or result is None:
            raise StopAsyncIteration
        self._ended = True
        return AssistantMessage(usage=result.usage, stop_reason=result.stop_reason)


class _DroppableMessages(_Messages):
    """The same of a turn that is begun here, and that nobody will leave."""

    def __init__(self, turn: ClientTurn) -> None:
        super().__init__(turn)
        self._token = trio.lowlevel.current_trio_token()
        self._begun = False

    async def __anext__(self) -> AssistantMessage:
        """The next message; the first one starts the run.

        Raises:
            PromptBlocked: A hook refused to have the model asked.
            AgentError: What the run failed with.

        Cancellation: safe; no message is lost.
        """
        if not self._begun:
            self._begun = True
            await self._turn.begin(admitted=False)
        return await super().__anext__()

    def __del__(self) -> None:
        # Any thread may find that nobody holds it any more, and none of it may be done there.
        if self._begun and not self._turn.left:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._turn.drop)


async def run(prompt: Prompt, options: AgentOptions[OutputT]) -> RunResult[OutputT]:
    """Ask an agent one thing, and wait for the answer; its tools run by themselves.

    It runs in the open runtime around this; without one, in a runtime of its own.

    Args:
        prompt: What the user says: text, or texts, images and files in a sequence; not blank.
        options: The agent.

    Raises:
        AgentError: Whatever `Runtime.run` raises.

    Cancellation: as `Runtime.run`: nothing of it is alive afterwards.
    """
    runtime = runtime_around()
    if runtime is not None:
        return await runtime.run(prompt, options)
    async with open_runtime() as own:
        return await own.run(prompt, options)


def run_sync(prompt: Prompt, options: AgentOptions[OutputT]) -> RunResult[OutputT]:
    """The same for a script: it runs trio itself, and returns the answer.

    Args:
        prompt: What the user says: text, or texts, images and files in a sequence; not blank.
        options: The agent.

    Raises:
        RuntimeError: An event loop runs in this thread.
        AgentError: Whatever `Runtime.run` raises.
    """
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "run_sync() cannot run inside of trio: it would block it; use `await run(...)`"
        )
    if asyncio_runs():
        raise RuntimeError(
            "run_sync() cannot run inside of asyncio: it would block it; use "
            "`await asyncio.to_thread(run_sync, ...)`"
        )
    return trio.run(partial(run, prompt, options))
