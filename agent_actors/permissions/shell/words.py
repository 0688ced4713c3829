"""Finds the commands in a shell line for deny and ask rules, including unreadable ones.

A word is unreadable if only the shell knows its text (because of an expansion, a substitution,
`$'…'` or braces). The command is then known only up to that word, and a rule that could match the
rest matches. An unreadable program name could mean any program, so every rule matches it.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import attrs

from agent_actors.permissions.globs import folded
from agent_actors.permissions.shell.programs import (
    KEYWORDS,
    RUN_COMMANDS,
    SCRIPTED,
    SHELLS,
    WRAPPERS,
)

# Marks a part of a word that only the shell knows. It cannot occur otherwise, because arguments of
# programs cannot contain a NUL.
_UNKNOWN: Final = "\0"
# Marks an unquoted glob character, which matters only in the name of a program.
_GLOB: Final = "\1"
_SEPARATORS: Final = frozenset(";&|\n\r")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
_AMOUNT: Final = re.compile(r"[-+]?(?:\d+(?:\.\d+)?[a-z]{0,2}|0x[0-9a-f]+)", re.IGNORECASE)
_SCRIPT: Final = re.compile(r"[\s;&|<>()`{}$'\"\\]")
_DELIMITER: Final = re.compile(r"[ \t]*([^\s;&|<>()]+)")
_SUBSTITUTION: Final = re.compile(r"\$\(([^)]*)\)|`([^`]*)`")
# How many words after a wrapper are tried as the beginning of a command; a longer list is
# unreadable. Limits the time for hostile lines.
_TRIED: Final = 64
# Maximum nesting of scripts, as in `sh -c "sh -c …"`; deeper scripts are unreadable.
_DEEPEST: Final = 4
# Maximum nesting of substitutions and groups; deeper ones are unreadable.
_NESTED: Final = 50
# Options that are followed by a command in any program, as in `find . -exec rm {} +`.
_OPTIONS: Final = frozenset(word for word in WRAPPERS if word.startswith("-"))


@attrs.frozen
class PossibleCommand:
    """A command that a line may run, normalized by `folded`.

    Attributes:
        text: The command, or the part of it before the first unreadable word.
        complete: True if no part of the command is unreadable.
    """

    text: str
    complete: bool = True

    def may_begin_with(self, head: str, *, more: bool) -> bool:
        """Return whether this command, if incomplete, may be one that a pattern matches.

        Args:
            head: The pattern up to its first wildcard.
            more: True if the pattern has a wildcard.
        """
        return head.startswith(self.text) or (more and self.text.startswith(head))


_ANY: Final = PossibleCommand("", complete=False)


@lru_cache(maxsize=1)  # because each call is checked against all rules in turn
def readable_commands(line: str) -> tuple[PossibleCommand, ...]:
    """Return every command that a line may run, as far as the commands can be read."""
    return tuple(dict.fromkeys(_read(line, 0)))


def _read(line: str, depth: int) -> Iterator[PossibleCommand]:
    for words in _Scanner(line.replace("\\\n", "")).commands():
        yield from _of_words(words, depth)


@attrs.define
class _Open:
    """A command that is being read.

    Attributes:
        words: The command's complete words.
        word: The word that is being read; None between words.
        quoted: True inside double quotes.
        skips: True if the next word is the target of a redirection.
    """

    words: list[str] = attrs.field(factory=list[str])
    word: str | None = None
    quoted: bool = False
    skips: bool = False

    def add(self, text: str) -> None:
        self.word = (self.word or "") + text

    def end_word(self) -> None:
        if self.word is not None and not self.skips:
            self.words.append(self.word)
        if self.word is not None:
            self.word, self.skips = None, False


class _Scanner:
    """Splits a line into simple commands and their words, as a POSIX shell does."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._open = _Open()
        # The commands around the current one, each with the character that ends the current one.
        self._outer: list[tuple[str, _Open]] = []
        self._done: list[list[str]] = []
        # The end markers of the here-documents that begin after this line, and True for quoted
        # ones.
        self._documents: list[tuple[str, bool]] = []

    def commands(self) -> list[list[str]]:
        while self._at < len(self._line):
            if len(self._outer) > _NESTED:
                return [[_UNKNOWN]]
            character = self._line[self._at]
            self._at += 1
            if character in "`$\\":
                self._expand(character)
            elif character == '"':
                self._open.quoted = not self._open.quoted
                self._open.add("")
            elif self._open.quoted:
                self._open.add(character)
            else:
                self._scan(character)
        while self._outer:
            self._leave()
        self._end_command()
        return self._done

    def _scan(self, character: str) -> None:
        """Scan a character outside of quotes."""
        command = self._open
        if character in " \t":
            command.end_word()
        elif character in _SEPARATORS:
            self._end_command()
            if character == "\n" and self._documents:
                self._skip_documents()
        elif character == "'":
            command.add(self._until("'"))
        elif character in "<>":
            self._redirect(character)
        elif character == "(":
            self._enter(")")
        elif character == ")":
            if self._outer and self._outer[-1][0] == ")":
                self._leave()
            else:
                self._end_command()
        elif character == "#" and command.word is None:
            end = self._line.find("\n", self._at)
            self._at = len(self._line) if end < 0 else end
        elif character == "{" and self._next() not in ("", "}") and not self._next().isspace():
            command.add(_UNKNOWN)  # `{rm,x}`
        elif character in "*?" or (character == "[" and self._next() not in ("", " ", "[")):
            command.add(_GLOB)
        else:
            command.add(character)

    def _expand(self, character: str) -> None:
        """Scan a character that double quotes do not protect."""
        command, following = self._open, self._next()
        if character == "`":
            if self._outer and self._outer[-1][0] == "`":
                self._leave()
            else:
                command.add(_UNKNOWN)
                self._enter("`")
        elif character == "\\":
            self._at += 1
            kept = "\\" if command.quoted and following not in '$`"\\' else ""
            command.add(kept + following)
        elif following == "(":
            self._at += 1
            command.add(_UNKNOWN)
            self._enter(")")
        elif following == "'" and not command.quoted:
            self._at += 1
            command.add(_UNKNOWN)
            while self._next() not in ("'", ""):
                self._at += 2 if self._next() == "\\" else 1
            self._at += 1
        elif following == '"' and not command.quoted:
            pass  # `$"…"` is translated text
        elif following.isalnum() or following in "_{@*#?$!-":
            command.add(_UNKNOWN if following else "$")
        else:
            command.add(character)

    def _redirect(self, character: str) -> None:
        command = self._open
        if command.word is not None and command.word.isdigit():
            command.word = None  # the number of a file descriptor
        command.end_word()
        if self._next() == "(":
            self._at += 1
            command.add(_UNKNOWN)
            self._enter(")")
            return
        while self._next() and self._next() in "<>&|-":
            character += self._next()
            self._at += 1
        if character in ("<<", "<<-"):
            found = _DELIMITER.match(self._line, self._at)
            if found is not None:
                self._at = found.end()
                plain = re.sub(r"[\\'\"]", "", found[1])
                self._documents.append((plain, plain != found[1]))
            return
        # The text of a here-string may be the input of a shell.
        command.skips = character != "<<<"

    def _skip_documents(self) -> None:
        """Skip the text of here-documents, except for substitutions in the text.

        A shell whose input is the text is unreadable in any case.
        """
        for end, quoted in self._documents:
            body: list[str] = []
            while self._at < len(self._line):
                line = self._until("\n")
                if line.lstrip("\t") == end:
                    break
                body.append(line)
            for found in () if quoted else _SUBSTITUTION.finditer("\n".join(body)):
                self._done += _Scanner(found[1] or found[2]).commands()
        self._documents = []

    def _next(self) -> str:
        return self._line[self._at : self._at + 1]

    def _until(self, end: str) -> str:
        start = self._at
        found = self._line.find(end, start)
        self._at = len(self._line) if found < 0 else found + 1
        return self._line[start:] if found < 0 else self._line[start:found]

    def _enter(self, end: str) -> None:
        self._outer.append((end, self._open))
        self._open = _Open()

    def _leave(self) -> None:
        self._end_command()
        self._open = self._outer.pop()[1]

    def _end_command(self) -> None:
        self._open.end_word()
        if self._open.words:
            self._done.append(self._open.words)
        self._open = _Open(quoted=self._open.quoted)


