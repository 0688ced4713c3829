"""The files that the chat keeps for its user: the input history and the default store.

They are in the user's state folder, and only the user can read them. If the folder is not writable,
the chat works without these files.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory

HISTORY: Final = "chat-input"
STORE: Final = "chats.db"


def user_file(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of a file, and create its folder; None if no such file can be written."""
    state = environment.get("XDG_STATE_HOME", "")
    try:
        folder = (Path(state) if state else Path.home() / ".local/state") / "agent-actors"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home directory
        return None
    return folder / name if os.access(folder, os.W_OK | os.X_OK) else None


class InputHistory(FileHistory):
    """The input lines of earlier chats, followed by those of this chat.

    As in shells, a line that begins with a blank is not stored.

    Args:
        path: The file; None: the history is not stored.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__(path or os.devnull)

    def load_history_strings(self) -> Iterable[str]:
        """Return the stored lines, newest first."""
        with suppress(OSError):
            return super().load_history_strings()
        return ()

    def append_string(self, string: str) -> None:
        """Add a line, unless it is blank, begins with a blank, or repeats the previous line."""
        if string.strip() and not string[0].isspace() and self.get_strings()[-1:] != [string]:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Append a line to the file."""
        with suppress(OSError):
            os.close(os.open(self.filename, os.O_WRONLY | os.O_CREAT, 0o600))
            super().store_string(string)
