"""What a line that somebody typed means: something to say, or a command. Pure.

A command is a slash and a word, and a path such as `/etc/hosts` is none; a slash alone asks which
there are. Two slashes in front say a text that begins with one.
"""

import difflib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

# The word of a command: what looks like a path is text.
_COMMAND: Final = re.compile(r"/([A-Za-z?]\w*)(?:\s+(.*))?", re.DOTALL)
_ESCAPE: Final = "//"
# How like a name another has to be, to be meant perhaps.
_LIKENESS: Final = 0.5


class Name(StrEnum):
    """The commands."""

    HELP = "help"
    MODEL = "model"
    TOOLS = "tools"
    HISTORY = "history"
    TOKENS = "tokens"
    THINKING = "thinking"
    REWIND = "rewind"
    SAVE = "save"
    QUIT = "quit"


@attrs.frozen
class Usage:
    """How a command is used.

    Attributes:
        argument: What may follow it; empty: nothing.
        about: What it does.
        required: Whether something has to follow.
    """

    argument: str
    about: str
    required: bool = False


COMMANDS: Final[Mapping[Name, Usage]] = {
    Name.HELP: Usage("", "show this"),
    Name.MODEL: Usage("[NAME]", "show the model, or go on with another"),
    Name.TOOLS: Usage("", "show the tools that the model is offered"),
    Name.HISTORY: Usage("[N]", "show the conversation, or its last N messages"),
    Name.TOKENS: Usage("", "show what the session used"),
    Name.THINKING: Usage("[on|off]", "show the model's thoughts, or hide them"),
    Name.REWIND: Usage("[N]", "take back your last prompt and all that followed, or the last N"),
    Name.SAVE: Usage("FILE", "write the conversation to a new file, .md or .json", required=True),
    Name.QUIT: Usage("", "leave; so does Ctrl-D"),
}
_ALIASES: Final = {"exit": Name.QUIT, "q": Name.QUIT, "h": Name.HELP, "?": Name.HELP}


@attrs.frozen
class Say:
    """Something to say to the model."""

    text: str


@attrs.frozen
class Command:
    """A command, and what followed it."""

    name: Name
    argument: str = ""


@attrs.frozen
class Mistake:
    """What was no command, and why."""

    message: str


@attrs.frozen
class Nothing:
    """A blank line."""


Line: TypeAlias = Say | Command | Mistake | Nothing


def parse(text: str) -> Line:
    """What a line means.

    Args:
        text: What was typed; it may have several lines.
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
        return Mistake(f"/{name} takes nothing after it; got {argument!r:.40}")
    if usage.required and not argument:
        return Mistake(f"/{name} needs {usage.argument}")
    return Command(name, argument)


def _named(word: str) -> Name | None:
    if word in _ALIASES:
        return _ALIASES[word]
    return next((name for name in Name if name == word), None)


def _unknown(word: str) -> str:
    # A beginning is meant before a likeness: /his is /history, and not /this.
    near = [name.value for name in Name if name.startswith(word.lower())]
    near = near or difflib.get_close_matches(word.lower(), list(Name), n=1, cutoff=_LIKENESS)
    hint = f"did you mean /{near[0]}?" if near else "/help shows all"
    return f"there is no command /{word:.40}; {hint} (to say a text that begins with /, write //)"


def count_of(argument: str, default: int) -> int | Mistake:
    """The number that follows a command.

    Args:
        argument: What followed it.
        default: What nothing stands for.
    """
    if not argument:
        return default
    # Not int(): it takes 1_0 and digits of other scripts.
    if not (argument.isascii() and argument.isdigit()) or not 0 < int(argument[:9]) < 10**6:
        return Mistake(f"expected a number of at least 1; got {argument!r:.40}")
    return int(argument[:9])


def switch_of(argument: str, *, now: bool) -> bool | Mistake:
    """What a switch is set to: `on`, `off`, and nothing for the other way round."""
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
    """Which of the choices was meant; None if it is not plain.

    A number counts from 1; a beginning will do where it begins one choice alone. With no choices
    any text that says something is an answer.
    """
    said = text.strip()
    if not choices:
        return said or None
    if said.isascii() and said.isdigit() and 0 < len(said) < 4 and 0 < int(said) <= len(choices):
        return choices[int(said) - 1]
    folded = said.casefold()
    exact = [choice for choice in choices if choice.casefold() == folded]
    begun = [choice for choice in choices if said and choice.casefold().startswith(folded)]
    found = exact or begun
    return found[0] if len(found) == 1 else None


def help_lines() -> list[tuple[str, str]]:
    """The commands with what follows them, and what they do."""
    return [(f"/{name} {usage.argument}".strip(), usage.about) for name, usage in COMMANDS.items()]