def _of_words(words: list[str], depth: int) -> Iterator[PossibleCommand]:
    """Return the commands that the words of a simple command may run."""
    start = 0
    while start < len(words) and (_is_set(words[start]) or words[start] in KEYWORDS):
        start += 1
    if start == len(words):
        return
    yield _command(words[start:])
    program, rest = folded(_base(words[start])), words[start + 1 :]
    if program in WRAPPERS:
        yield from _wrapped(program, rest, depth)
        return
    runs = RUN_COMMANDS.get(program, _OPTIONS)
    for number, word in enumerate(rest):
        if word in runs:
            yield from _wrapped(word, rest[number + 1 :], depth)
            return


def _wrapped(program: str, words: list[str], depth: int) -> Iterator[PossibleCommand]:
    """Return the commands that a wrapper may run, which may begin at any of its words."""
    operands, script = WRAPPERS.get(program, 1), False
    may_begin, after_option = True, False
    for number, word in enumerate(words[: _TRIED + 1]):
        if may_begin and (number == _TRIED or _is_unreadable(program, word)):
            yield _ANY
            return
        yield from _beginning(words[number:], depth)
        inner = folded(_base(word))
        if may_begin and (inner in WRAPPERS or inner in RUN_COMMANDS):
            program, operands, script = inner, max(operands, WRAPPERS.get(inner, 2)), False
        elif word.startswith("-"):
            after_option = True
        elif after_option:
            after_option, script = False, True
        elif _AMOUNT.fullmatch(word):
            operands = max(operands - 1, 0)
        elif not _is_set(word):
            may_begin, operands, script = operands > 0, operands - 1, True
    if program in SHELLS and not script:
        yield _ANY  # the shell runs its input
    if program == "eval":
        yield from _script(" ".join(words), depth)


