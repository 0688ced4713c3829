"""What a run for a small face (`Client`, `query`) does that one for the runtime does not.

The driver asks what stands here at four places; all else of such a run is the same code. It owns
the calls that the run leaves to its caller. Such a call goes the whole way that any call goes,
past its schema, hooks and whoever permits it, up to the place where its handler would be called:
there it is put down, and when nothing else is open the run ends with it open, on record as a call
without a result. Nothing of the run is alive then; the history is valid all the same, since the
fold answers what is open. Whoever has the result adds it to the session (`client/session.py`), and
the next run goes on from there.

With tools that run by themselves a failure is told as `{"error", "tool"}`, to hooks and to the
model, and the rounds of tools are bounded: calls of the answer after the last round are not run.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs

from agent_actors.actors.tool_executor import ToolGuard
from agent_actors.client.content_stream import error_text
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import StopReason, ToolCallResult
from agent_actors.protocol.turn import (
    Append,
    Command,
    Interrupted,
    StartTool,
    State,
    ToolFinished,
    TurnMachine,
)
from agent_actors.run.hooks.run_hooks import Blocked, HookedRun
from agent_actors.tools import Tool
from agent_actors.tools.output import ToolOutput

# What stands in the place of a result that the caller will give; nobody is told it.
_HANDED_OUT: Final = ToolOutput("")


@attrs.define(eq=False)
class FaceRun:
    """One run of a small face.

    Args:
        rounds: Rounds of tools; a model call more, at most.
        hands_out: Whether the caller carries out the calls.
        replaces: The conversation from here on, in place of the session's; None: the session's.

    Attributes:
        hooked: The run's hooks, also when it has ended; None: none.
        run_id: The run; empty before it has begun.
        request_id: The caller's id of the request.
        handed: Calls that were put down for the caller, as hooks rewrote them, by id.
    """

    rounds: int
    hands_out: bool
    replaces: Messages | None = None
    hooked: HookedRun | None = attrs.field(default=None, init=False)
    run_id: str = attrs.field(default="", init=False)
    request_id: str = attrs.field(default="", init=False)
    handed: dict[str, ToolUseBlock] = attrs.field(factory=dict[str, ToolUseBlock], init=False)
    _guarded: set[str] = attrs.field(factory=set[str], init=False)

    @property
    def max_iterations(self) -> int:
        """The most model calls: one after each round, and the first."""
        return self.rounds + 1

    def begin(self, run_id: str, request_id: str, hooked: HookedRun | None) -> None:
        """The run begins."""
        self.run_id, self.request_id, self.hooked = run_id, request_id, hooked

    def guard(self, inner: ToolGuard | None) -> ToolGuard:
        """What stands around the run's calls, and what the runtime has there inside of it."""
        return _FaceGuard(self, inner)

    def bound(self, machine: TurnMachine, commands: Sequence[Command]) -> Sequence[Command]:
        """What to do of the machine's commands, where no round of tools is left."""
        over = not self.hands_out and machine.iteration > self.rounds
        if not over or not any(isinstance(command, StartTool) for command in commands):
            return commands
        kept = [command for command in commands if isinstance(command, Append)]
        why = (
            f"not run: the limit of {self.rounds} rounds of tools (max_tool_iterations) is reached"
        )
        return [*kept, *machine.feed(Interrupted(StopReason.MAX_ITERATIONS, why))]

    async def take(
        self,
        machine: TurnMachine,
        ended: Sequence[ToolCallResult],
        messages: Messages,
        blocked: Blocked | None = None,
    ) -> list[Command]:
        """Tell the machine of calls that have ended, and end the run if only the caller's are open.

        Args:
            machine: The machine.
            ended: The calls.
            messages: The conversation so far.
            blocked: What a hook ended the run with; None if none did. What is open is closed then.

        Raises:
            HookError: A hook failed.

        Cancellation: a call that never began is then answered by the end of the run.
        """
        commands: list[Command] = []
        for result in self.carried_out(ended):
            unguarded = not self.hands_out and result.id not in self._guarded
            told = await self._unguarded(result, messages) if unguarded else result
            commands += machine.feed(ToolFinished(told))
        # They were put down in the order in which hooks and people were done with them.
        in_order = [call.id for call in machine.open_calls if call.id in self.handed]
        self.handed = {call_id: self.handed[call_id] for call_id in in_order}
        if blocked is None and self._only_handed_out(machine):
            stop = Interrupted(StopReason.AWAITING_RESULTS, "", leave_open=True)
            commands += machine.feed(stop)
        return commands

    def carried_out(self, ended: Sequence[ToolCallResult]) -> list[ToolCallResult]:
        """Those that have a result of their own."""
        return [result for result in ended if result.id not in self.handed]

    def _only_handed_out(self, machine: TurnMachine) -> bool:
        if machine.state is not State.TOOLS:
            return False
        if self.hooked is not None and self.hooked.blocked is not None:
            return False  # a hook ended the run: what is open is closed with it
        return all(call.id in self.handed for call in machine.open_calls)

    async def _unguarded(self, result: ToolCallResult, messages: Messages) -> ToolCallResult:
        # No tool of that name, or arguments that do not fit: nothing stood around this call.
        call = ToolUseBlock(result.id, result.name, result.input)
        output = _as_failure(call, ToolOutput(result.content, is_error=True))
        if self.hooked is not None:
            output = await self.hooked.ring.after_tool(call, output, messages)
        return attrs.evolve(result, content=output.content)

    def admitted(self, call: ToolUseBlock) -> None:
        """This call met the guard, whatever that says of it."""
        self._guarded.add(call.id)

    def hand_out(self, call: ToolUseBlock) -> ToolOutput:
        """Put this call down for the caller."""
        self.handed[call.id] = call
        return _HANDED_OUT


@attrs.frozen(eq=False)
class _FaceGuard:
    """The `ToolGuard` of a small face's run, around that of the runtime."""

    _face: FaceRun
    _inner: ToolGuard | None

    async def admit(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        self._face.admitted(call)
        return call if self._inner is None else await self._inner.admit(call, tool)

    async def around(
        self,
        call: ToolUseBlock,
        tool: Tool,
        handler: Callable[[ToolUseBlock], Awaitable[ToolOutput]],
    ) -> ToolOutput:
        if self._face.hands_out:
            return self._face.hand_out(call)
        if self._inner is None:
            return await handler(call)
        return await self._inner.around(call, tool, handler)

    async def after(self, call: ToolUseBlock, output: ToolOutput) -> ToolOutput:
        if call.id in self._face.handed:
            return output
        if output.is_error:
            output = _as_failure(call, output)
        return output if self._inner is None else await self._inner.after(call, output)


def _as_failure(call: ToolUseBlock, output: ToolOutput) -> ToolOutput:
    error = error_text(output.content)
    return attrs.evolve(output, content={"error": error, "tool": call.name})
