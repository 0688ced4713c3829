"""Calls the hooks of one run in order, applies their time limits, and records their actions.

The hook that was registered first is the outermost. `run_hooks.py` and the driver define how a
decision affects the run.
"""

import logging
import math
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Final, TypeVar, cast

import attrs
import trio

from agent_actors.abc import Instrumentation
from agent_actors.abc.operations import HookOperation
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, HookEvent
from agent_actors.domain.json import (
    JsonObject,
    JsonValue,
    copy_json,
    copy_object,
    same_json,
)
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.run import RunInfo
from agent_actors.errors import ConfigError, HookError, ToolArgumentsError
from agent_actors.hooks.decision import Denial, HookDecision
from agent_actors.hooks.events import PhaseEvent, PostToolUseEvent, PreToolUseEvent
from agent_actors.hooks.hook import ModelCall, ToolCall
from agent_actors.hooks.phases import Phase
from agent_actors.hooks.registry import BoundHook, HookChain
from agent_actors.kernel.exceptions import find_exit_request, is_cancellation
from agent_actors.kernel.interrupts import (
    TakeInterrupt,
    await_unprotected,
    call_unprotected,
    raise_interrupt,
)
from agent_actors.kernel.pausable_deadline import PausableDeadline
from agent_actors.kernel.user_code import find_user_loop
from agent_actors.runs.hooks.call_next import CallNext
from agent_actors.runs.hooks.hook_host import HookHost
from agent_actors.runs.hooks.response_validation import validate_response
from agent_actors.tools import Tool
from agent_actors.tools.output import ToolOutput, converts_fast, to_output
from agent_actors.tools.protocol import as_tool

_LOG: Final = logging.getLogger(__name__)

# Time limit, in seconds, for one call of a hook.
HOOK_TIMEOUT: Final = 60.0

# Threads that convert results must not wait for tool threads.
_UNBOUNDED: Final = trio.CapacityLimiter(math.inf)

# The action to record for a rewrite that has no effect in the hook's phase.
_IGNORED: Final = {
    "modified_input": "ignored",
    "modified_prompt": "ignored",
    "modified_output": "ignored",
    "modified_messages": "ignored_override_messages",
}

# The `before_tool` hooks that are executing the current code, directly or in a run that they
# started.
_deciding: Final[ContextVar[tuple[tuple["HookOnion", BoundHook], ...]]] = ContextVar(
    "agent_actors_deciding", default=()
)

E = TypeVar("E", bound=PhaseEvent)
A = TypeVar("A")
T = TypeVar("T")


@attrs.define(eq=False)
class _Context:
    """The `HookContext` of one run, or of one tool call of the run."""

    host: HookHost
    state: dict[str, object] = attrs.field(factory=dict[str, object])
    tools: dict[str, Tool] = attrs.field(factory=dict[str, Tool])
    open: bool = False
    call_id: str | None = None

    @property
    def deps(self) -> object:
        return self.host.deps

    @property
    def run(self) -> RunInfo:
        return self.host.snapshot()

    def record(self, event: EventBuilder) -> None:
        self.host.record(event, self.call_id)

    def register_tool(self, tool: object) -> None:
        added = as_tool(tool)
        if not self.open:
            raise ConfigError(f"tool {added.name!r}: tools can be registered only in before_agent")
        if added.name in self.tools:
            raise ConfigError(f"tool {added.name!r}: this run already has a tool with this name")
        self.tools[added.name] = added


