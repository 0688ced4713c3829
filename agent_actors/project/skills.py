"""Skills: instructions for one kind of task, which a model loads when it needs them.

The system prompt contains one line for each skill. The complete text is read only on request. Two
formats are supported: files with frontmatter, as in the Agent Skills standard
(https://agentskills.io/specification), and plain Markdown.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.workspace.project import FileText, ProjectProblem
from agent_actors.errors import ConfigError
from agent_actors.project.markdown import (
    first_heading,
    first_paragraph,
    is_one_line,
    list_items,
    one_line,
    split_frontmatter,
)

SKILL_FILE: Final = "SKILL.md"
MAX_SKILLS: Final = 500
"""Maximum number of skills in an index."""
MAX_SKILL_BYTES: Final = 262_144
"""Maximum size of a skill's file, in bytes. A larger file is not listed."""
MAX_CATALOG: Final = 65_536
"""Maximum number of characters that the skills take in the system prompt."""
HEAD_BYTES: Final = 8_192
"""The number of bytes that are read of each file for the index."""

_MAX_NAME: Final = 64
_MAX_SUMMARY: Final = 1_024
_MAX_COMPATIBILITY: Final = 500
_STANDARD_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_CHECKLIST: Final = "Checklist"


@attrs.frozen(eq=False)
class Skill:
    """A skill that is defined in code.

    Pass either `body` or `handler`.

    Args:
        name: The name: text on one line, at most 64 characters.
        description: The purpose of the skill, and when to use it.
        body: The instructions, as Markdown.
        handler: A function without parameters, sync or async, that returns the instructions or
            other JSON data when the model loads the skill. A sync function runs in a worker thread.
            Results and errors are in `RunResult.skill_results`.

    Raises:
        ConfigError: A field is not valid.
    """

    name: str
    description: str
    body: str = ""
    handler: Callable[[], object] | None = None

    def __attrs_post_init__(self) -> None:
        if not self.name or one_line(self.name, _MAX_NAME) != self.name:
            raise ConfigError(
                f"Skill: name must be one line of 1 to {_MAX_NAME} characters; got "
                f"{self.name!r:.100}"
            )
        if bool(self.body) == (self.handler is not None):
            raise ConfigError(f"Skill {self.name!r}: pass either `body` or `handler`")


@attrs.frozen(eq=False)
class SkillEntry:
    """A skill in an index.

    Attributes:
        name: The name, on one line.
        summary: The description, or the first paragraph, on one line.
        path: The path of the file for the model; empty for a skill that is defined in code.
        file: The absolute path of the file; None for a skill that is defined in code.
        root: The directory that the file must be in; None for a skill that is defined in code.
        skill: The skill that is defined in code; None for a file.
        fields: The frontmatter, with unknown fields; empty for a file without one.
    """

    name: str
    summary: str
    path: str
    file: Path | None = None
    root: Path | None = None
    skill: Skill | None = None
    fields: Mapping[str, object] = attrs.field(factory=dict[str, object])

    @property
    def listed(self) -> JsonObject:
        """The skill as `SkillList` shows it."""
        return {"name": self.name, "summary": self.summary, "path": self.path}

    @property
    def catalog_line(self) -> str:
        """The line for the skill in the system prompt."""
        if not self.path:
            return f"[{self.name}] {self.summary} → Call SkillLoad for full instructions"
        return f"[{self.name}] {self.summary} → Read {self.path} for full instructions"


@attrs.frozen(eq=False)
class ParsedSkill:
    """A skill's file, parsed.

    Attributes:
        name: The name: from the frontmatter, else the first heading, else the directory.
        summary: The description in the frontmatter, else the first paragraph.
        checklist: The list items of the section "Checklist".
        body: The text without the frontmatter.
        fields: The frontmatter; None if the file has none.
        problems: Deviations from the Agent Skills standard. The skill is used anyway.
        error: The reason why the file is not used; empty if it is used.
        line: The line of the error; 0 if it is not known.
    """

    name: str
    summary: str
    checklist: tuple[str, ...]
    body: str
    fields: Mapping[str, object] | None
    problems: tuple[str, ...] = ()
    error: str = ""
    line: int = 0


