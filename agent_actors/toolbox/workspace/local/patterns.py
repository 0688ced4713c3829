"""Path patterns: `*`, `?`, `[abc]`, `**` and `{a,b}`.

The project does not use a library for these patterns. The libraries (wcmatch, pathspec) translate
them to backtracking regular expressions, so that the pattern `*a*a*a*a*a*a*a*ab` occupies the
interpreter for minutes. Models and files of a workspace write patterns. Here, one component is
matched by an expression of `fnmatch`, which does not backtrack, and components by a set of states.
"""

import re
from functools import lru_cache
from typing import Final

import attrs

from agent_actors.errors import WorkspaceError
from agent_actors.permissions.globs import glob

MAX_PATTERN: Final = 4_096
"""The maximum length of a pattern, in characters."""
MAX_ALTERNATIVES: Final = 1_000
"""The maximum number of patterns that one pattern with braces may expand to."""

_ANY_DEPTH: Final = "**"
_MAGIC: Final = frozenset("*?[")

_Component = re.Pattern[str] | None
"""The expression of a component; None for `**`."""


@attrs.frozen
class PathPattern:
    """A pattern without braces.

    Attributes:
        text: The pattern.
        components: The components of the text.
    """

    text: str
    components: tuple[str, ...]
    _compiled: tuple[_Component, ...]

    def matches(self, names: tuple[str, ...]) -> bool:
        """Return whether the pattern matches a path.

        `**` matches any number of components; at the end of a pattern at least one.
        """
        end = len(self._compiled)
        states = self._closed({0})
        for position, name in enumerate(names):
            following: set[int] = set()
            for state in states:
                if state == end:
                    continue
                component = self._compiled[state]
                if component is None:
                    following.add(state)
                    if state == end - 1 and position == len(names) - 1:
                        return True
                elif component.match(name):
                    following.add(state + 1)
            states = self._closed(following)
            if not states:
                return False
        return end in states

    def _closed(self, states: set[int]) -> set[int]:
        """Add the states that `**` leads to without consuming a component."""
        last = len(self._compiled) - 1
        pending = list(states)
        while pending:
            state = pending.pop()
            if state < last and self._compiled[state] is None and state + 1 not in states:
                states.add(state + 1)
                pending.append(state + 1)
        return states

    @property
    def literal_prefix(self) -> tuple[str, ...]:
        """The directories at the beginning of the pattern that contain no wildcard."""
        prefix: list[str] = []
        for component in self.components[:-1]:
            if _MAGIC.intersection(component):
                break
            prefix.append(component)
        return tuple(prefix)

    @property
    def max_depth(self) -> int | None:
        """The number of components of a path that can match; None if it is not limited."""
        return None if _ANY_DEPTH in self.components else len(self.components)


@attrs.frozen
class PathPatterns:
    """The alternatives of a pattern with braces; matches if one of them matches."""

    alternatives: tuple[PathPattern, ...]

    def matches(self, names: tuple[str, ...]) -> bool:
        """Return whether one of the alternatives matches a path."""
        return any(one.matches(names) for one in self.alternatives)


@lru_cache(maxsize=512)
def parse(text: str) -> PathPattern:
    """Parse a pattern without braces. Empty components and `.` are ignored."""
    components: list[str] = []
    for name in text.split("/"):
        # A sequence of `**` has the same meaning as one of them.
        if name in {"", "."} or (name == _ANY_DEPTH and components[-1:] == [_ANY_DEPTH]):
            continue
        components.append(name)
    compiled = tuple(None if name == _ANY_DEPTH else glob(name) for name in components)
    return PathPattern(text, tuple(components), compiled)


def parse_alternatives(text: str) -> PathPatterns:
    """Parse a pattern that a caller passed.

    Raises:
        WorkspaceError: The pattern is empty, too long, contains `..`, or has too many alternatives
            (reason `invalid`).
    """
    if not text or len(text) > MAX_PATTERN or "\0" in text:
        raise invalid_pattern(text, f"it must have 1 to {MAX_PATTERN} characters and no NUL")
    found = tuple(parse(one) for one in expand_braces(text))
    if any(".." in one.components for one in found):
        raise invalid_pattern(text, "it contains `..`; pass the directory as `path`")
    return PathPatterns(found)


def expand_braces(text: str) -> list[str]:
    """Return the alternatives of a pattern. Braces without a comma are ordinary characters.

    Raises:
        WorkspaceError: There are more than `MAX_ALTERNATIVES` (reason `invalid`).
    """
    done: list[str] = []
    pending = [("", text)]
    while pending:
        before, rest = pending.pop()
        group = _first_group(rest)
        if group is None:
            done.append(before + rest)
        else:
            start, choices, end = group
            pending.extend(
                (before + rest[:start], choice + rest[end:]) for choice in reversed(choices)
            )
        if len(done) + len(pending) > MAX_ALTERNATIVES:
            raise invalid_pattern(
                text, f"its braces have more than {MAX_ALTERNATIVES} alternatives"
            )
    return list(dict.fromkeys(done))


def invalid_pattern(text: str, why: str) -> WorkspaceError:
    """Return the error for a pattern that cannot be used."""
    return WorkspaceError(f"the pattern {text[:200]!r} is invalid: {why}", reason="invalid")


def _first_group(text: str) -> tuple[int, list[str], int] | None:
    """Return the start, the choices and the end of the first group in braces."""
    start = text.find("{")
    while start >= 0:
        depth, begin = 0, start + 1
        choices: list[str] = []
        for position in range(start, len(text)):
            match text[position]:
                case "{":
                    depth += 1
                case "," if depth == 1:
                    choices.append(text[begin:position])
                    begin = position + 1
                case "}":
                    depth -= 1
                    if depth == 0:
                        choices.append(text[begin:position])
                        if len(choices) > 1:
                            return start, choices, position + 1
                        break
                case _:
                    pass
        start = text.find("{", start + 1)
    return None
