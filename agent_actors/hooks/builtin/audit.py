"""`AuditLog`: a hook that writes JSON lines about prompts, tool calls and their outcomes.

The hook stores nothing and does not access files. It passes each line to an async function that
returns when the line is safely stored, for example `agent_actors.audit.AuditFile.write`. If that
function raises an exception, the run ends, because actions that cannot be recorded must not happen.
Register this hook first, so that the lines show requests before other hooks rewrite or refuse them,
and calls as they are finally executed.
"""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import JsonValue
from agent_actors.errors import ConfigError
from agent_actors.hooks.events import (
    AfterAgentEvent,
    PostToolUseEvent,
    PreToolUseEvent,
    SessionEndEvent,
    SessionStartEvent,
    UserPromptSubmitEvent,
)
from agent_actors.hooks.hook import Hook, HookContext, ToolCall
from agent_actors.tools.output import ToolOutput

# Default number of characters to keep of each text: enough to recognize the text.
KEEP: Final = 2_000

WriteLine: TypeAlias = Callable[[bytes], Awaitable[None]]


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


class AuditLog(Hook):
    """Writes lines about sessions, prompts, tool calls and the ends of runs.

    Every line has `at` (seconds since the epoch), `event`, `session` and `run`. The events are
    `session.start`, `prompt`, `tool.asked` (the call as requested by the model), `tool.begun` (the
    call as it will be executed, after hooks and rules; written before the tool starts),
    `tool.ended`, `run.ended` and `session.end`.

    Args:
        write: An async function that receives a line, including its line end, and returns when the
            line is safely stored.
        keep: Number of characters to keep of a prompt, a result and each text in a call's
            arguments. A longer text is truncated, and its length is appended.
        clean: A function that changes values before they are written, for example
            `RedactSecrets().clean`.
        clock: Returns the time in seconds since the epoch.

    Raises:
        ConfigError: `keep` is negative.
    """

    name = "audit_log"

    def __init__(
        self,
        write: WriteLine,
        *,
        keep: int = KEEP,
        clean: Callable[[JsonValue], JsonValue] = _as_it_is,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if keep < 0:
            raise ConfigError(f"AuditLog: keep must not be negative; got {keep}")
        self._write_line = write
        self._keep = keep
        self._clean = clean
        self._clock = clock

    async def session_start(self, event: SessionStartEvent, ctx: HookContext) -> None:
        """Log that a session was opened in this runtime."""
        await self._write(event.session_id, event.run_id, "session.start", source=event.source)

    async def user_prompt_submit(self, event: UserPromptSubmitEvent, ctx: HookContext) -> None:
        """Log the caller's prompt."""
        await self._write(event.session_id, event.run_id, "prompt", text=event.prompt)

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> None:
        """Log a call that the model requested; other hooks may still rewrite or refuse it."""
        if not event.recheck and not event.nested:  # calls in nested runs have no other events here
            await self._tool(event, "tool.asked")

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        """Log that the call is about to run, with its final arguments."""
        await self._write(
            ctx.run.session_id,
            ctx.run.run_id,
            "tool.begun",
            call=call.id,
            tool=call.name,
            input=call.input,
        )
        return await call_next(call)

    async def after_tool(self, event: PostToolUseEvent, ctx: HookContext) -> None:
        """Log that the call ended, even if it timed out."""
        result = event.tool_result
        await self._tool(event, "tool.ended", failed=event.is_error, result=result)

    async def after_agent(self, event: AfterAgentEvent, ctx: HookContext) -> None:
        """Log that the run ended, regardless of the outcome."""
        error = None if event.error is None else f"{type(event.error).__name__}: {event.error}"
        await self._write(
            event.session_id,
            event.run_id,
            "run.ended",
            stop_reason=event.stop_reason,
            error=error,
            text=event.text,
        )

    async def session_end(self, event: SessionEndEvent, ctx: HookContext) -> None:
        """Log that the session is leaving the runtime."""
        await self._write(event.session_id, event.run_id, "session.end", reason=event.reason)

    async def _tool(
        self, event: PreToolUseEvent | PostToolUseEvent, what: str, **fields: JsonValue
    ) -> None:
        about: dict[str, JsonValue] = {"call": event.tool_use_id, "tool": event.tool_name}
        if isinstance(event, PreToolUseEvent):
            about["input"] = event.tool_input
        await self._write(event.session_id, event.run_id, what, **about, **fields)

    async def _write(self, session_id: str, run_id: str, what: str, **fields: JsonValue) -> None:
        cleaned = {name: self._cut(self._clean(value)) for name, value in fields.items()}
        entry = {
            "at": self._clock(),
            "event": what,
            "session": session_id,
            "run": run_id,
            **cleaned,
        }
        # ASCII-only, so that lone surrogates, which models may write, can be encoded.
        await self._write_line(json.dumps(entry).encode("ascii") + b"\n")

    def _cut(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            if len(value) <= self._keep:
                return value
            return f"{value[: self._keep]}... ({len(value)} characters)"
        if isinstance(value, list | tuple):
            return [self._cut(item) for item in value]
        if isinstance(value, dict):
            return {key: self._cut(item) for key, item in value.items()}
        return value
