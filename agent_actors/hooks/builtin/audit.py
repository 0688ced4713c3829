"""AuditLog: what was asked, what was tried and what came of it, a line of JSON each.

It keeps nothing, and knows no files: each line is handed to an async function that returns when the
line is safe, such as `agent_actors.audit.AuditFile.write`. What it raises ends
the run, since what
cannot be recorded is not done. Register it first: what others rewrite or refuse is then told as it
was asked, and what runs as it runs.
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

# Characters that are kept of a text: enough to know it by.
KEEP: Final = 2_000

WriteLine: TypeAlias = Callable[[bytes], Awaitable[None]]


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


class AuditLog(Hook):
    """Writes a line for each session, prompt, tool call and end of a run.

    Every line has `at` (seconds since the epoch), `event`, `session` and `run`. The events are
    `session.start`, `prompt`, `tool.asked` (as the model wants it), `tool.begun` (as it runs, after
    hooks and rules; written before the tool begins), `tool.ended`, `run.ended` and `session.end`.

    Args:
        write: Takes a line with its line end, and returns when it is safe.
        keep: Characters that are kept of a prompt, a result and each text of a call's arguments;
            what is longer is cut, and told how long it was.
        clean: Changes what is about to be written, such as `RedactSecrets().clean`.
        clock: Seconds since the epoch.

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
        """A session is opened here."""
        await self._write(event.session_id, event.run_id, "session.start", source=event.source)

    async def user_prompt_submit(self, event: UserPromptSubmitEvent, ctx: HookContext) -> None:
        """The caller spoke."""
        await self._write(event.session_id, event.run_id, "prompt", text=event.prompt)

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> None:
        """The model wants a call; another hook may still rewrite or refuse it."""
        if not event.recheck and not event.nested:  # of a run below only this would be known
            await self._tool(event, "tool.asked")

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        """The call runs, with these arguments."""
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
        """The call has ended, in time or not."""
        result = event.tool_result
        await self._tool(event, "tool.ended", failed=event.is_error, result=result)

    async def after_agent(self, event: AfterAgentEvent, ctx: HookContext) -> None:
        """The run has ended, however it did."""
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
        """The session leaves the runtime."""
        await self._write(event.session_id, event.run_id, "session.end", reason=event.reason)

    async def _tool(
        self, event: PreToolUseEvent | PostToolUseEvent, what: str, **fields: JsonValue
    ) -> None:
        about: dict[str, JsonValue] = {"call": event.tool_use_id, "tool": event.tool_name}
        if isinstance(event, PreToolUseEvent):
            about["input"] = event.tool_input
        await self._write(event.session_id, event.run_id, what, **about, **fields)

    async def _write(self, session_id: str, run_id: str, what: str, **fields: JsonValue) -> None:
        said = {name: self._cut(self._clean(value)) for name, value in fields.items()}
        entry = {"at": self._clock(), "event": what, "session": session_id, "run": run_id, **said}
        # ASCII: a lone half of a character, which a model can well write, is still told.
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
