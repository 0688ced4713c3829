"""Tools, calls and a context for the tests of permissions."""

from pathlib import PurePosixPath
from typing import Final

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import JsonValue
from agent_actors.permissions import DecisionContext
from agent_actors.tools import Tool, tool

CWD: Final = PurePosixPath("/users/ann/project")
HERE: Final = DecisionContext(CWD, "s1")


def bash(command: str, timeout: int = 60) -> str:
    """Run a shell command line."""
    return f"{command}{timeout}"


def edit(file_path: str, text: str = "") -> str:
    """Write a file."""
    return f"{file_path}{text}"


def read(file_path: str) -> str:
    """Read a file."""
    return file_path


def fetch(url: str, mode: str = "text") -> str:
    """Fetch a page."""
    return f"{url}{mode}"


def note(text: str) -> str:
    """Write a note."""
    return text


def send(to: str, body: str) -> str:
    """Send a letter."""
    return f"{to}{body}"


def move(source: str, destination: str, *, keep: bool = False) -> str:
    """Move a file."""
    return f"{source}{destination}{keep}"


def take(arguments: dict[str, object]) -> dict[str, object]:
    return arguments


BASH: Final = tool("Bash")(bash)
EDIT: Final = tool("Edit", open_world=False)(edit)
READ: Final = tool("Read", read_only=True, open_world=False)(read)
FETCH: Final = tool("Fetch", read_only=True)(fetch)
NOTE: Final = tool("Note", destructive=False, open_world=False)(note)
SEND: Final = tool("Send", destructive=False)(send)
MOVE: Final = tool("Move", open_world=False)(move)
LOOSE: Final = Tool("Loose", "", None, take)
TOOLS: Final = (BASH, EDIT, READ, FETCH, NOTE, SEND, MOVE, LOOSE)


def call(made: Tool, **arguments: JsonValue) -> ToolUseBlock:
    return ToolUseBlock("call_1", made.name, arguments)
