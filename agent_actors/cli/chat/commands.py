"""Parse typed input into prompts and commands. Pure.

A command is a slash and a word. A path such as `/etc/hosts` is not a command. A slash alone lists
the commands. Two slashes at the beginning send a text that begins with one slash.
"""

import difflib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

# Matches a command and its argument. Input that looks like a path does not match, so it is text.
_COMMAND: Final = re.compile(r"/([A-Za-z?]\w*)(?:\s+(.*))?", re.DOTALL)
_ESCAPE: Final = "//"
# The minimum similarity at which a command is suggested for an unknown one.
_LIKENESS: Final = 0.5


class Name(StrEnum):
    """The commands."""

    HELP = "help"
    MODEL = "model"
    TOOLS = "tools"
    HISTORY = "history"
    TOKENS = "tokens"
    CONTEXT = "context"
    COMPACT = "compact"
    THINKING = "thinking"
    REWIND = "rewind"
    SAVE = "save"
    QUIT = "quit"


@attrs.frozen
class Usage:
    """The usage of a command.

    Attributes:
        argument: The argument that may follow; empty: none.
        about: The effect of the command.
        required: True if the argument is required.
    """

    argument: str
    about: str
    required: bool = False


COMMANDS: Final[Mapping[Name, Usage]] = {
    Name.HELP: Usage("", "show the commands"),
    Name.MODEL: Usage("[NAME]", "show the model, or switch to another"),
    Name.TOOLS: Usage("", "show the model's tools"),
    Name.HISTORY: Usage("[N]", "show the conversation, or its last N messages"),
    Name.TOKENS: Usage("", "show the token usage of the session"),
    Name.CONTEXT: Usage("", "show what fills the model's context window"),
    Name.COMPACT: Usage("[INSTRUCTIONS]", "replace the older messages by a summary"),
    Name.THINKING: Usage("[on|off]", "show or hide the model's thinking"),
    Name.REWIND: Usage(
        "[N] [--files] [--dry-run]",
        "remove your last prompt, or the last N, and everything after it, also changes of files",
    ),
    Name.SAVE: Usage("FILE", "write the conversation to a new file, .md or .json", required=True),
    Name.QUIT: Usage("", "leave the chat, like Ctrl-D"),
}
_ALIASES: Final = {"exit": Name.QUIT, "q": Name.QUIT, "h": Name.HELP, "?": Name.HELP}


@attrs.frozen
class Say:
    """A prompt for the model."""

    text: str


@attrs.frozen
class Command:
    """A command and its argument."""

    name: Name
    argument: str = ""


@attrs.frozen
class Mistake:
    """Invalid input, with an error message."""

    message: str


@attrs.frozen
class Nothing:
    """A blank line."""


Line: TypeAlias = Say | Command | Mistake | Nothing


def parse(text: str) -> Line:
    """Parse typed input.

    Args:
        text: The input, one or more lines.
    """
    text = text.strip()
    if not text:
        return Nothing()
    if text == "/":
        return Command(Name.HELP)
    if text.startswith(_ESCAPE):
        return Say(text[1:])
    found = _COMMAND.fullmatch(text)
    if found is None:
        return Say(text)
    return _command(found[1], (found[2] or "").strip())


def _command(word: str, argument: str) -> Line:
    name = _named(word.lower())
    if name is None:
        return Mistake(_unknown(word))
    usage = COMMANDS[name]
    if argument and not usage.argument:
        return Mistake(f"/{name} takes no argument; got {argument!r:.40}")
    if usage.required and not argument:
        return Mistake(f"/{name} requires {usage.argument}")
    return Command(name, argument)


def _named(word: str) -> Name | None:
    if word in _ALIASES:
        return _ALIASES[word]
    return next((name for name in Name if name == word), None)


def _unknown(word: str) -> str:
    # A command that begins with the typed name is preferred to a similar one: /his suggests
    # /history.
    near = [name.value for name in Name if name.startswith(word.lower())]
    near = near or difflib.get_close_matches(word.lower(), list(Name), n=1, cutoff=_LIKENESS)
    hint = f"did you mean /{near[0]}?" if near else "/help lists the commands"
    return f"the command /{word:.40} is unknown; {hint} (to send text that begins with /, write //)"


def count_of(argument: str, default: int) -> int | Mistake:
    """Parse a number after a command.

    Args:
        argument: The text after the command.
        default: The number to return for an empty argument.
    """
    if not argument:
        return default
    # Do not use int(): it accepts 1_0 and digits of other scripts.
    if not (argument.isascii() and argument.isdigit()) or not 0 < int(argument[:9]) < 10**6:
        return Mistake(f"expected a number of at least 1; got {argument!r:.40}")
    return int(argument[:9])


@attrs.frozen
class Rewind:
    """The arguments of `/rewind`.

    Attributes:
        count: The number of prompts to remove.
        files: True to restore the files too.
        dry_run: True to change nothing.
    """

    count: int
    files: bool
    dry_run: bool


def rewind_of(argument: str) -> Rewind | Mistake:
    """Parse the arguments of `/rewind`. `--dry-run` implies `--files`."""
    words = argument.split()
    dry_run = "--dry-run" in words
    files = dry_run or "--files" in words
    count = count_of(" ".join(one for one in words if one not in {"--files", "--dry-run"}), 1)
    return count if isinstance(count, Mistake) else Rewind(count, files, dry_run)


def switch_of(argument: str, *, now: bool) -> bool | Mistake:
    """Parse `on` or `off`; an empty argument toggles the switch."""
    match argument.lower():
        case "":
            return not now
        case "on":
            return True
        case "off":
            return False
        case _:
            return Mistake(f"expected on or off; got {argument!r:.40}")


def read_choice(text: str, choices: tuple[str, ...]) -> str | None:
    """Return the choice that a text selects; None if it selects none or several.

    A text selects a choice by its number, counted from 1, by its complete name, or by a prefix that
    is unique among the choices. Without choices, any text that is not blank is an answer.
    """
    line = text.strip()
    if not choices:
        return line or None
    if line.isascii() and line.isdigit() and 0 < len(line) < 4 and 0 < int(line) <= len(choices):
        return choices[int(line) - 1]
    folded = line.casefold()
    exact = [choice for choice in choices if choice.casefold() == folded]
    begun = [choice for choice in choices if line and choice.casefold().startswith(folded)]
    found = exact or begun
    return found[0] if len(found) == 1 else None


def help_lines() -> list[tuple[str, str]]:
    """Return a line for each command: its name, its argument and its effect."""
    return [(f"/{name} {usage.argument}".strip(), usage.about) for name, usage in COMMANDS.items()]
