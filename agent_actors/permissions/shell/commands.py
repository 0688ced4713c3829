"""Interprets shell commands: narrowly for allow rules, widely for deny and ask rules.

The effect of a shell line cannot be determined without running it. Allow rules therefore accept
only plain lines and compare each simple command in them. A line with an expansion, a redirection, a
comment, a group or an escape is not plain. Deny and ask rules compare every part of the line that
could run as a command: inside quotes, after `sudo` and similar programs, and with a path before the
name. `shell_words` additionally finds commands that cannot be read; these rules match them too.
Rules for commands catch mistakes. Only a sandbox stops a malicious command, because a program such
as `python -c` can hide anything.

Commands are parsed as by a POSIX shell.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from agent_actors.permissions.globs import folded
from agent_actors.permissions.shell.programs import KEYWORDS, WRAPPERS

# Outside quotes, these characters mean that a line is more than a list of simple commands. `#` is
# one of them because it begins a comment, which could contain a quote that this parser sees and the
# shell does not.
_NEVER_PLAIN: Final = frozenset("$`\\<>(){}#")
# Characters that keep a special meaning inside double quotes.
_NEVER_PLAIN_QUOTED: Final = frozenset("$`\\")
_SEPARATORS: Final = frozenset(";&|\n")

_BETWEEN_COMMANDS: Final = re.compile(r"[;&|\n\r]")
# Includes characters that may surround or separate words: `$(rm x)`, `bash -c 'rm x'`, `rm${IFS}x`.
_BETWEEN_WORDS: Final = re.compile(r"[;&|\n\r<>(){}`'\"$]")
# A redirection may precede the command, as in `>log rm x`.
_REDIRECTION: Final = re.compile(
    r"(?:\d{1,3}|\{\w{1,32}\})?&?[<>]{1,3}[&|-]?[ \t]*(?:\"[^\"]*\"|'[^']*'|[^\s;&|<>\"'])*"
)
_UNQUOTED: Final = str.maketrans("", "", "'\"\\")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=\S*")
_RUNNERS: Final = KEYWORDS | WRAPPERS.keys()
# How many words after a wrapper are tried as the beginning of a command. Limits the time for
# hostile lines.
_TRIED: Final = 32
# Maximum number of characters in a line, more than models write in one call. The slowest line of
# this length takes half a second to analyze, which blocks every session of the runtime.
LONGEST_LINE: Final = 100_000


def simple_commands(line: str) -> tuple[str, ...] | None:
    """Return the simple commands in a plain line, with blanks collapsed; None for other lines."""
    if len(line) > LONGEST_LINE:
        return None
    parts: list[str] = []
    current: list[str] = []
    quote = ""
    for character in line:
        if quote:
            if quote == '"' and character in _NEVER_PLAIN_QUOTED:
                return None
            quote = "" if character == quote else quote
            current.append(character)
        elif character in _NEVER_PLAIN or (character < " " and character not in "\t\n"):
            return None
        elif character in _SEPARATORS:
            parts.append("".join(current))
            current = []
        elif character in " \t":
            if current and current[-1] != " ":
                current.append(" ")
        else:
            quote = character if character in "'\"" else ""
            current.append(character)
    if quote:
        return None
    parts.append("".join(current))
    return tuple(part.strip(" ") for part in parts if part.strip(" "))


@lru_cache(maxsize=1)  # because each call is checked against all rules in turn
def possible_commands(line: str) -> tuple[str, ...]:
    """Return every part of a line that could run as a command, normalized by `folded`."""
    joined = line.replace("\\\n", "")
    unquoted = joined.translate(_UNQUOTED)
    found = {folded(line): None}
    for text, between in (
        (unquoted, _BETWEEN_COMMANDS),
        (unquoted, _BETWEEN_WORDS),
        (joined, _BETWEEN_WORDS),
        (_REDIRECTION.sub(" ", joined).translate(_UNQUOTED), _BETWEEN_COMMANDS),
    ):
        for piece in between.split(text):
            found |= dict.fromkeys(_beginnings(folded(piece).split(" ")))
    return tuple(found)


def _beginnings(words: list[str]) -> Iterator[str]:
    start = 0
    while start < len(words) and _ASSIGNMENT.fullmatch(words[start]):
        start += 1
    if start < len(words):
        yield _command(words[start:])
    for number, word in enumerate(words):
        if _program(word) in _RUNNERS:
            for later in range(number + 1, min(number + 1 + _TRIED, len(words))):
                yield _command(words[later:])
            return


def _command(words: list[str]) -> str:
    return " ".join([_program(words[0]), *words[1:]])


def _program(word: str) -> str:
    return word.rpartition("/")[2] or word
