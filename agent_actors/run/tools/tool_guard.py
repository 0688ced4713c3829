"""What stands around the calls of one run: its hooks, its policy, and whoever is asked.

The order is the house's promise: hooks rewrite, and all of them see the final arguments; the policy
judges these; whoever is asked sees these. An approval that rewrites goes back to the schema and to
the hooks, which may then only refuse, and to the deny rules. The hooks of the runs around this one
may refuse a call as well, and see what its own make of it. Nothing gets around that.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import PurePath
from typing import cast

import attrs
import trio

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import (
    MAX_DEPTH,
    JsonObject,
    JsonValue,
    copy_json,
    copy_object,
    is_deeper,
    same_json,
)
from agent_actors.domain.messages import Messages
from agent_actors.errors import ToolArgumentsError
from agent_actors.hooks.decision import Denial
from agent_actors.kernel.interrupts import call_unprotected
from agent_actors.permissions import (
    Allow,
    Ask,
    DecisionContext,
    Deny,
    PermissionDecision,
    PermissionPolicy,
)
from agent_actors.permissions.grants import GrantStore
from agent_actors.run.hooks.run_hooks import HookedRun, refused
from agent_actors.run.tools.ancestor_hooks import HooksAbove
from agent_actors.run.tools.permission_prompts import RunAsking
from agent_actors.tools import Tool
from agent_actors.tools.ask import asks_the_user
from agent_actors.tools.output import ToolOutput


@attrs.frozen(eq=False)
class RunGuard:
    """The `ToolGuard` of a run.

    Attributes:
        hooked: The run's hooks; None: none.
        above: The hooks of the runs around it; None: none.
        policy: What calls may do; None: anything.
        asking: Who is asked.
        memory: What was decided before.
        session_id: The session.
        cwd: The run's working directory.
        messages: Gives the conversation so far.
    """

    hooked: HookedRun | None
    above: HooksAbove | None
    policy: PermissionPolicy | None
    asking: RunAsking
    memory: GrantStore
    session_id: str
    cwd: PurePath
    messages: Callable[[], Messages]

    async def admit(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        """May this call run: the call to run, or what the model is told instead.

        Raises:
            HookError: A hook failed, or `can_use_tool` did; it ends the run.

        Cancellation: safe; a question is closed.
        """
        if is_deeper(call.input, MAX_DEPTH):
            return _denied(f"its arguments are nested more than {MAX_DEPTH} levels deep")
        if self.hooked is not None:
            admitted = await self.hooked.admit(call, tool, self.messages())
            if isinstance(admitted, ToolOutput):
                return admitted
            call = admitted
        if self.above is not None:  # before a person is asked about what they refuse
            refusal = await self.above.judge(call, self.messages())
            if refusal is not None:
                return refused(refusal)
        if self.policy is not None:
            judged = await self._judge(self.policy, call, tool)
            if isinstance(judged, ToolOutput):
                return judged
            call = judged
        return await self._answer(call) if asks_the_user(tool) else call

    async def around(
        self,
        call: ToolUseBlock,
        tool: Tool,
        handler: Callable[[ToolUseBlock], Awaitable[ToolOutput]],
    ) -> ToolOutput:
        """Call the handler inside everybody who wraps it.

        Raises:
            HookError: A hook failed.
        """
        if self.hooked is None:
            return await handler(call)

        async def step(final: ToolUseBlock) -> ToolOutput:
            if same_json(final.input, call.input):
                return await handler(call)
            rewritten = attrs.evolve(call, input=cast(JsonObject, copy_json(final.input)))
            again = await self._rewritten(rewritten, tool)
            if isinstance(again, ToolOutput):
                return again
            if self.policy is not None:
                judged = self.policy.approved(again, tool, self._situation())
                if isinstance(judged, Deny):
                    return _denied(judged.reason)
            return await handler(again)

        # A copy: what a hook writes into the arguments in place is a rewrite like any other.
        shown = attrs.evolve(call, input=copy_object(call.input))
        return await self.hooked.ring.wrap_tool_call(shown, step)

    async def after(self, call: ToolUseBlock, output: ToolOutput) -> ToolOutput:
        """What the model is told.

        Raises:
            HookError: A hook failed.
        """
        if self.hooked is None:
            return output
        return await self.hooked.ring.after_tool(call, output, self.messages())

    async def _judge(
        self, policy: PermissionPolicy, call: ToolUseBlock, tool: Tool
    ) -> ToolUseBlock | ToolOutput:
        verdict = policy.decide(call, tool, self._situation())
        if isinstance(verdict, Ask) and asks_the_user(tool):
            return call  # nobody is asked whether they may be asked
        if isinstance(verdict, Allow) and self.asking.was_answered(call, tool):
            verdict = Ask("")  # a person spoke of this very call; what else would let it run, waits
        if isinstance(verdict, Allow | Deny):
            self.memory.grants = self.memory.grants.spent(verdict.grant)
        else:
            decision = await self.asking.permission(
                call, tool, verdict, partial(self._check, call, tool)
            )
            # As things stand now: others may have decided while one waited.
            verdict, self.memory.grants = policy.settle(
                decision, verdict, call, tool, self._situation()
            )
        if not isinstance(verdict, Allow):
            return _denied(verdict.reason or "nobody decided")
        if verdict.input is None:
            return call
        return await self._rewritten(attrs.evolve(call, input=copy_object(verdict.input)), tool)

    async def _rewritten(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        try:
            call_unprotected(tool.check, call.input)
        except ToolArgumentsError as error:
            return _denied(f"its arguments were rewritten, and do not fit: {error}")
        if self.hooked is not None:
            refusal = await self.hooked.ring.recheck(call, self.messages())
            if isinstance(refusal, Denial):
                return refused(refusal)
        if self.above is not None:
            refusal = await self.above.judge(call, self.messages(), again=True)
            if refusal is not None:
                return refused(refusal)
        return call

    async def _answer(self, call: ToolUseBlock) -> ToolOutput:
        prompt = str(call.input["question"])
        answer = await self.asking.question(call, prompt, _choices(call.input.get("choices")))
        if answer is None:
            return ToolOutput("nobody answered in time", is_error=True)
        if isinstance(answer, str):
            return ToolOutput(answer)
        return ToolOutput(answer.reason or answer.behavior)

    def _check(self, call: ToolUseBlock, tool: Tool, decision: PermissionDecision) -> None:
        check_memory(decision, call, tool, self._situation())

    def _situation(self) -> DecisionContext:
        return DecisionContext(self.cwd, self.session_id, self.memory.grants, trio.current_time())


def check_memory(
    decision: PermissionDecision, call: ToolUseBlock, tool: Tool, situation: DecisionContext
) -> None:
    """Refuse a decision about a call that cannot be remembered as it says.

    Raises:
        ConfigError: The rule cannot be read, names another tool, or does not match the call.
    """
    if decision.remember is not None:
        allowed = decision.behavior == "allow"
        situation.approve(call, tool, decision.remember, allowed=allowed)


def _choices(value: JsonValue) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _denied(reason: str) -> ToolOutput:
    return ToolOutput(f"the call was not permitted: {reason}", is_error=True)
