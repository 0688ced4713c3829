"""`AuditLog`: a hook that writes a JSON line for each prompt, tool call and outcome.

The hook stores nothing and does not access files. It passes each line to an async function that
returns when the line is safely stored, for example `agent_actors.audit.AuditFile.write`. An
exception of that function ends the run, because actions that cannot be recorded must not happen.
Register this hook first: lines then show requests before other hooks rewrite or refuse them, and
calls as they run.
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

# Default number of characters to keep of a text: enough to recognize it.
KEEP: Final = 2_000

WriteLine: TypeAlias = Callable[[bytes], Awaitable[None]]


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


class AuditLog(Hook):
    """Writes a line for each session, prompt, tool call and end of a run.

    Every line has `at` (seconds since the epoch), `event`, `session` and `run`. The events are
    `session.start`, `prompt`, `tool.asked` (the call as the model requests it), `tool.begun` (the
    call as it runs, after hooks and rules; written before the tool starts), `tool.ended`,
    `run.ended` and `session.end`.

    Args:
        write: Receives a line with its line end, and returns when the line is safely stored.
        keep: Number of characters to keep of a prompt, a result and each text in the arguments of a
            call; longer texts are cut, and their length is noted.
        clean: Changes values before they are written, for example `RedactSecrets().clean`.
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
        """Record that a session was opened in this runtime."""
        await self._write(event.session_id, event.run_id, "session.start", source=event.source)

    async def user_prompt_submit(self, event: UserPromptSubmitEvent, ctx: HookContext) -> None:
        """Record the caller's prompt."""
        await self._write(event.session_id, event.run_id, "prompt", text=event.prompt)

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> None:
        """Record a call that the model requests; other hooks may still rewrite or refuse it."""
        if not event.recheck and not event.nested:  # nested runs would have only this event
            await self._tool(event, "tool.asked")

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        """Record that the call runs, with its final arguments."""
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
        """Record that the call ended, also after a timeout."""
        result = event.tool_result
        await self._tool(event, "tool.ended", failed=event.is_error, result=result)

    async def after_agent(self, event: AfterAgentEvent, ctx: HookContext) -> None:
        """Record that the run ended, regardless of the outcome."""
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
        """Record that the session leaves the runtime."""
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
        # ASCII, so that lone surrogates, which models may write, can be encoded.
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
