"""Text from models and tools, made safe and short for display. Pure.

The arguments of a call and the result of a tool may be huge. These functions process only the
beginning of a text, and count the line ends in the rest.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from agent_actors.cli.chat.messages import ChatMessage, Kind
from agent_actors.cli.edits.diffs import Diff, DiffLine, LineKind
from agent_actors.cli.safe_text import clean
from agent_actors.domain.json import MAX_MESSAGE_DEPTH, JsonObject, JsonValue, is_deeper
from agent_actors.domain.usage import Usage
from agent_actors.runs.model.context_size import ContextSize

_MORE: Final = "..."
_DIFF_KINDS: Final[dict[LineKind, Kind]] = {
    "added": "added",
    "removed": "removed",
    "context": "plain",
    "place": "dim",
}
# Maximum number of characters shown of a call or of a line of a result, readable at a glance.
CALL_SIZE: Final = 200
_LINE_SIZE: Final = 300
# Maximum number of lines shown of a result; the model gets the complete result.
RESULT_LINES: Final = 8


def on_one_line(text: str, size: int) -> str:
    """Return the beginning of a text on one line, with at most this many characters.

    Args:
        text: A text of any length.
        size: The maximum number of characters; at least 4.
    """
    # White space is collapsed afterwards, so more than `size` characters may be needed; four times
    # as many are enough.
    head = " ".join(clean(text[: 4 * size]).split())
    if len(head) <= size and len(text) <= 4 * size:
        return head
    return head[: size - len(_MORE)].rstrip() + _MORE


def call_text(name: str, arguments: JsonObject, size: int = CALL_SIZE) -> str:
    """Return a call as one line, for example `search(query="tea", limit=3)`."""
    parts: list[str] = []
    room = size
    for key, value in arguments.items():
        part = f"{key}={json_text(value, room + 1)}"
        parts.append(part)
        room -= len(part) + 2
        if room < 0:
            break
    return on_one_line(f"{name}({', '.join(parts)})", size)


def json_text(value: JsonValue, size: int) -> str:
    """Return the beginning of a value's JSON, with at least `size` characters if possible."""
    if isinstance(value, str):
        # The encoder processes a string in one step, so a long string is truncated first.
        value = value[:size]
    elif is_deeper(value, MAX_MESSAGE_DEPTH):
        return "(nested too deeply to be shown)"
    pieces: list[str] = []
    length = 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > size:
            break
    return "".join(pieces)


def result_lines(content: str | JsonObject | list[JsonValue], most: int) -> Iterator[str]:
    """Yield the first lines of a tool's result, then a note about the rest.

    Args:
        content: The result of the tool.
        most: The maximum number of lines, not counting the note.
    """
    readable = _readable(content)
    if readable is not None:
        content = readable
    if not isinstance(content, str):
        found = json_text(content, _LINE_SIZE)
        yield clean(found[:_LINE_SIZE]) + (_MORE if len(found) > _LINE_SIZE else "")
        return
    text = content
    start = 0
    for _ in range(most):
        if start >= len(text):
            return
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start : min(end, start + _LINE_SIZE)]
        more = end - start - len(line)
        yield clean(line) + (f"{_MORE} ({more:,} characters more)" if more else "")
        start = end + 1
    if start < len(text):
        lines = text.count("\n", start) + (not text.endswith("\n"))
        yield f"{_MORE} ({lines:,} more {'line' if lines == 1 else 'lines'})"


def _kind_of(line: DiffLine) -> LineKind:
    return line.kind


def _readable(content: str | JsonObject | list[JsonValue]) -> str | None:
    """Return the text of the result of a command or a search; None for any other result."""
    match content:
        case {"stdout": str(out), "stderr": str(err), "exit_code": int() | None as code, **rest}:
            end = f"signal {rest.get('signal', '?')}" if code is None else f"exit code {code}"
            end += ", timed out" if "timed_out" in rest else ""
            streams = [text if text.endswith("\n") else f"{text}\n" for text in (out, err) if text]
            # The end comes first, because only the first lines of a result are shown.
            return "".join([*([] if code == 0 else [f"{end}\n"]), *streams]) or "(no output)"
        case {"matches": list(matches)} if matches:
            lines = [_match_text(match) for match in matches]
            return None if None in lines else "\n".join(filter(None, lines))
        case {"files": list(files)} if files and all(isinstance(file, str) for file in files):
            return "\n".join(map(str, files))
        case _:
            return None


def _match_text(match: JsonValue) -> str | None:
    match match:
        case {"file": str(file), "line": int(line), "text": str(text)}:
            return f"{file}:{line}: {text}"
        case _:
            return None


def diff_messages(diff: Diff) -> Iterator[ChatMessage]:
    """Yield the lines of a diff as messages; consecutive lines of one kind are one message."""
    for kind, lines in groupby(diff.shown, _kind_of):
        yield ChatMessage("\n".join(f"  {line.text}" for line in lines), _DIFF_KINDS[kind])


def duration(seconds: float) -> str:
    """Format a duration, for example `40 ms`, `1.2 s` or `2 min 5 s`."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def usage_text(usage: Usage) -> str:
    """Format token usage, for example `1,234 tokens in, 56 out`."""
    parts = [f"{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens:,} from the cache")
    if usage.reasoning_tokens:
        parts.append(f"{usage.reasoning_tokens:,} of reasoning")
    if usage.estimated:
        parts.append("estimated")
    return ", ".join(parts)


def context_lines(size: ContextSize) -> list[str]:
    """Return a line for each part of a session's next request, and a line for the total."""
    parts = {
        "system prompt": size.system_prompt,
        "tools": size.tools,
        "summary": size.summary,
        "messages": size.messages,
        "tool results": size.results,
    }
    share = round(100 * size.total / size.window)
    source = "as the endpoint counted" if size.reported else "estimated"
    total = f"total: {size.total:,} of {size.window:,} tokens ({share} %), {source}"
    return [*(f"{name}: about {tokens:,} tokens" for name, tokens in parts.items()), total]
