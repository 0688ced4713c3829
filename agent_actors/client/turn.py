"""One turn of `Client` or `query()`: a run whose events are read as blocks.

A `ClientTurn` owns the stream of the run until the stream is left, and the blocks that were read
but not yet returned. Like a `RunStream`, a turn may be entered and left anywhere, but only one task
at a time may use it.
"""

from collections import deque
from types import TracebackType
from typing import Final

from agent_actors.client.content_stream import BlockReader, StreamBlock
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import Event, HookEvent, OutputDelta, SystemInit, UserMessage
from agent_actors.domain.run import Partial, RunResult, StopReason
from agent_actors.errors import PromptBlocked
from agent_actors.hooks.phases import Phase
from agent_actors.runs.context import RunContext
from agent_actors.runs.output.tracebacks import without_own_frames
from agent_actors.runs.spec import RunSpec
from agent_actors.runtime.stream import RunStream

# The stop reasons of runs that hooks blocked before the model was called.
_BEFORE_THE_MODEL: Final = frozenset(
    f"blocked:{phase.value}"
    for phase in (
        Phase.SESSION_START,
        Phase.USER_PROMPT_SUBMIT,
        Phase.BEFORE_AGENT,
        Phase.BEFORE_MODEL,
        Phase.SUBAGENT_START,
    )
)
_LEAVES_CALLS: Final = (StopReason.AWAITING_RESULTS, StopReason.AWAITING_APPROVAL)


class ClientTurn:
    """One turn.

    Args:
        stream: The events of the run.
        spec: The specification of the run.
        partials: True to return the output while it is streamed, if the agent has an output type.

    Attributes:
        result: The result of the run; None until the run ends, or if it failed.
        left: True if the run has ended and its stream has been left.
    """

    def __init__(self, stream: RunStream, spec: RunSpec, *, partials: bool = False) -> None:
        self.result: RunResult | None = None
        self.left: bool = False
        self._stream = stream
        self._reader = BlockReader(client_side_tools=spec.client_side_tools)
        self._partials = partials
        self._ready: deque[StreamBlock | Partial[object]] = deque()
        # If a conversation replaces the history, its messages are recorded first. They are not
        # returned as blocks, since the caller already has them.
        self._shows = spec.replace_history is None
        self._interrupted = False

    @property
    def context(self) -> RunContext | None:
        """The state of the run; None before the run has started."""
        return self._stream.context

    @property
    def done(self) -> bool:
        """True if the run has ended and every block has been returned."""
        return self.left and not self._ready

    @property
    def client_calls(self) -> dict[str, ToolUseBlock]:
        """The calls that the run left to its caller, by id; empty until the run ends."""
        result, context = self.result, self.context
        if result is None or context is None or result.stop_reason not in _LEAVES_CALLS:
            return {}
        return context.client_calls

    async def begin(self, *, admitted: bool) -> None:
        """Start the run.

        Args:
            admitted: True to wait until the prompt is recorded.

        Raises:
            PromptBlocked: A hook blocked the prompt.
            AgentError: The run could not start, or failed before the prompt was recorded.

        Cancellation: ends the run cleanly, and returns only once all of its tasks have ended.
        """
        await self._stream.__aenter__()
        own = self._shows
        try:
            while admitted and not self.left:
                event = await self._next_event()
                if isinstance(event, SystemInit):
                    own, self._shows = True, not self._interrupted
                elif isinstance(event, UserMessage) and own:
                    return
        except BaseException as error:
            if not self.left:
                await self.leave(type(error), error, error.__traceback__)  # noqa: ASYNC102 - it shields
            raise

    async def next(self) -> StreamBlock | Partial[object] | None:
        """Return the next block, or the output so far; None after the last block.

        Raises:
            PromptBlocked: A hook blocked the model request.
            AgentError: The run failed with this error.

        Cancellation: safe; no block is lost.
        """
        while not self._ready:
            if self.left:
                return None
            event = await self._next_event()
            if event is None:
                continue
            if isinstance(event, OutputDelta):
                if self._partials and self._stream.partial is not None:
                    self._ready.append(self._stream.partial)
            elif self._shows:
                self._ready += self._reader.take(event)
            elif isinstance(event, SystemInit) and not self._interrupted:
                self._shows = True
        return self._ready.popleft()

    async def leave(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Cancel the run if it is still running, and wait until it has ended and is recorded.

        Raises:
            AgentError: The run failed with this error; raised only if no caller has received it yet
                and `exc` is None.

        Cancellation: the call still waits for the run to end.
        """
        self._ready.clear()
        if self.left:
            return
        self.left = True
        await self._stream.__aexit__(exc_type, exc, traceback)

    async def interrupt(self) -> bool:
        """End the run, from any task, and return whether the run was in progress.

        Cancellation: the run still ends.
        """
        if not self._stream.unfinished:
            return False
        self._interrupted, self._shows = True, False
        self._ready.clear()
        await self._stream.interrupt()
        return True

    def drop(self) -> None:
        """Stop reading, and cancel the run without waiting; the runtime cleans it up."""
        self._stream.drop()

    async def _next_event(self) -> Event | None:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:
            pass
        except Exception as error:  # noqa: BLE001 - raised below
            self.left = True
            # The run has already ended, so this does not block.
            await self._stream.__aexit__(type(error), error, error.__traceback__)  # noqa: ASYNC102, ASYNC120
            raise without_own_frames(error)  # noqa: B904 - the same error
        self.left = True
        self.result = result = self._stream.result
        self._ready += self.client_calls.values()
        await self._stream.__aexit__(None, None, None)
        if result.stop_reason in _BEFORE_THE_MODEL:
            raise blocked(result)
        return None


def blocked(result: RunResult) -> PromptBlocked:
    """Return the error for a run that a hook blocked before the model was called."""
    phase = result.stop_reason.partition(":")[2]
    refusals = [event for event in result.hook_events if _refuses(event, phase)]
    reason = refusals[-1].reason if refusals else None
    if reason:
        return PromptBlocked(reason)
    hook = f"hook {refusals[-1].hook}" if refusals else "a hook"
    return PromptBlocked(f"{hook} blocked the prompt in {phase} without giving a reason")


def _refuses(event: HookEvent, phase: str) -> bool:
    return event.phase == phase and event.action in {"deny", "stop"}
