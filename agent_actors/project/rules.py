"""Rules: Markdown files that are added to the system prompt, always or for some files only."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Final, cast

import attrs

from agent_actors.domain.workspace.project import FileText, ProjectProblem
from agent_actors.project.markdown import one_line, split_frontmatter

MAX_RULES: Final = 100
"""Maximum number of files with rules."""
MAX_RULE_BYTES: Final = 65_536
"""Maximum size of a file with rules, in bytes."""
MAX_RULES_TOTAL: Final = 262_144
"""Maximum number of characters of all rules together."""
_MAX_PATTERNS: Final = 50
_MAX_PATTERN: Final = 200


@attrs.frozen(eq=False)
class PathPattern:
    """A pattern for paths, such as `src/**/*.py`.

    Attributes:
        components: The patterns of the components; None for `**`, which matches any number of them.
    """

    components: "tuple[re.Pattern[str] | None, ...]"

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches a path; takes the product of both lengths."""
        # The positions in the pattern that can be reached with the components so far.
        reached = self._skipping({0})
        for name in path.split("/"):
            after: set[int] = set()
            for position in reached:
                if position == len(self.components):
                    continue
                component = self.components[position]
                if component is None:
                    after.add(position)
                elif component.fullmatch(name):
                    after.add(position + 1)
            reached = self._skipping(after)
        return len(self.components) in reached

    def _skipping(self, positions: set[int]) -> set[int]:
        """Return the positions, with those after each `**`, which may match nothing."""
        found = set(positions)
        for position in sorted(positions):
            following = takewhile(lambda part: part is None, self.components[position:])
            found.update(position + skipped for skipped, _ in enumerate(following, 1))
        return found


@attrs.frozen(eq=False)
class Rule:
    """One file with rules.

    Attributes:
        path: The path of the file, on one line.
        text: The text without the frontmatter.
        patterns: The patterns of the files for which the rule holds; empty: it always holds.
    """

    path: str
    text: str
    patterns: tuple[PathPattern, ...] = ()

    def applies_to(self, paths: Iterable[str]) -> bool:
        """Return whether the rule holds for one of these files, relative to the project."""
        return any(pattern.matches(path) for path in paths for pattern in self.patterns)


def parse_rule(file: FileText, shown: str) -> Rule | ProjectProblem:
    """Return the rule in a file, or the problem with the file."""
    safe = one_line(shown, 500)
    if not file.complete:
        return ProjectProblem(safe, f"expected at most {MAX_RULE_BYTES} bytes; got {file.size}")
    parts = split_frontmatter(file.text)
    if parts.error:
        return ProjectProblem(safe, parts.error, parts.line)
    patterns = _patterns(parts.fields or {})
    if isinstance(patterns, str):
        return ProjectProblem(safe, patterns, 1)
    return Rule(safe, parts.body.strip(), tuple(map(_path_pattern, patterns)))


def rules_text(rules: Iterable[Rule]) -> str:
    """Return the texts of rules as a part of the system prompt; empty without rules."""
    return "\n\n".join(rule.text for rule in rules if rule.text)


def _patterns(fields: Mapping[str, object]) -> list[str] | str:
    value = fields.get("paths")
    if value is None:
        return []
    items = value.split(",") if isinstance(value, str) else value
    if isinstance(items, list):
        found = cast("list[object]", items)
        texts = [item.strip() for item in found if isinstance(item, str) and item.strip()]
        short = all(len(text) <= _MAX_PATTERN for text in texts)
        if len(texts) == len(found) and 1 <= len(texts) <= _MAX_PATTERNS and short:
            return texts
    return (
        f"paths must be a list of 1 to {_MAX_PATTERNS} patterns, such as 'src/**/*.py', of at most "
        f"{_MAX_PATTERN} characters"
    )


def _path_pattern(pattern: str) -> PathPattern:
    return PathPattern(
        tuple(
            None if part == "**" else re.compile(fnmatch.translate(part))
            for part in pattern.split("/")
        )
    )
