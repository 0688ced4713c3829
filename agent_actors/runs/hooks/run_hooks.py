"""Calls the hooks at the right points of one run, and defines the effect of a refusal.

Most methods fire one phase. They return a refusal as a `HookBlock`, and the driver then ends the
run. If an agent has no hooks, its runs have no `RunHooks`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import trio

from agent_actors.abc import Instrumentation
from agent_actors.codec.message_merge import messages_rewritten
from agent_actors.codec.openai_messages import messages_to_openai
from agent_actors.domain.blocks import AssistantBlock, TextBlock, ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.usage import Usage
from agent_actors.errors import AgentError, HookError
from agent_actors.hooks.decision import Denial
from agent_actors.hooks.events import (
    AfterAgentEvent,
    AfterModelEvent,
    BeforeAgentEvent,
    BeforeModelEvent,
    CompactEvent,
    PhaseEvent,
    SessionStartEvent,
    StopEvent,
    SubagentStartEvent,
    SubagentStopEvent,
    UserPromptSubmitEvent,
)
from agent_actors.hooks.phases import Phase
from agent_actors.hooks.registry import HookChain
from agent_actors.kernel.interrupts import TakeInterrupt, raise_interrupt
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import UserInput
from agent_actors.runs.hooks.hook_host import HookHost
from agent_actors.runs.hooks.hook_onion import HookOnion
from agent_actors.runs.model.budget import BudgetExhausted
from agent_actors.tools.output import ToolOutput

if TYPE_CHECKING:
    from agent_actors.tools import Tool

E = TypeVar("E", bound=PhaseEvent)

# The input with which a run continues if a hook refuses to stop without a reason.
_CONTINUE: Final = "Continue."

# Time limit, in seconds, for all `after_agent` hooks of a run together; they cannot be cancelled.
AFTER_AGENT_TIMEOUT: Final = 10.0


@attrs.frozen
class HookBlock:
    """The reason why a hook ended the run.

    Attributes:
        phase: The phase of the hook.
        hook: The name of the hook.
        reason: The reason that the hook gave.
        usage: The usage of a discarded response; None if no response was discarded.
        budget: The limit that was reached when the hook repeated a model call; empty if none.
    """

    phase: str
    hook: str
    reason: str
    usage: Usage | None = None
    budget: str = ""

    @property
    def stop_reason(self) -> str:
        """The stop reason for the run's result."""
        return f"budget:{self.budget}" if self.budget else f"blocked:{self.phase}"

    @property
    def why(self) -> str:
        """The explanation for the results of calls that are left open."""
        return f"hook {self.hook} ended the run" + (f": {self.reason}" if self.reason else "")


class RunBlocked(Exception):
    """A hook ended the run: the driver leaves its loop and closes the run."""

    def __init__(self, block: HookBlock) -> None:
        super().__init__(block.why)
        self.block = block


