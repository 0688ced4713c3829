"""The guard for one run's tool calls: applies hooks, the permission policy and people's answers.

Hooks may rewrite a call, and every hook sees the final arguments. The policy and people also decide
about the final arguments. If an approval rewrites the arguments, the call is checked again against
the schema, the hooks and the deny rules; the hooks may then only deny it. The `before_tool` hooks
of ancestor runs are applied after the run's own hooks.
"""

from collections.abc import Awaitable, Callable
from functools import partial
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
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.run_hooks import refused
from agent_actors.runs.tools.ancestor_hooks import AncestorHooks
from agent_actors.runs.tools.permission_prompts import PermissionPrompter
from agent_actors.tools import Tool
from agent_actors.tools.ask import asks_the_user
from agent_actors.tools.output import ToolOutput


@attrs.frozen(eq=False)
class RunGuard:
    """The `ToolGuard` of a run.

    Attributes:
        context: The context of the run.
        ancestors: The hooks of the ancestor runs; None if there are none.
        policy: The policy for tool calls; None: no restriction.
        prompter: Asks people.
    """

    context: RunContext
    ancestors: AncestorHooks | None
    policy: PermissionPolicy | None
    prompter: PermissionPrompter

    async def admit(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        """Return the call to execute, or a result for the model instead.

        Raises:
            HookError: A hook or `can_use_tool` failed. The error ends the run.

        Cancellation: safe; an open question is closed.
        """
        if is_deeper(call.input, MAX_DEPTH):
            return _denied(f"its arguments are nested more than {MAX_DEPTH} levels deep")
        if self.context.hooks is not None:
            admitted = await self.context.hooks.admit(call, tool, self.context.messages())
            if isinstance(admitted, ToolOutput):
                return admitted
            call = admitted
        if self.ancestors is not None:  # checked before a person is asked
            refusal = await self.ancestors.judge(call, self.context.messages())
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
        """Call the handler inside the hooks that wrap the call.

        Raises:
            HookError: A hook failed.
        """
        if self.context.hooks is None:
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

        # Pass a copy, so that a change that a hook makes in place counts as a rewrite.
        shown = attrs.evolve(call, input=copy_object(call.input))
        return await self.context.hooks.onion.wrap_tool_call(shown, step)

    async def after(self, call: ToolUseBlock, output: ToolOutput) -> ToolOutput:
        """Return the result that the model gets, with the changes of the `after_tool` hooks.

        Raises:
            HookError: A hook failed.
        """
        if self.context.hooks is None:
            return output
        return await self.context.hooks.onion.after_tool(call, output, self.context.messages())

    async def _judge(
        self, policy: PermissionPolicy, call: ToolUseBlock, tool: Tool
    ) -> ToolUseBlock | ToolOutput:
        store = self.context.services.grants
        verdict = policy.decide(call, tool, self._situation())
        if isinstance(verdict, Ask) and asks_the_user(tool):
            return call  # no permission is needed to ask the user
        if isinstance(verdict, Allow) and self.prompter.was_answered(call, tool):
            # A person has answered for this call, and the answer overrides allow rules.
            verdict = Ask("")
        if isinstance(verdict, Allow | Deny):
            store.grants = store.grants.spent(verdict.grant)
        else:
            decision = await self.prompter.permission(
                call, tool, verdict, partial(self._check, call, tool)
            )
            # Use the current grants, since other decisions may have changed them in the meantime.
            verdict, store.grants = policy.settle(decision, verdict, call, tool, self._situation())
        if not isinstance(verdict, Allow):
            return _denied(verdict.reason or "no decision was made")
        if verdict.input is None:
            return call
        return await self._rewritten(attrs.evolve(call, input=copy_object(verdict.input)), tool)

    async def _rewritten(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        try:
            call_unprotected(tool.check, call.input)
        except ToolArgumentsError as error:
            return _denied(f"its rewritten arguments are not valid: {error}")
        if self.context.hooks is not None:
            refusal = await self.context.hooks.onion.recheck(call, self.context.messages())
            if isinstance(refusal, Denial):
                return refused(refusal)
        if self.ancestors is not None:
            refusal = await self.ancestors.judge(call, self.context.messages(), again=True)
            if refusal is not None:
                return refused(refusal)
        return call

    async def _answer(self, call: ToolUseBlock) -> ToolOutput:
        prompt = str(call.input["question"])
        answer = await self.prompter.question(call, prompt, _choices(call.input.get("choices")))
        if answer is None:
            return ToolOutput("the question was not answered in time", is_error=True)
        if isinstance(answer, str):
            return ToolOutput(answer)
        return ToolOutput(answer.reason or answer.behavior)

    def _check(self, call: ToolUseBlock, tool: Tool, decision: PermissionDecision) -> None:
        validate_remember_rule(decision, call, tool, self._situation())

    def _situation(self) -> DecisionContext:
        context = self.context
        grants = context.services.grants.grants
        return DecisionContext(
            context.cwd,
            context.spec.session_id,
            grants,
            trio.current_time(),
            context.untrusted,
        )


def validate_remember_rule(
    decision: PermissionDecision, call: ToolUseBlock, tool: Tool, situation: DecisionContext
) -> None:
    """Check that a decision's `remember` rule matches the call that the decision is about.

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