def parse_skill(text: str, directory: str) -> ParsedSkill:
    """Parse the text of a skill's file.

    Args:
        text: The complete text, or its beginning.
        directory: The name of the directory that contains the file.
    """
    parts = split_frontmatter(text)
    fields, body = parts.fields, parts.body
    heading = first_heading(body)
    fallback = one_line(heading or directory, _MAX_NAME)
    paragraph = first_paragraph(body, _MAX_SUMMARY)
    if fields is None:
        name, summary = fallback, paragraph
    else:
        name = one_line(_text(fields, "name"), _MAX_NAME) or fallback
        summary = one_line(_text(fields, "description"), _MAX_SUMMARY) or paragraph
    return ParsedSkill(
        name,
        summary,
        list_items(body, _CHECKLIST),
        body,
        fields,
        () if fields is None else tuple(_deviations(fields, directory)),
        parts.error,
        parts.line,
    )


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _deviations(fields: Mapping[str, object], directory: str) -> Iterable[str]:
    name, description = _text(fields, "name"), _text(fields, "description")
    if not _STANDARD_NAME.fullmatch(name) or len(name) > _MAX_NAME:
        yield f"name must be 1 to {_MAX_NAME} characters of a-z, 0-9 and '-'; got {name!r:.80}"
    elif name != directory:
        yield f"name must be the name of the directory, {directory!r:.80}; got {name!r}"
    if not 1 <= len(description) <= _MAX_SUMMARY:
        yield f"description must have 1 to {_MAX_SUMMARY} characters; got {len(description)}"
    if len(_text(fields, "compatibility")) > _MAX_COMPATIBILITY:
        yield f"compatibility must have at most {_MAX_COMPATIBILITY} characters"
    if not isinstance(fields.get("allowed-tools", ""), str):
        yield "allowed-tools must be names separated by spaces"


def skill_entry(
    file: FileText, root: Path, shown: str
) -> tuple[SkillEntry | None, list[ProjectProblem]]:
    """Return the entry for a file whose beginning was read, and the problems with the file.

    Args:
        file: The beginning of the file.
        root: The directory that the file must be in.
        shown: The path for the model.
    """
    safe = one_line(shown, 500)
    if not is_one_line(shown):
        return None, [ProjectProblem(safe, "the path contains control characters; rename the file")]
    if file.size > MAX_SKILL_BYTES:
        why = f"expected at most {MAX_SKILL_BYTES} bytes; the file has {file.size}; split the skill"
        return None, [ProjectProblem(safe, why)]
    parsed = parse_skill(file.text, file.path.parent.name)
    if parsed.error:
        return None, [ProjectProblem(safe, parsed.error, parsed.line)]
    problems = [ProjectProblem(safe, why, warning=True) for why in parsed.problems]
    fields: Mapping[str, object] = {} if parsed.fields is None else parsed.fields
    entry = SkillEntry(parsed.name, parsed.summary, shown, file.path, root, fields=fields)
    return entry, problems


@attrs.frozen(eq=False)
class SkillIndex:
    """The skills that a run knows, by name and in alphabetical order.

    Attributes:
        entries: The skills.
    """

    entries: Mapping[str, SkillEntry] = attrs.field(factory=dict[str, SkillEntry])

    def get(self, name: str) -> SkillEntry | None:
        """Return the skill with this name; None if there is none."""
        return self.entries.get(name)

    def listed(self) -> list[JsonValue]:
        """Return all skills as `SkillList` shows them."""
        return [entry.listed for entry in self.entries.values()]

    def unknown(self, name: str) -> str:
        """Return the error for a name that no skill has."""
        names = list(self.entries)
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            hint = f"did you mean {near[0]!r}?"
        elif names:
            hint = f"call SkillList for the {len(names)} known skills"
        else:
            hint = "no skill is available"
        return f"unknown skill {one_line(name, _MAX_NAME)!r}; {hint}"

    def catalog(self) -> str:
        """Return the lines for the system prompt; empty without skills."""
        lines: list[str] = []
        left = MAX_CATALOG
        for entry in self.entries.values():
            line = entry.catalog_line
            left -= len(line) + 1
            if left < 0:
                rest = len(self.entries) - len(lines)
                lines.append(f"({rest} more skills; call SkillList for all)")
                break
            lines.append(line)
        return "\n".join(lines)


def skill_index(
    found: Iterable[SkillEntry],
) -> tuple[SkillIndex, list[ProjectProblem]]:
    """Return the index of skills, and a problem for each skill that another one hides.

    Args:
        found: The skills, nearest first. The first skill with a name is used.
    """
    nearest: dict[str, SkillEntry] = {}
    problems: list[ProjectProblem] = []
    for entry in found:
        other = nearest.setdefault(entry.name, entry)
        if other is not entry:
            where = other.path or "code"
            problems.append(
                ProjectProblem(
                    one_line(entry.path, 500),
                    f"the skill {entry.name!r} is also defined in {where}, which is used",
                    warning=True,
                )
            )
    return SkillIndex(dict(sorted(nearest.items()))), problems


def skills_in_code(skills: Sequence[Skill]) -> list[SkillEntry]:
    """Return the entries for skills that are defined in code."""
    return [
        SkillEntry(skill.name, one_line(skill.description, _MAX_SUMMARY), "", skill=skill)
        for skill in skills
    ]
