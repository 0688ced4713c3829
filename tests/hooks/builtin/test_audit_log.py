"""The audit log: requested calls, their execution and their outcomes, one JSON line each."""

import json

import pytest

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.errors import ConfigError
from agent_actors.hooks import AfterAgentEvent, UserPromptSubmitEvent
from agent_actors.hooks.builtin import AuditLog, RedactSecrets
from agent_actors.hooks.events import SessionEndEvent, SessionStartEvent
from agent_actors.tools.output import ToolOutput
from tests.hooks.builtin.helpers import after, before, context


class Lines:
    def __init__(self) -> None:
        self.raw: list[bytes] = []

    async def __call__(self, line: bytes) -> None:
        self.raw.append(line)

    @property
    def entries(self) -> list[dict[str, object]]:
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in self.raw)
        return [json.loads(line) for line in self.raw]


async def test_line_has_time_ids_and_event() -> None:
    lines = Lines()
    log = AuditLog(lines, clock=lambda: 7.0)
    await log.user_prompt_submit(
        UserPromptSubmitEvent(session_id="s", run_id="r", prompt="Two\nlines, \ud800."), context()
    )
    await log.after_agent(
        AfterAgentEvent(
            session_id="s", run_id="r", text="", stop_reason="error", error=ValueError("odd")
        ),
        context(),
    )
    head = {"at": 7.0, "session": "s", "run": "r"}
    assert lines.entries == [
        {**head, "event": "prompt", "text": "Two\nlines, \ud800."},
        {
            **head,
            "event": "run.ended",
            "stop_reason": "error",
            "error": "ValueError: odd",
            "text": "",
        },
    ]


async def test_sessions_are_logged_with_their_reasons() -> None:
    lines = Lines()
    log = AuditLog(lines, clock=lambda: 7.0)
    await log.session_start(SessionStartEvent(session_id="s", run_id="r", source="new"), context())
    await log.session_end(SessionEndEvent(session_id="s", run_id="r", reason="closed"), context())
    head = {"at": 7.0, "session": "s", "run": "r"}
    assert lines.entries == [
        {**head, "event": "session.start", "source": "new"},
        {**head, "event": "session.end", "reason": "closed"},
    ]


async def test_secrets_are_removed_before_truncation() -> None:
    lines = Lines()
    log = AuditLog(lines, keep=30, clean=RedactSecrets().clean)
    key = "ghp_" + "a1B2" * 9
    await log.after_tool(after([key, {"n": 1, "long": "x" * 31}]), context())
    (entry,) = lines.entries
    assert entry["result"] == [
        "[redacted GitHub token]",
        {"n": 1, "long": "x" * 30 + "... (31 characters)"},
    ]
    assert (entry["event"], entry["tool"], entry["failed"]) == ("tool.ended", "echo", False)


async def test_call_is_logged_before_it_begins() -> None:
    order: list[str] = []

    async def write(line: bytes) -> None:
        order.append(json.loads(line)["event"])
        if len(order) > 1:
            raise OSError("no space")

    async def work(call: ToolUseBlock) -> ToolOutput:
        order.append("ran")
        return ToolOutput("done")

    log, call = AuditLog(write), ToolUseBlock("c", "echo", {"a": [1]})
    await log.wrap_tool_call(call, work, context())
    with pytest.raises(OSError, match="no space"):
        await log.wrap_tool_call(call, work, context())
    assert order == ["tool.begun", "ran", "tool.begun"]


async def test_repeated_call_is_logged_once() -> None:
    lines = Lines()
    log = AuditLog(lines)
    await log.before_tool(before(), context())
    await log.before_tool(before(recheck=True), context())
    assert [entry["event"] for entry in lines.entries] == ["tool.asked"]


def test_negative_keep_is_refused() -> None:
    with pytest.raises(ConfigError, match="keep must not be negative; got -1"):
        AuditLog(Lines(), keep=-1)
