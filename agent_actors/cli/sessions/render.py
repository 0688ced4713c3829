"""Sessions as text: a line per session in a listing, a line per record, and a page per session.

Pure functions. Texts from models and callers may contain line breaks and control characters; a
listing shows each text on one line.
"""

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Final, cast

from agent_actors.abc import LogRepair
from agent_actors.cli.safe_text import visible
from agent_actors.codec.events import dumps_event
from agent_actors.codec.json_values import to_json_object
from agent_actors.codec.openai_messages import messages_to_openai
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import (
    AnyEvent,
    AssistantMessage,
    BackgroundEnded,
    BackgroundLost,
    BackgroundStarted,
    ErrorEvent,
    FileChanged,
    HookEvent,
    Notification,
    ResultEvent,
    SessionCompacted,
    SessionRewind,
    SkillActivated,
    SubagentStarted,
    SystemInit,
    TodosChanged,
    ToolResult,
    ToolUse,
    UnknownEvent,
    UnreadableEvent,
    UsageEvent,
    UserMessage,
    UserQuestion,
    WorkspaceCheckpoint,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.session import Damage, SessionInfo, SessionPage, SessionSnapshot

# Maximum number of characters of a record's content on its line.
_SHOWN: Final = 100
_TIME: Final = "%Y-%m-%d %H:%M:%S"


def page_as_text(page: SessionPage) -> str:
    """Render a listing: a line for each session, and the option that lists the next page."""
    if not page.sessions:
        return "no sessions\n"
    width = max(len(visible(info.session_id)) for info in page.sessions)
    lines = [_line_of(info, width) for info in page.sessions]
    if page.next is not None:
        lines.append(f"more: --after {shlex.quote(page.next)}")
    return "\n".join(lines) + "\n"


def _line_of(info: SessionInfo, width: int) -> str:
    model = info.metadata.get("model")
    about = f"  {visible(str(model))}" if model else ""
    name = visible(info.session_id).ljust(width)
    return f"{name}  {_time(info.updated_at)}  {info.last_seq:>6} records{about}"


def page_as_json(page: SessionPage) -> JsonObject:
    """Return a listing as JSON."""
    return {"sessions": [info_as_json(info) for info in page.sessions], "next": page.next}


def info_as_json(info: SessionInfo) -> JsonObject:
    """Return the properties of a session as JSON."""
    return {
        "session_id": info.session_id,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
        "last_seq": info.last_seq,
        "metadata": dict(info.metadata),
    }


def snapshot_as_text(info: SessionInfo, snapshot: SessionSnapshot) -> str:
    """Render a session as a page."""
    usage = snapshot.usage
    facts: dict[str, str] = {
        "session": info.session_id,
        "created": _time(info.created_at),
        "updated": _time(info.updated_at),
        "records": str(info.last_seq),
        "tokens": f"{usage.input_tokens} in, {usage.output_tokens} out",
        **{key: _plain(value) for key, value in info.metadata.items()},
    }
    if snapshot.skills:
        facts["skills"] = ", ".join(snapshot.skills)
    if snapshot.files:
        facts["files"] = ", ".join(snapshot.files)
    if snapshot.unreadable:
        facts["unreadable"] = ", ".join(f"record {one.seq}" for one in snapshot.unreadable)
    if snapshot.open_calls:
        facts["open calls"] = ", ".join(snapshot.open_calls)
    if snapshot.questions:
        facts["open questions"] = "; ".join(f"{one.id}: {one.prompt}" for one in snapshot.questions)
    width = max(map(len, facts))
    lines = [f"{visible(name).ljust(width)}  {visible(text)}" for name, text in facts.items()]
    lines += [f"[{todo.status}] {visible(todo.title)}" for todo in snapshot.todos]
    return "\n".join([*lines, "", snapshot.messages.pretty(), ""])


def snapshot_as_json(info: SessionInfo, snapshot: SessionSnapshot) -> JsonObject:
    """Return a session as JSON, with its messages in the format of OpenAI's chat completions."""
    usage = snapshot.usage
    return {
        **info_as_json(info),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "requests": snapshot.requests,
        },
        "todos": [
            {"id": todo.id, "title": todo.title, "status": todo.status} for todo in snapshot.todos
        ],
        "files": dict(snapshot.files),
        "skills": list(snapshot.skills),
        "open_calls": list(snapshot.open_calls),
        "unreadable": [
            {"seq": one.seq, "reason": one.reason, "bytes": len(one.raw), "sha256": one.digest}
            for one in snapshot.unreadable
        ],
        "questions": [_plain_object(one) for one in snapshot.questions],
        "messages": [_plain_object(one) for one in messages_to_openai(snapshot.messages)],
    }


