"""Shell commands as rules read them: narrowly where something is permitted, widely elsewhere.

Nobody can tell what a line of shell does without running it. So what permits looks at lines that
are plain beyond doubt, and at each simple command of them; a line with an expansion, a redirection,
a comment, a group or an escape is not plain. What restricts looks at every piece of the line that
could be run as a command, also inside quotes, behind `sudo` and the like, and under a path. That
nets mistakes; against ill will only a sandbox is a wall (`python -c` can hide anything).

Commands are read as a POSIX shell reads them.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from agent_actors.permissions.globs import folded

# Outside of quotes these make a line more than a list of simple commands; `#` begins a comment,
# which could hide a quote from this reader and not from the shell.
_NEVER_PLAIN: Final = frozenset("$`\\<>(){}#")
# Inside double quotes only these still mean something.
_NEVER_PLAIN_QUOTED: Final = frozenset("$`\\")
_SEPARATORS: Final = frozenset(";&|\n")

_BETWEEN_COMMANDS: Final = re.compile(r"[;&|\n\r]")
# Also what may stand around, or in the place of, a word: `$(rm x)`, `bash -c 'rm x'`, `rm${IFS}x`.
_BETWEEN_WORDS: Final = re.compile(r"[;&|\n\r<>(){}`'\"$]")
# A redirection may stand before the command itself, as in `>log rm x`.
_REDIRECTION: Final = re.compile(
    r"(?:\d{1,3}|\{\w{1,32}\})?&?[<>]{1,3}[&|-]?[ \t]*(?:\"[^\"]*\"|'[^']*'|[^\s;&|<>\"'])*"
)
_UNQUOTED: Final = str.maketrans("", "", "'\"\\")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=\S*")
# What runs the words after it, and may have options of its own in between.
_RUNNER: Final = re.compile(
    "builtin|busybox|chroot|chrt|command|coproc|do|doas|elif|else|env|eval|exec|fakeroot|flock|if|"
    "ionice|nice|nohup|parallel|pkexec|prlimit|runuser|script|setpriv|setsid|stdbuf|strace|su|sudo|"
    "systemd-run|taskset|then|time|timeout|toybox|unshare|until|watch|while|xargs|"
    "!|-exec|-execdir|-ok|-okdir"
)
# Words after such a runner that are tried as the beginning of a command; bounds hostile lines.
_TRIED: Final = 32
# Characters; more than models write in one call. The worst line of this length takes a quarter of a
# second to look at, in which every session of the runtime waits.
LONGEST_LINE: Final = 100_000


def simple_commands(line: str) -> tuple[str, ...] | None:
    """The simple commands of a line that is plain beyond doubt, blanks collapsed; else None."""
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


@lru_cache(maxsize=1)  # of one call, for all the rules that are tried on it
def possible_commands(line: str) -> tuple[str, ...]:
    """Every piece of a line that could be run as a command, made comparable by `folded`."""
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
        if _RUNNER.fullmatch(_program(word)):
            for later in range(number + 1, min(number + 1 + _TRIED, len(words))):
                yield _command(words[later:])
            return


def _command(words: list[str]) -> str:
    return " ".join([_program(words[0]), *words[1:]])


def _program(word: str) -> str:
    return word.rpartition("/")[2] or word
