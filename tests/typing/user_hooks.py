"""A user's code with hooks and approvals, for the type checkers only: no cast and no ignore."""

from typing import assert_type

import attrs

from agent_actors import (
    AgentOptions,
    Hook,
    HookContext,
    HookDecision,
    HookMatcher,
    Messages,
    PermissionDecision,
    PermissionPolicy,
    ToolOutput,
    ToolUseBlock,
)
from agent_actors.domain.json import JsonObject
from agent_actors.hooks import (
    ModelCall,
    PostToolUseEvent,
    PreToolUseEvent,
    ToolCall,
    UserPromptSubmitEvent,
)
from agent_actors.model import ModelCompleted, ModelRequest
from agent_actors.permissions import PermissionRequest


class Guard(Hook):
    """A hook for several phases; each method uses its arguments and returns a permitted value."""

    matcher: str | None = "Edit|Write"
    deadline: float | None = 5.0

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> HookDecision | None:
        assert_type(event.tool_name, str)
        assert_type(event.tool_input, JsonObject)
        return HookDecision(modified_input={**event.tool_input, "dry_run": True})

    async def modify_request(self, request: ModelRequest, ctx: HookContext) -> ModelRequest:
        assert_type(request.messages, Messages)
        return attrs.evolve(request, messages=request.messages[-10:])

    async def wrap_model_call(
        self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
    ) -> ModelCompleted:
        return await call_next(request)

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        output = await call_next(call)
        assert_type(output, ToolOutput)
        return output


async def prompted(event: UserPromptSubmitEvent) -> HookDecision | None:
    return HookDecision(modified_prompt=event.prompt.strip()) if event.prompt else None


def looked(event: PostToolUseEvent) -> None:
    """Observe a tool call in a sync hook."""


async def approve(request: PermissionRequest) -> PermissionDecision | bool:
    return request.tool.name == "Read"


def refuse(request: PermissionRequest) -> bool:
    return False


options = AgentOptions(
    model="m",
    base_url="http://localhost:1234/v1",
    hooks=[
        Guard(),
        {
            "user_prompt_submit": [prompted],
            "post_tool_use": [HookMatcher("Read", [looked])],
        },
    ],
    permissions=PermissionPolicy(allow=["Read"]),
    can_use_tool=approve,
)
assert_type(options.evolve(hooks=Guard(), permissions="plan", can_use_tool=refuse), AgentOptions)