def record_as_text(record: AnyEvent) -> str:
    """Render a record as one line."""
    text = visible(_content(record))
    if len(text) > _SHOWN:
        text = text[:_SHOWN] + "…"
    return f"{record.seq or 0:>6}  {_time(record.ts)}  {visible(record.type):<18} {text}".rstrip()


def faults_as_text(faults: Mapping[str, Sequence[str]]) -> str:
    """Render the problems of sessions, one line each, and the number of valid sessions."""
    lines = [f"{visible(name)}: {visible(one)}" for name, found in faults.items() for one in found]
    valid = sum(not found for found in faults.values())
    lines.append(f"{valid} of {len(faults)} sessions are valid")
    return "\n".join(lines) + "\n"


def damage_as_json(damage: Damage) -> JsonObject:
    """Return the damage in a stored log as JSON."""
    return {"seq": damage.seq, "offset": damage.offset, "reason": damage.reason}


def repair_as_text(repair: LogRepair) -> str:
    """Render the repairs of a session, one line each, and the path of the original log."""
    name = visible(repair.session_id)
    if not repair.damage:
        return f"{name}: nothing to repair\n"
    lines = [f"{name}: {visible(str(one))}" for one in repair.damage]
    lines.append(f"{name}: repaired; the original log is in {visible(repair.backup or '')}")
    return "\n".join(lines) + "\n"


def repair_as_json(repair: LogRepair) -> JsonObject:
    """Return the repairs of a session as JSON."""
    damage: list[JsonValue] = [damage_as_json(one) for one in repair.damage]
    return {"session_id": repair.session_id, "repaired": damage, "backup": repair.backup}


def _content(record: AnyEvent) -> str:
    match record:
        case UserMessage(text=text) | ResultEvent(text=text) | Notification(text=text):
            return text
        case AssistantMessage():
            calls = [f"{b.name}(…)" for b in record.blocks if isinstance(b, ToolUseBlock)]
            return " ".join(filter(None, [record.text, *calls]))
        case ToolUse(name=name, input=arguments):
            return f"{name}({_plain(arguments)})"
        case ToolResult(name=name, content=content, is_error=is_error):
            return f"{name}: {'error: ' if is_error else ''}{_plain(content)}"
        case UsageEvent(usage=usage):
            return f"{usage.input_tokens} in, {usage.output_tokens} out"
        case SystemInit(model=model, cwd=cwd):
            return f"{model} in {cwd}"
        case SessionRewind(to_seq=seq):
            return f"to record {seq}"
        case ErrorEvent(error=error, message=message):
            return f"{error}: {message}"
        case UserQuestion(prompt=prompt):
            return prompt
        case HookEvent(hook=hook, action=action, phase=phase):
            return f"{hook}: {action} in {phase}"
        case SessionCompacted(summary=summary):
            return summary
        case SkillActivated(name=name):
            return name
        case TodosChanged(todos=todos):
            return f"{len(todos)} todos"
        case FileChanged(path=path, content=str(content)):
            return f"{path}: {len(content)} characters"
        case FileChanged(path=path, digest=digest, size=size):
            return f"{path}: {size} bytes" if digest else f"{path}: deleted"
        case BackgroundStarted(task_id=task_id, command=command):
            return f"{task_id}: {command}"
        case BackgroundEnded(task_id=task_id, end=end):
            return f"{task_id}: {end.signal or end.exit_code}"
        case BackgroundLost(task_id=task_id):
            return task_id
        case SubagentStarted(subagent_name=name, child_session_id=child):
            return f"{name}: {child}"
        case WorkspaceCheckpoint(phase=phase, files=files, error=error):
            return f"{phase}: {error or f'{files} files'}"
        case UnknownEvent():
            return dumps_event(record)
        case UnreadableEvent(reason=reason):
            return reason
        case _:
            return ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain_object(value: object) -> JsonObject:
    return to_json_object(cast("Mapping[str, object]", value))


def _time(seconds: float) -> str:
    return time.strftime(_TIME, time.localtime(seconds))
