"""Sessions are listed as text; each takes one line, whatever its messages contain."""

from typing import cast

import pytest

from agent_actors import Messages
from agent_actors.cli.sessions.render import (
    faults_as_text,
    record_as_text,
    snapshot_as_json,
    snapshot_as_text,
)
from agent_actors.domain.blocks import TextBlock, ToolUseBlock
from agent_actors.domain.events import (
    AnyEvent,
    AssistantMessage,
    AttemptRestarted,
    BackgroundEnded,
    BackgroundLost,
    BackgroundStarted,
    ErrorEvent,
    EventScope,
    FileChanged,
    HookEvent,
    Notification,
    ResultEvent,
    SessionCompacted,
    SessionRewind,
    SkillActivated,
    SubagentStarted,
    SystemInit,
    Todo,
    TodosChanged,
    ToolResult,
    ToolUse,
    UnknownEvent,
    UsageEvent,
    UserMessage,
    UserQuestion,
    WorkspaceCheckpoint,
)
from agent_actors.domain.run import Question
from agent_actors.domain.session import SessionInfo, SessionSnapshot
from agent_actors.domain.usage import Usage
from agent_actors.domain.workspace.processes import ProcessEnd

HEAD = (EventScope("s", "r", "q"), "id", 1.0)
CALL = ToolUseBlock("c", "look", {"at": 1})
USED = Usage(3, 4)

RECORDS: list[tuple[AnyEvent, str]] = [
    (UserMessage(*HEAD, "Go\x1b[2J\non."), "Go\ufffd[2J on."),
    (AssistantMessage(*HEAD, (TextBlock("Well."), CALL)), "Well. look(…)"),
    (ToolUse(*HEAD, "c", "look", {"at": 1}), 'look({"at": 1})'),
    (ToolResult(*HEAD, "c", "look", {"é": [1]}), 'look: {"é": [1]}'),
    (ToolResult(*HEAD, "c", "look", "no", is_error=True), "look: error: no"),
    (UsageEvent(*HEAD, USED, USED), "3 in, 4 out"),
    (SystemInit(*HEAD, "/home", "1", "m"), "m in /home"),
    (SessionRewind(*HEAD, 7), "to record 7"),
    (ErrorEvent(*HEAD, "HookError", "broke"), "HookError: broke"),
    (ResultEvent(*HEAD, "Done.", "completed", USED, 1, 0.1), "Done."),
    (Notification(*HEAD, "Psst."), "Psst."),
    (UserQuestion(*HEAD, "q", "May I?"), "May I?"),
    (HookEvent(*HEAD, "guard", "before_tool", "deny"), "guard: deny in before_tool"),
    (SessionCompacted(*HEAD, 3, "In short."), "In short."),
    (SkillActivated(*HEAD, "search"), "search"),
    (TodosChanged(*HEAD, (Todo("1", "Look."),)), "1 todos"),
    (FileChanged(*HEAD, "a", "text"), "a: 4 characters"),
    (FileChanged(*HEAD, "a", None), "a: deleted"),
    (FileChanged(*HEAD, "a", None, "sha256:0", 7), "a: 7 bytes"),
    (BackgroundStarted(*HEAD, "bg1", "make"), "bg1: make"),
    (BackgroundEnded(*HEAD, "bg1", "make", ProcessEnd(exit_code=2)), "bg1: 2"),
    (BackgroundEnded(*HEAD, "bg1", "make", ProcessEnd(signal="SIGKILL")), "bg1: SIGKILL"),
    (BackgroundLost(*HEAD, "bg1", "make"), "background.lost    bg1"),
    (SubagentStarted(*HEAD, "cook", "child", "c"), "cook: child"),
    (WorkspaceCheckpoint(*HEAD, "before", "c", "/r", 3), "before: 3 files"),
    (WorkspaceCheckpoint(*HEAD, "after", "", error="full"), "after: full"),
    (UnknownEvent({"type": "x.later", "seq": 1, "ts": 1}), '{"type":"x.later","seq":1,"ts":1}'),
    (AttemptRestarted(*HEAD, 2, "it broke"), ""),
]


@pytest.mark.parametrize(("record", "expected"), RECORDS, ids=lambda value: str(value)[:20])
def test_a_record_is_a_line(record: AnyEvent, expected: str) -> None:
    line = record_as_text(record)
    assert "\n" not in line
    assert line.split()[3] == record.type
    assert line.endswith(expected)


def test_a_long_record_is_cut() -> None:
    line = record_as_text(UserMessage(*HEAD, "y" * 1000))
    assert line.endswith("y" * 100 + "…")


def test_session_shows_contents_and_open_questions() -> None:
    info = SessionInfo("s", 1.0, 2.0, 9, {"title": "a\nb"})
    snapshot = SessionSnapshot(
        session_id="s",
        messages=Messages().user("Hi."),
        todos=(Todo("1", "Look.", "in_progress"),),
        files={"a.txt": "text"},
        skills=("search",),
        metadata=info.metadata,
        usage=USED,
        requests=1,
        last_seq=9,
        open_calls=("c",),
        questions=(Question("q", "s", "r", "May I?", tool_input={"at": 1}),),
    )
    text = snapshot_as_text(info, snapshot)
    for line in (
        "title           a b",
        "skills          search",
        "files           a.txt",
        "open calls      c",
        "open questions  q: May I?",
        "[in_progress] Look.",
        "[Human] Hi.",
    ):
        assert line in text.splitlines()
    as_json = snapshot_as_json(info, snapshot)
    assert as_json["todos"] == [{"id": "1", "title": "Look.", "status": "in_progress"}]
    assert (as_json["files"], as_json["open_calls"]) == ({"a.txt": "text"}, ["c"])
    [question] = cast("list[dict[str, object]]", as_json["questions"])
    assert (question["id"], question["prompt"], question["tool_input"]) == (
        "q",
        "May I?",
        {"at": 1},
    )


def test_faults_are_listed_by_session() -> None:
    text = faults_as_text({"a": ["record 1: x", "record 2: y"], "b": []})
    assert text == "a: record 1: x\na: record 2: y\n1 of 2 sessions are valid\n"
