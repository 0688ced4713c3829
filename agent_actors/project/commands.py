"""Slash commands: lines of a prompt that begin with `/name`, in files and in code.

A command never executes a program. The text `` !`command` `` in a file, which other tools execute,
stays text here.
"""

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from agent_actors.domain.workspace.project import FileText, ProjectProblem
from agent_actors.errors import ConfigError
from agent_actors.project.markdown import first_paragraph, one_line, split_frontmatter

MAX_COMMANDS: Final = 500
"""Maximum number of commands in files."""
MAX_COMMAND_BYTES: Final = 16_384
"""Maximum size of a command's file, in bytes."""
MAX_EXPANSION: Final = 1_048_576
"""Maximum number of characters of a command's text with its arguments."""

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.:\-]{0,99}")
_LINE: Final = re.compile(r"/([A-Za-z0-9][\w.:\-]{0,99})(?:[ \t]+(.*))?")
_PLACE: Final = re.compile(r"\$(ARGUMENTS\b|[1-9][0-9]?)")
_MAX_DESCRIPTION: Final = 300


@attrs.frozen(eq=False)
class Command:
    """A slash command that is defined in code.

    Pass either `handler` or `body`.

    Args:
        name: The name, without the slash: letters, digits, `_`, `-`, `.` and `:`.
        description: The purpose of the command, for completion.
        handler: A function, sync or async, that takes the text after the name. Its line is taken
            out of the prompt. Results and errors are in `RunResult.command_results`. A sync
            function runs in a worker thread.
        body: The text that replaces the line. `$ARGUMENTS` is the text after the name, and `$1`,
            `$2` and so on are its words.

    Raises:
        ConfigError: A field is not valid.
    """

    name: str
    description: str = ""
    handler: Callable[[str], object] | None = None
    body: str = ""

    def __attrs_post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                "Command: name must be 1 to 100 letters, digits, '_', '-', '.' or ':'; got "
                f"{self.name!r:.120}"
            )
        if bool(self.body) == (self.handler is not None):
            raise ConfigError(f"Command {self.name!r}: pass either `handler` or `body`")


@attrs.frozen(eq=False)
class CommandEntry:
    """A command that a run knows.

    Attributes:
        name: The name, without the slash.
        description: The purpose, on one line.
        hint: The arguments, as a hint for people; empty if unknown.
        body: The text that replaces the line; empty for a command with a handler.
        path: The path of the file; empty for a command that is defined in code.
        handler: The handler; None for a command with a body.
    """

    name: str
    description: str
    hint: str = ""
    body: str = ""
    path: str = ""
    handler: Callable[[str], object] | None = None


@attrs.frozen
class CommandLine:
    """A line of a prompt that may be a command.

    Attributes:
        text: The complete line.
        name: The name; empty if the line is not a command.
        arguments: The text after the name.
    """

    text: str
    name: str = ""
    arguments: str = ""


def command_lines(prompt: str) -> list[CommandLine]:
    """Return the lines of a prompt."""
    lines: list[CommandLine] = []
    for text in prompt.split("\n"):
        found = _LINE.fullmatch(text.rstrip())
        line = CommandLine(text)
        if found is not None:
            line = CommandLine(text, found[1], (found[2] or "").strip())
        lines.append(line)
    return lines


def commands_in_code(commands: Iterable[Command]) -> list[CommandEntry]:
    """Return the entries for commands that are defined in code."""
    return [
        CommandEntry(
            command.name,
            one_line(command.description, _MAX_DESCRIPTION),
            body=command.body,
            handler=command.handler,
        )
        for command in commands
    ]


def parse_command(file: FileText, name: str, shown: str) -> CommandEntry | ProjectProblem:
    """Return the command in a file, or the problem with the file.

    Args:
        file: The file.
        name: The name of the command.
        shown: The path of the file in reports.
    """
    safe = one_line(shown, 500)
    if not file.complete:
        return ProjectProblem(safe, f"expected at most {MAX_COMMAND_BYTES} bytes; got {file.size}")
    if not _NAME.fullmatch(name):
        return ProjectProblem(safe, "the name may have only letters, digits, '_', '-' and '.'")
    parts = split_frontmatter(file.text)
    if parts.error:
        return ProjectProblem(safe, parts.error, parts.line)
    fields = parts.fields or {}
    body = parts.body.strip()
    description = _text(fields, "description", _MAX_DESCRIPTION)
    return CommandEntry(
        name,
        description or first_paragraph(body, _MAX_DESCRIPTION),
        _text(fields, "argument-hint", 100),
        body,
        safe,
    )


def command_index(
    found: Iterable[CommandEntry],
) -> tuple[Mapping[str, CommandEntry], list[ProjectProblem]]:
    """Return commands by name, sorted, and a problem for each command that another one hides.

    Args:
        found: The commands, nearest first. The first command with a name is used.
    """
    nearest: dict[str, CommandEntry] = {}
    problems: list[ProjectProblem] = []
    for entry in found:
        other = nearest.setdefault(entry.name, entry)
        if other is not entry:
            why = f"the command /{entry.name} is also defined in {other.path or 'code'}"
            problems.append(ProjectProblem(entry.path, f"{why}, which is used", warning=True))
    return dict(sorted(nearest.items())), problems


def expanded(body: str, arguments: str) -> str:
    """Return the text of a command with its arguments.

    Raises:
        ConfigError: The text with its arguments is too long.
    """
    places = len(_PLACE.findall(body))
    if len(body) + places * len(arguments) > MAX_EXPANSION:
        raise ConfigError(
            f"the text of the command with its arguments has more than {MAX_EXPANSION} characters; "
            "pass shorter arguments"
        )
    try:
        words = shlex.split(arguments)
    except ValueError:  # a quotation mark that is not closed
        words = arguments.split()

    def value(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return arguments
        position = int(match[1])
        return words[position - 1] if position <= len(words) else ""

    return _PLACE.sub(value, body)


def unknown_command(name: str, known: Iterable[str]) -> str:
    """Return the notice about a line whose command is not known."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean /{near[0]}?" if near else ""
    return f"the command /{name} is unknown, so the line is sent as text{hint}"


def _text(fields: Mapping[str, object], name: str, limit: int) -> str:
    value = fields.get(name)
    return one_line(value, limit) if isinstance(value, str) else ""