class RunHooks:
    """Calls the hooks at the right points of one run.

    Args:
        chain: The hooks.
        options: The options of the agent.
        run: The run.
        take_interrupt: Called with an error that a hook raised.
        instrumentation: Observes the calls of hooks; None: nothing does.

    Attributes:
        onion: Calls the hooks in order.
        chain: The hooks.
        timeout: Time limit, in seconds, for one call of a hook without its own deadline.
        tools: The agent's tools and the tools that hooks registered, by name.
    """

    def __init__(
        self,
        chain: HookChain,
        options: AgentOptions,
        run: HookHost,
        take_interrupt: TakeInterrupt = raise_interrupt,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self.tools: dict[str, Tool] = dict(options.tools_by_name)
        self.onion: HookOnion = HookOnion(
            chain,
            run,
            tools=self.tools,
            timeout=options.hook_timeout,
            take_interrupt=take_interrupt,
            instrumentation=instrumentation,
        )
        self.chain: HookChain = chain
        self.timeout: float = options.hook_timeout
        self._run = run
        self._options = options
        self._began = False

    async def admit(
        self, call: ToolUseBlock, tool: "Tool", messages: Messages
    ) -> ToolUseBlock | ToolOutput:
        """Return the call to execute, as rewritten by hooks, or a result for the model instead.

        Raises:
            HookError: A hook failed.
        """
        if not self.onion.takes_part(Phase.BEFORE_TOOL):
            return call
        admitted = await self.onion.guard(call, tool, messages)
        return refused(admitted) if isinstance(admitted, Denial) else admitted

    @property
    def withholds(self) -> bool:
        """True if deltas are withheld until `after_model` hooks have checked the response."""
        return self._options.withhold_deltas and self.onion.takes_part(Phase.AFTER_MODEL)

    @property
    def blocked(self) -> HookBlock | None:
        """The reason why a hook for a tool call ended the run; None if no hook ended it."""
        if self.onion.stopped is None:
            return None
        phase, refusal = self.onion.stopped
        return _blocked(phase, refusal)

    async def start_session(self, source: str) -> HookBlock | None:
        """Fire `session_start`, because this run opens the session in this runtime.

        Raises:
            HookError: A hook failed. All other methods of this class may raise it too.
        """
        return (await self._decide(self._event(SessionStartEvent, source=source)))[1]

    async def begin(self, user_input: UserInput, messages: Messages) -> UserInput | HookBlock:
        """Fire `user_prompt_submit` and `before_agent`; return the prompt to send and store.

        A run that continues without input only fires `before_agent`.
        """
        if user_input.text or user_input.blocks:
            submitted = await self.submit(user_input, messages)
            if isinstance(submitted, HookBlock):
                return submitted
            user_input = submitted
        self._began = True
        begun = self._event(BeforeAgentEvent, prompt=user_input.text, messages=messages)
        _, blocked = await self._decide(begun)
        return user_input if blocked is None else blocked

    async def submit(self, user_input: UserInput, messages: Messages) -> UserInput | HookBlock:
        """Fire `user_prompt_submit` for the prompt of the run or for steering input."""
        submitted, blocked = await self._decide(
            self._event(UserPromptSubmitEvent, prompt=user_input.text, messages=messages)
        )
        if blocked is not None:
            return blocked
        return (
            user_input
            if submitted.prompt == user_input.text
            else _reworded(user_input, submitted.prompt)
        )

    async def call_model(
        self, request: ModelRequest, ask: Callable[[ModelRequest], Awaitable[ModelCompleted]]
    ) -> ModelCompleted | HookBlock:
        """Make one model call inside all of its hooks."""
        onion = self.onion
        request = await onion.modify_request(request)
        if onion.takes_part(Phase.BEFORE_MODEL):
            refused = await self._before_model(request)
            if isinstance(refused, HookBlock):
                return refused
            request = refused
        try:
            answer = await onion.wrap_model_call(request, ask)
        except BudgetExhausted as full:
            return HookBlock(Phase.WRAP_MODEL_CALL.value, "<any>", str(full), budget=full.what)
        if not onion.takes_part(Phase.AFTER_MODEL):
            return answer
        event = self._event(
            AfterModelEvent,
            answer=answer,
            text=answer.text,
            iteration=self._run.snapshot().iteration,
        )
        looked, blocked = await self._decide(event)
        if blocked is not None:
            return attrs.evolve(blocked, usage=answer.usage)
        return answer if looked.text == answer.text else _reported_again(answer, looked.text)

    async def start_subagent(
        self, agent_name: str, prompt: str, session_id: str, call_id: str
    ) -> HookBlock | None:
        """Fire `subagent_start`, because a tool of this run starts a nested run."""
        event = self._event(
            SubagentStartEvent,
            agent_name=agent_name,
            prompt=prompt,
            subagent_session_id=session_id,
            tool_use_id=call_id,
        )
        return (await self._decide(event))[1]

    async def stop_subagent(
        self, agent_name: str, session_id: str, call_id: str, stop_reason: str, text: str
    ) -> None:
        """Fire `subagent_stop`, because the nested run has ended."""
        await self._decide(
            self._event(
                SubagentStopEvent,
                agent_name=agent_name,
                subagent_session_id=session_id,
                tool_use_id=call_id,
                stop_reason=stop_reason,
                text=text,
            )
        )

    async def compact(self, event: CompactEvent) -> CompactEvent | Denial:
        """Fire `on_compact`; return the event with any hook's summary, or the refusal."""
        event, refusal = await self.onion.decide(event)
        return event if refusal is None else refusal

    async def stop(self, text: str, stop_reason: str) -> str:
        """Fire `on_stop`, because the model has given its last response.

        Returns:
            The input with which the run continues, if a hook refused to stop; otherwise empty.
        """
        if not self.onion.takes_part(Phase.ON_STOP):
            return ""
        _, refusal = await self.onion.decide(
            self._event(StopEvent, text=text, stop_reason=stop_reason)
        )
        return "" if refusal is None or refusal.stop else refusal.reason or _CONTINUE

    async def end(self, text: str, stop_reason: str, failure: Exception | None) -> Exception | None:
        """Fire `after_agent`, but only once and only if the run began.

        Returns:
            The error of the run itself, otherwise the error that a hook raised; None if there is
            none.

        Cancellation: shielded; `AFTER_AGENT_TIMEOUT` limits the time.
        """
        if not self._began:
            return failure
        self._began = False
        event = self._event(AfterAgentEvent, text=text, stop_reason=stop_reason, error=failure)
        try:
            with trio.move_on_after(AFTER_AGENT_TIMEOUT, shield=True) as limit:
                await self.onion.decide(event)
            if limit.cancelled_caught:
                raise HookError(
                    f"the hooks did not finish within {AFTER_AGENT_TIMEOUT:g} s",
                    hook="<all>",
                    phase=Phase.AFTER_AGENT,
                )
        except AgentError as error:
            if failure is None:
                return error
            failure.add_note(f"and an after_agent hook failed: {error}")
        return failure

    async def _before_model(self, request: ModelRequest) -> ModelRequest | HookBlock:
        asked = self._event(
            BeforeModelEvent,
            messages=tuple(messages_to_openai(request.messages)),
            iteration=self._run.snapshot().iteration,
            rewrites=self._options.allow_message_rewrite,
        )
        event, blocked = await self._decide(asked)
        if blocked is not None:
            return blocked
        if event is asked:
            return request
        # The event only accepts a conversation.
        return attrs.evolve(request, messages=messages_rewritten(request.messages, event.messages))

    async def _decide(self, event: E) -> tuple[E, HookBlock | None]:
        if not self.onion.takes_part(event.phase):
            return event, None
        event, refusal = await self.onion.decide(event)
        return event, None if refusal is None else _blocked(event.phase, refusal)

    def _event(self, kind: Callable[..., E], **fields: object) -> E:
        run = self._run.snapshot()
        return partial(kind, session_id=run.session_id, run_id=run.run_id)(**fields)


def refused(refusal: Denial) -> ToolOutput:
    """Return the result to send to the model for a call that a hook refused."""
    reason = refusal.reason or "no reason was given"
    return ToolOutput(f"the call was refused: {reason}", is_error=True)


def _blocked(phase: Phase, refusal: Denial) -> HookBlock:
    return HookBlock(phase.value, refusal.hook, refusal.reason)


def _reworded(user_input: UserInput, text: str) -> UserInput:
    """Return an input with its text replaced; images and files follow the text."""
    if not user_input.blocks:
        return UserInput(text)
    others = tuple(block for block in user_input.blocks if not isinstance(block, TextBlock))
    return UserInput(text, (TextBlock(text), *others))


def _reported_again(answer: ModelCompleted, text: str) -> ModelCompleted:
    """Return the response with its text replaced, at the position of its first text block."""
    blocks: list[AssistantBlock] = []
    changed = False
    for block in answer.blocks:
        if not isinstance(block, TextBlock):
            blocks.append(block)
        elif not changed:
            changed = True
            blocks += [TextBlock(text)] if text else []
    if not changed:
        blocks.insert(0, TextBlock(text))
    return attrs.evolve(answer, blocks=tuple(blocks))
