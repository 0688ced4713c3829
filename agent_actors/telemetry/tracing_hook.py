"""`TracingHook`: records the model calls and the tool calls of an agent as spans."""

import json
from typing import Final

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import copy_object
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.hooks.hook import Hook, HookContext, ModelCall, ToolCall
from agent_actors.telemetry.recorders import TraceRecorder, current_trace_recorder
from agent_actors.tools.output import ToolOutput

PREVIEW_CHARACTERS: Final = 500
"""Number of characters of a text that a span keeps as a preview."""


class TracingHook(Hook):
    """Records a span for each model call and each tool call. Register this hook first.

    The span `llm.call` has the attributes `message_count`, `content_length`, `tool_calls_count`,
    `content_preview` and `tool_call_names`; the span `tool.call` has `tool_name`, `tool_call_id`,
    `tool_args`, `output_length` and `output_preview`. A preview is the first 500 characters. Spans
    contain prompts and results, so treat traces like the conversations.

    Args:
        recorder: The recorder; None: the recorder of the code that started the run
            (`use_trace_recorder`). Without any recorder, the hook does nothing.
    """

    name = "tracing"

    def __init__(self, recorder: TraceRecorder | None = None) -> None:
        self._recorder = recorder

    async def wrap_model_call(
        self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
    ) -> ModelCompleted:
        """Record a model call, with its retries."""
        recorder = self._recorder or current_trace_recorder()
        if recorder is None:
            return await call_next(request)
        run = ctx.run
        with recorder.start_span(
            "llm.call",
            message_count=len(request.messages),
            model=request.settings.model,
            run_id=run.run_id,
            session_id=run.session_id,
        ) as span:
            answer = await call_next(request)
            names = [block.name for block in answer.blocks if isinstance(block, ToolUseBlock)]
            span.set(
                content_length=len(answer.text),
                tool_calls_count=len(names),
                content_preview=answer.text[:PREVIEW_CHARACTERS],
                tool_call_names=[*names],
            )
            return answer

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        """Record a tool call, as it is executed."""
        recorder = self._recorder or current_trace_recorder()
        if recorder is None:
            return await call_next(call)
        with recorder.start_span(
            "tool.call",
            tool_name=call.name,
            tool_call_id=call.id,
            tool_args=copy_object(call.input),
            run_id=ctx.run.run_id,
        ) as span:
            output = await call_next(call)
            content = output.content
            text = content if isinstance(content, str) else json.dumps(content)
            span.set(
                output_length=len(text),
                output_preview=text[:PREVIEW_CHARACTERS],
                is_error=output.is_error,
            )
            return output