class HookOnion:
    """The hooks of one run.

    Args:
        chain: The hooks at the start of the run; later changes to the agent have no effect.
        run: The run.
        tools: The agent's tools, by name.
        timeout: Time limit, in seconds, for one call of a hook without its own deadline.
        take_interrupt: Called with an error that a hook raised.
        instrumentation: Observes the calls of hooks; None: nothing does.

    Attributes:
        stopped: The phase and the refusal of the hook that stopped the run; None if no hook stopped
            it.
    """

    def __init__(
        self,
        chain: HookChain,
        run: HookHost,
        *,
        tools: dict[str, Tool],
        timeout: float = HOOK_TIMEOUT,
        take_interrupt: TakeInterrupt = raise_interrupt,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self._chain = chain
        self._instrumentation = instrumentation
        self._take_interrupt = take_interrupt
        self._timeout = timeout
        self._context = _Context(run, tools=tools)
        self.stopped: tuple[Phase, Denial] | None = None

    def takes_part(self, *phases: Phase) -> bool:
        """Return whether any hook is registered for one of these phases."""
        return any(self._chain.row(phase) for phase in phases)

    async def decide(self, event: E) -> tuple[E, Denial | None]:
        """Ask the hooks of a phase for decisions, in order.

        Each hook sees the rewrites of earlier hooks. The first refusal ends the phase.

        Raises:
            HookError: A hook raised an exception, exceeded its deadline, or did not return a
                decision.
        """
        if event.phase is not Phase.BEFORE_AGENT:
            return await self._each(event)
        self._context.open = True
        try:
            return await self._each(event)
        finally:
            self._context.open = False

    async def guard(
        self, call: ToolUseBlock, tool: Tool, messages: Messages
    ) -> ToolUseBlock | Denial:
        """Ask `before_tool` hooks about a call.

        First, the hooks are asked in order and may rewrite the arguments. Then each hook that did
        not see the final arguments is asked again, but may only refuse the call. Every hook has
        therefore seen the arguments that the tool receives.

        Raises:
            HookError: See `decide`; or a hook rewrote the arguments so that they do not match the
                tool's schema.
        """
        row = self._chain.row_for(Phase.BEFORE_TOOL, call.name)
        event = self._about(call, messages)
        seen: list[tuple[BoundHook, JsonObject]] = []
        for hook in row:
            tool_input = event.tool_input
            event, refusal = await self._one(hook, event, shown=_own_copy(event))
            if refusal is not None:
                return refusal
            seen.append((hook, tool_input))
            if not _same(event.tool_input, tool_input):
                self._check(tool, event, hook)
        for hook, seen_input in seen:
            if not _same(seen_input, event.tool_input):
                again = attrs.evolve(_own_copy(event), recheck=True)
                _, refusal = await self._one(hook, again, rewrites=False)
                if refusal is not None:
                    return refusal
        return attrs.evolve(call, input=event.tool_input)

    async def recheck(self, call: ToolUseBlock, messages: Messages) -> Denial | None:
        """Ask `before_tool` hooks about rewritten arguments; they may only refuse the call.

        Raises:
            HookError: See `decide`.
        """
        event = attrs.evolve(self._about(call, messages), recheck=True)
        for hook in self._chain.row_for(Phase.BEFORE_TOOL, call.name):
            _, refusal = await self._one(hook, _own_copy(event), rewrites=False)
            if refusal is not None:
                return refusal
        return None

    async def evaluate_nested(
        self, event: PreToolUseEvent
    ) -> tuple[Denial | None, list[EventBuilder]]:
        """Ask `before_tool` hooks about a call that a nested run makes.

        Only a refusal has an effect, and it applies to the nested run. Nothing is recorded in this
        run. A hook that is currently deciding is not asked about calls in a run that it started.

        Returns:
            The refusal, or None, and the records for the nested run.

        Raises:
            HookError: See `decide`.
        """
        drafts: list[EventBuilder] = []
        for hook in self._chain.row_for(Phase.BEFORE_TOOL, event.tool_name):
            if any(onion is self and one is hook for onion, one in _deciding.get()):
                continue
            started = trio.current_time()
            decision = await self._decision(hook, _own_copy(event))
            if decision is None:
                continue
            if decision.stop or not decision.continue_:
                action = "stop" if decision.stop else "deny"
                drafts.append(_draft(hook, action, started, decision.reason))
                return Denial(hook.name, decision.reason, decision.stop), drafts
            for field, action in _IGNORED.items():
                if getattr(decision, field) is not None:
                    why = decision.reason or f"{field} has no effect on a nested run"
                    drafts.append(_draft(hook, action, started, why))
        return None, drafts

    async def after_tool(
        self, call: ToolUseBlock, output: ToolOutput, messages: Messages
    ) -> ToolOutput:
        """Show a call's result to `after_tool` hooks, which may replace its content for the model.

        Raises:
            HookError: See `decide`.
        """
        if not self._chain.row(Phase.AFTER_TOOL):
            return output
        # Changes that a hook makes in place have no effect.
        shown = await _off_loop(output, partial(copy_json, output.content))
        event, _ = await self.decide(
            PostToolUseEvent(
                session_id=self._context.run.session_id,
                run_id=self._context.run.run_id,
                messages=messages,
                tool_name=call.name,
                tool_input=copy_object(call.input),
                tool_use_id=call.id,
                tool_result=cast("str | JsonObject | list[JsonValue]", shown),
                is_error=output.is_error,
            )
        )
        if event.tool_result is shown:
            return output
        return attrs.evolve(output, content=event.tool_result)

    async def modify_request(self, request: ModelRequest) -> ModelRequest:
        """Pass a request through the `modify_request` hooks, in order, and return the result.

        Raises:
            HookError: See `decide`.
        """
        for hook in self._chain.row(Phase.MODIFY_REQUEST):
            started = trio.current_time()
            result = await self._call(hook, request, self._context)
            if result is None or result is request:
                continue
            if not isinstance(result, ModelRequest):
                raise _wrong(hook, result, "a ModelRequest")
            self._record(hook, "replace", started)
            request = result
        return request

    async def wrap_model_call(self, request: ModelRequest, step: ModelCall) -> ModelCompleted:
        """Make a model call inside the hooks that wrap it; the first registered hook is outermost.

        The agent's timeout only limits the time that a hook itself takes. Time spent inside
        `call_next` counts only if the hook has its own deadline.

        Raises:
            HookError: See `decide`. Errors from the call itself propagate unless a hook catches
                them.
        """
        for hook in reversed(self._chain.row(Phase.WRAP_MODEL_CALL)):
            step = partial(self._wrapped, hook, step, ModelCompleted)
        return await step(request)

    async def wrap_tool_call(self, call: ToolUseBlock, step: ToolCall) -> ToolOutput:
        """Call a tool's handler inside the hooks that wrap it, with timeouts as for model calls.

        Raises:
            HookError: See `decide`. Errors from the handler propagate unless a hook catches them.
        """
        for hook in reversed(self._chain.row_for(Phase.WRAP_TOOL_CALL, call.name)):
            step = partial(self._wrapped, hook, step, ToolOutput)
        return await step(call)

    async def _each(self, event: E) -> tuple[E, Denial | None]:
        for hook in self._chain.row(event.phase):
            if hook.matches(event.tool):
                event, refusal = await self._one(hook, event)
                if refusal is not None:
                    return event, refusal
        return event, None

    # Calls of a single hook.

    async def _one(
        self, hook: BoundHook, event: E, *, shown: E | None = None, rewrites: bool = True
    ) -> tuple[E, Denial | None]:
        started = trio.current_time()
        decision = await self._decision(hook, event if shown is None else shown)
        if decision is None:
            return event, None
        if decision.stop or not decision.continue_:
            refusal = Denial(hook.name, decision.reason, decision.stop)
            self._record(hook, "stop" if decision.stop else "deny", started, decision.reason)
            if decision.stop and self.stopped is None:
                self.stopped = (hook.phase, refusal)
            return event, refusal
        if not rewrites:
            return event, None
        rewritten = _rewritten(hook, event, decision)
        for field, action in _IGNORED.items():
            if getattr(decision, field) is not None and field != event.takes:
                self._record(
                    hook, action, started, decision.reason or f"{field} has no effect in this phase"
                )
        if rewritten is not event:
            self._record(hook, "replace", started, decision.reason)
        return rewritten, None

    async def _decision(self, hook: BoundHook, event: PhaseEvent) -> HookDecision | None:
        context = self._context
        if isinstance(event, PreToolUseEvent | PostToolUseEvent) and not _is_nested(event):
            context = attrs.evolve(context, call_id=event.tool_use_id)
        if hook.phase is not Phase.BEFORE_TOOL:
            result = await self._call(hook, event, context)
        else:
            around = _deciding.set((*_deciding.get(), (self, hook)))
            try:
                result = await self._call(hook, event, context)
            finally:
                _deciding.reset(around)
        if result is not None and not isinstance(result, HookDecision):
            raise _wrong(hook, result, "a HookDecision")
        return result

    async def _call(self, hook: BoundHook, *arguments: object) -> object:
        timeout = self._timeout if hook.deadline is None else hook.deadline
        try:
            with trio.move_on_after(timeout) as scope:
                if self._instrumentation is None:
                    return await _call(hook, *arguments)
                with self._instrumentation.observe(HookOperation(hook.name, hook.phase.value)):
                    return await _call(hook, *arguments)
        except HookError:
            raise
        except BaseException as error:
            if is_cancellation(error):
                raise
            raise self._raised(hook, error) from error  # noqa: ASYNC104
        assert scope.cancelled_caught
        raise _too_late(hook, f"the hook did not decide within {timeout:g} s")

    async def _wrapped(
        self,
        hook: BoundHook,
        step: Callable[[A], Awaitable[T]],
        kind: type[T],
        argument: A,
    ) -> T:
        context = self._context
        if isinstance(argument, ToolUseBlock):
            context = attrs.evolve(context, call_id=argument.id)
        scope = trio.CancelScope()
        # The agent's timeout only limits the time that the hook itself takes. A hook's own deadline
        # also includes the step.
        clock = PausableDeadline(scope) if hook.deadline is None else None
        call_next = CallNext(hook, partial(_asked, hook, step, type(argument)), clock)
        started = trio.current_time()
        timeout = self._timeout if hook.deadline is None else hook.deadline
        result: object = None
        try:
            with scope:
                scope.deadline = started + timeout
                if self._instrumentation is None:
                    result = await _call(hook, argument, call_next, context)
                else:
                    with self._instrumentation.observe(HookOperation(hook.name, hook.phase.value)):
                        result = await _call(hook, argument, call_next, context)
        except HookError:
            raise
        except BaseException as error:
            if is_cancellation(error):
                raise
            if call_next.raised(error):
                raise  # the step raised this error, and the hook did not catch it
            raise call_next.refusal_in(error) or self._raised(hook, error) from error  # noqa: ASYNC104
        finally:
            call_next.end()
        if scope.cancelled_caught:
            raise _too_late(hook, f"the hook did not finish within {timeout:g} s")
        if not isinstance(result, kind):
            raise _wrong(hook, result, f"a {kind.__name__}")
        replaced = not call_next.gave(result)
        if replaced:
            self._record(hook, "replace", started)
        validate = partial(_validated, hook, result, replaced=replaced)
        return await _off_loop(result, validate) if isinstance(result, ToolOutput) else validate()

    def _about(self, call: ToolUseBlock, messages: Messages) -> PreToolUseEvent:
        run = self._context.run
        return PreToolUseEvent(
            session_id=run.session_id,
            run_id=run.run_id,
            messages=messages,
            tool_name=call.name,
            tool_input=call.input,
            tool_use_id=call.id,
        )

    def _check(self, tool: Tool, event: PreToolUseEvent, hook: BoundHook) -> None:
        try:
            call_unprotected(tool.check, event.tool_input)
        except ToolArgumentsError as error:
            raise HookError(
                f"the hook rewrote the arguments so that they are not valid for the tool: {error}",
                hook=hook.name,
                phase=hook.phase,
            ) from error
        except KeyboardInterrupt as error:
            raise self._raised(hook, error) from error

    def _raised(self, hook: BoundHook, error: BaseException) -> BaseException:
        # This includes errors that are not an `Exception`, such as SystemExit, so that they only
        # fail this run.
        rest = self._take_interrupt(error)
        if rest is None:
            return HookError("the hook was interrupted by Ctrl-C", hook=hook.name, phase=hook.phase)
        exit_request = find_exit_request(rest)
        if exit_request is not None:
            return exit_request
        _LOG.warning("hook %s in %s raised an exception", hook.name, hook.phase, exc_info=rest)
        return HookError(
            f"the hook raised {type(rest).__name__}: {rest}", hook=hook.name, phase=hook.phase
        )

    def _record(self, hook: BoundHook, action: str, started: float, reason: str = "") -> None:
        self._context.host.note(_draft(hook, action, started, reason))


async def _call(hook: BoundHook, *arguments: object) -> object:
    loop = find_user_loop(hook.function)
    if loop is None:
        return await await_unprotected(hook.call, *arguments)
    return await loop.call(hook.function, *arguments[: hook.takes])


def _too_late(hook: BoundHook, reason: str) -> HookError:
    _LOG.warning("hook %s in %s: %s", hook.name, hook.phase, reason)
    return HookError(reason, hook=hook.name, phase=hook.phase)


def _draft(hook: BoundHook, action: str, started: float, reason: str) -> EventBuilder:
    return partial(
        HookEvent,
        hook=hook.name,
        phase=hook.phase.value,
        action=action,
        matcher=hook.matcher,
        reason=reason or None,
        duration=trio.current_time() - started,
    )


def _is_nested(event: PhaseEvent) -> bool:
    # The call belongs to a nested run, which also keeps its records.
    return isinstance(event, PreToolUseEvent) and event.nested


def _rewritten(hook: BoundHook, event: E, decision: HookDecision) -> E:
    try:
        return event.rewritten(decision)
    except ConfigError as error:
        raise HookError(str(error), hook=hook.name, phase=hook.phase) from error


def _asked(
    hook: BoundHook, step: Callable[[A], Awaitable[T]], kind: type[A], argument: A
) -> Awaitable[T]:
    """Call the wrapped step if the hook passed an argument of the right type."""
    value = cast(object, argument)
    if not isinstance(value, kind):
        raise HookError(
            f"the hook called call_next with a value of type {type(value).__name__}; "
            f"expected {kind.__name__}",
            hook=hook.name,
            phase=hook.phase,
        )
    return step(argument)


async def _off_loop(output: ToolOutput, work: Callable[[], T]) -> T:
    """Call a function that copies or converts an output, in a thread if the output is large."""
    if converts_fast(output):
        return work()
    return await trio.to_thread.run_sync(work, limiter=_UNBOUNDED)


def _validated(hook: BoundHook, result: T, *, replaced: bool) -> T:
    """Return a hook's result if it can be sent and stored; tool results are copied."""
    what = "JSON value"
    try:
        if isinstance(result, ToolOutput):
            # Copy even the same object, since the hook may have changed it in place.
            plain = not replaced and isinstance(result.content, str) and result.data is None
            return result if plain else cast(T, to_output(result))
        if replaced and isinstance(result, ModelCompleted):
            what = "response"
            return cast(T, validate_response(result))
    except TypeError as error:
        raise HookError(
            f"the hook returned an invalid {what}: {error}", hook=hook.name, phase=hook.phase
        ) from error
    return result


def _same(one: JsonObject, other: JsonObject) -> bool:
    return one is other or same_json(one, other)


def _own_copy(event: PreToolUseEvent) -> PreToolUseEvent:
    # Changes that a hook makes in place only affect its own copy.
    return attrs.evolve(event, tool_input=copy_object(event.tool_input))


def _wrong(hook: BoundHook, result: object, expected: str) -> HookError:
    return HookError(
        f"the hook returned a value of type {type(result).__name__}; "
        f"expected {expected}, or None to proceed",
        hook=hook.name,
        phase=hook.phase,
    )
