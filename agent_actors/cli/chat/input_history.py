"""The input of earlier chats, in a file of the user with one JSON string per line.

The history is a convenience: the chat works without it if the file cannot be read or written. Like
in shells, a line that begins with a blank is not stored.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History

from agent_actors.domain.json import nests_deeper

# Lines that the file keeps. It may have twice as many before the oldest are removed.
_KEPT: Final = 1000
_FOLDER: Final = "agent-actors"
_FILE: Final = "chat-input.jsonl"


def history_path(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the history; None if the user has no home directory."""
    state = environment.get("XDG_STATE_HOME", "")
    if state:
        return Path(state) / _FOLDER / _FILE
    try:
        return Path.home() / ".local/state" / _FOLDER / _FILE
    except RuntimeError:
        return None


class InputHistory(History):
    """The input lines of earlier chats, followed by those of this chat.

    Args:
        path: The file; None: the history is not stored.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the stored lines, newest first."""
        lines = self._read()
        if len(lines) > 2 * _KEPT:
            lines = lines[-_KEPT:]
            self._rewrite(lines)
        return [text for line in reversed(lines) if (text := _decoded(line))]

    def append_string(self, string: str) -> None:
        """Add a line, unless it is blank, begins with a blank, or repeats the previous line."""
        if not string.strip() or string[0].isspace():
            return
        known = self.get_strings()
        if not known or known[-1] != string:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Append a line to the file."""
        if self._path is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Only the user may read the file. Two chats may write at once, so lines are appended.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            fd = os.open(self._path, flags, 0o600)
            with os.fdopen(fd, "ab") as file:
                file.write(json.dumps(string).encode() + b"\n")

    def _read(self) -> list[bytes]:
        if self._path is None:
            return []
        try:
            return self._path.read_bytes().splitlines()
        except OSError:
            return []

    def _rewrite(self, lines: Iterable[bytes]) -> None:
        assert self._path is not None
        beside = self._path.with_name(f"{_FILE}.{os.getpid()}")
        with suppress(OSError):
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.writelines(line + b"\n" for line in lines)
            beside.replace(self._path)


def _decoded(line: bytes) -> str:
    """Decode a stored line; empty if it is not valid."""
    if nests_deeper(line, 0):
        return ""
    try:
        found = json.loads(line)
    except ValueError:
        return ""
    return found if isinstance(found, str) else ""