def _is_unreadable(program: str, word: str) -> bool:
    """Return whether a word after a wrapper may be a command or a script that cannot be read."""
    if program in SCRIPTED and word.startswith(("/dev/", "/proc/")):
        return True
    return (_UNKNOWN in word or _GLOB in word) and not _is_set(word)


def _is_set(word: str) -> bool:
    return _ASSIGNMENT.fullmatch(word) is not None


def _beginning(words: list[str], depth: int) -> Iterator[PossibleCommand]:
    first = words[0]
    found = {first}
    if first.startswith("-"):  # a command may be attached, as in `env -Srm`, `su --command=rm`
        found = {first[2:], first.partition("=")[2]} - {""}
    for word in sorted(found):
        if _UNKNOWN not in word and _GLOB not in word:
            yield _command([word, *words[1:]])
        if _SCRIPT.search(word):
            yield from _script(word, depth)


def _script(text: str, depth: int) -> Iterator[PossibleCommand]:
    if depth >= _DEEPEST:
        yield _ANY
    else:
        yield from _read(text, depth + 1)


def _command(words: list[str]) -> PossibleCommand:
    program = _base(words[0])
    if _UNKNOWN in words[0] or _GLOB in words[0]:
        return _ANY
    known: list[str] = [program]
    for word in words[1:]:
        before, unknown, _ = word.partition(_UNKNOWN)
        known.append(before)
        if unknown:
            text = folded(" ".join(known).replace(_GLOB, "*"))
            return PossibleCommand(text if before else f"{text} ", complete=False)
    return PossibleCommand(folded(" ".join(known).replace(_GLOB, "*")))


def _base(word: str) -> str:
    return word.rpartition("/")[2] or word
