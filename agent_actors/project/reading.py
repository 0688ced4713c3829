"""Reads the files of a project that an agent's options enable, through the port `ProjectFiles`.

The files are untrusted. A file that is too large, broken or outside its root is skipped and
reported. Limits on the number and the size of files bound the cost.
"""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from agent_actors.abc.project import ProjectFiles
from agent_actors.domain.workspace.project import FileText, ProjectProblem, ProjectReport
from agent_actors.errors import WorkspaceError
from agent_actors.project.commands import (
    MAX_COMMAND_BYTES,
    MAX_COMMANDS,
    Command,
    CommandEntry,
    command_index,
    commands_in_code,
    parse_command,
)
from agent_actors.project.markdown import MAX_FRONTMATTER_TOTAL, frontmatter_length, one_line
from agent_actors.project.memory import (
    LOCAL_MEMORY_FILE,
    MAX_IMPORT_DEPTH,
    MAX_IMPORTS,
    MAX_MEMORY_BYTES,
    MAX_MEMORY_TOTAL,
    MEMORY_FILES,
    imports_of,
    memory_block,
)
from agent_actors.project.rules import (
    MAX_RULE_BYTES,
    MAX_RULES,
    MAX_RULES_TOTAL,
    Rule,
    parse_rule,
    rules_text,
)
from agent_actors.project.skills import (
    HEAD_BYTES,
    MAX_SKILLS,
    SKILL_FILE,
    Skill,
    SkillEntry,
    SkillIndex,
    skill_entry,
    skill_index,
    skills_in_code,
)

MAX_PROBLEMS: Final = 100
"""Maximum number of problems in a report. The last one says that there are more."""
_AGENTS_DIR: Final = ".agents"
_CATALOG_HEADING: Final = "## Skills"


@attrs.frozen(kw_only=True, eq=False)
class ProjectPlan:
    """The files that may be read, as the options of an agent name them.

    Attributes:
        sources: The enabled groups of files.
        project_dir: The directory of the project, absolute.
        claude_dir: The directory with the project's settings, absolute.
        user_dir: The directory with the user's settings, absolute.
        skill_paths: Other directories with skills, absolute; the first one is the nearest.
        memory_paths: Other memory files, absolute.
        skills: The skills that are defined in code.
        reads_commands: True to read slash commands.
        commands: The commands that are defined in code.
        shown_from: The directory to which the paths for the model are relative.
        edit_tool: The name of the tool with which the agent edits files.
    """

    sources: frozenset[str] = frozenset()
    project_dir: Path
    claude_dir: Path
    user_dir: Path
    skill_paths: tuple[Path, ...] = ()
    memory_paths: tuple[Path, ...] = ()
    skills: tuple[Skill, ...] = ()
    reads_commands: bool = False
    commands: tuple[Command, ...] = ()
    shown_from: Path
    edit_tool: str = "Edit"

    def shown(self, path: Path) -> str:
        """Return the path of a file for the model."""
        near = path.is_relative_to(self.shown_from)
        return str(path.relative_to(self.shown_from) if near else path)


@attrs.frozen(eq=False)
class ProjectKnowledge:
    """The knowledge of a project that one run uses.

    Attributes:
        skills: The index of skills.
        memory: The block with the memory files; empty without any.
        rules: The rules, sorted by path.
        commands: The slash commands, by name.
        report: The files that were read, and their problems.
    """

    skills: SkillIndex
    memory: str
    rules: tuple[Rule, ...]
    commands: Mapping[str, CommandEntry]
    report: ProjectReport

    def prompt(self, own: str) -> str:
        """Return the part of the system prompt that is the same for all calls of the run.

        Args:
            own: The system prompt of the agent.
        """
        catalog = self.skills.catalog()
        parts = (
            own,
            self.memory,
            rules_text(rule for rule in self.rules if not rule.patterns),
            catalog and f"{_CATALOG_HEADING}\n\n{catalog}",
        )
        return "\n\n".join(part for part in parts if part)


def read_project(files: ProjectFiles, plan: ProjectPlan) -> ProjectKnowledge:
    """Read what a plan enables. Blocks while files are read."""
    reader = _Reader(files, plan)
    skills, hidden = skill_index((*skills_in_code(plan.skills), *reader.skills()))
    reader.problems += hidden
    memory = memory_block(reader.memory(), plan.edit_tool)
    rules = tuple(reader.rules())
    commands: Mapping[str, CommandEntry] = {}
    if plan.reads_commands:
        commands, hidden = command_index((*commands_in_code(plan.commands), *reader.commands()))
        reader.problems += hidden
    return ProjectKnowledge(skills, memory, rules, commands, reader.report())


def read_skills(files: ProjectFiles, plan: ProjectPlan) -> SkillIndex:
    """Read the index of skills only. Blocks while files are read."""
    return skill_index(_Reader(files, plan).skills())[0]


class _Reader:
    """One pass over the files of a plan."""

    def __init__(self, files: ProjectFiles, plan: ProjectPlan) -> None:
        self._files = files
        self._plan = plan
        self._read_files: list[str] = []
        self._frontmatter_left = MAX_FRONTMATTER_TOTAL
        self.problems: list[ProjectProblem] = []

    def report(self) -> ProjectReport:
        problems = sorted(self.problems, key=lambda problem: problem.warning)  # errors first
        if len(problems) > MAX_PROBLEMS:
            rest = len(problems) - MAX_PROBLEMS + 1
            more = ProjectProblem(problems[-1].path, f"and {rest} more problems", warning=True)
            problems = [*problems[: MAX_PROBLEMS - 1], more]
        return ProjectReport(
            tuple(sorted(self._plan.sources)), tuple(self._read_files), tuple(problems)
        )

    def skills(self) -> Iterable[SkillEntry]:
        plan = self._plan
        folders: list[tuple[Path, Path]] = []
        if "project" in plan.sources:
            root = _root_of(plan.claude_dir, plan.project_dir)
            folders.append((root, plan.claude_dir / "skills"))
            folders.append((plan.project_dir, plan.project_dir / _AGENTS_DIR / "skills"))
        folders += [(path, path) for path in plan.skill_paths]
        if "user" in plan.sources:
            folders.append((plan.user_dir, plan.user_dir / "skills"))
        left = MAX_SKILLS
        for root, folder in folders:
            for path in self._found(root, folder, SKILL_FILE, left):
                left -= 1
                file = self._read_described(root, path, HEAD_BYTES)
                if file is None:
                    continue
                entry, problems = skill_entry(file, root, plan.shown(path))
                self.problems += problems
                if entry is not None:
                    self._read_files.append(entry.path)
                    yield entry

    def memory(self) -> list[str]:
        """Return the texts of the memory files, the nearest last."""
        memory = _Memory(self._memory_file)
        for root, path, within in self._memory_paths():
            memory.add(root, path, within)
        self.problems += memory.problems
        return memory.texts

    def rules(self) -> list[Rule]:
        plan = self._plan
        folders: list[tuple[Path, Path]] = []
        if "user" in plan.sources:
            folders.append((plan.user_dir, plan.user_dir / "rules"))
        if "project" in plan.sources:
            folders.append((_root_of(plan.claude_dir, plan.project_dir), plan.claude_dir / "rules"))
        rules: list[Rule] = []
        left = MAX_RULES_TOTAL
        for root, folder in folders:
            for path in self._found(root, folder, "*.md", MAX_RULES):
                if path.parent != folder:
                    continue
                file = self._read_described(root, path, MAX_RULE_BYTES)
                if file is None:
                    continue
                rule = parse_rule(file, plan.shown(path))
                if isinstance(rule, Rule) and len(rule.text) > left:
                    rule = ProjectProblem(rule.path, _too_much("rules", MAX_RULES_TOTAL))
                if isinstance(rule, ProjectProblem):
                    self.problems.append(rule)
                    continue
                left -= len(rule.text)
                self._read_files.append(rule.path)
                rules.append(rule)
        return rules

    def commands(self) -> Iterable[CommandEntry]:
        plan = self._plan
        folders: list[tuple[Path, Path]] = []
        if "project" in plan.sources:
            root = _root_of(plan.claude_dir, plan.project_dir)
            folders.append((root, plan.claude_dir / "commands"))
        if "user" in plan.sources:
            folders.append((plan.user_dir, plan.user_dir / "commands"))
        for root, folder in folders:
            for path in self._found(root, folder, "*.md", MAX_COMMANDS):
                file = self._read_described(root, path, MAX_COMMAND_BYTES)
                if file is None:
                    continue
                # A command in a directory below is named `directory:name`.
                name = ":".join(path.relative_to(folder).with_suffix("").parts)
                entry = parse_command(file, name, plan.shown(path))
                if isinstance(entry, ProjectProblem):
                    self.problems.append(entry)
                    continue
                self._read_files.append(entry.path)
                yield entry

    def _memory_paths(self) -> Iterable[tuple[Path, Path, Sequence[str]]]:
        """Yield the root, the directory and the names of memory files, the nearest last."""
        plan = self._plan
        if "user" in plan.sources:
            yield plan.user_dir, plan.user_dir, MEMORY_FILES
        for path in plan.memory_paths:
            yield path.parent, path.parent, (path.name,)
        names = (
            *(MEMORY_FILES if "project" in plan.sources else ()),
            *((LOCAL_MEMORY_FILE,) if "local" in plan.sources else ()),
        )
        if names:
            top = self._files.find_above(plan.project_dir, ".git") or plan.project_dir
            above = [path for path in plan.project_dir.parents if path.is_relative_to(top)]
            for folder in (*reversed(above), plan.project_dir):
                yield top, folder, names

    def _memory_file(self, root: Path, path: Path) -> FileText | None:
        file = self._read(root, path, MAX_MEMORY_BYTES)
        if file is None:
            return None
        shown = one_line(self._plan.shown(path), 500)
        if not file.complete:
            self.problems.append(
                ProjectProblem(shown, f"expected at most {MAX_MEMORY_BYTES} bytes; got {file.size}")
            )
            return None
        self._read_files.append(shown)
        return file

    def _found(self, root: Path, folder: Path, name: str, limit: int) -> Sequence[Path]:
        if limit <= 0:
            return ()
        found = self._files.find(root, folder, name, limit)
        self.problems += found.problems
        return found.paths

    def _read_described(self, root: Path, path: Path, limit: int) -> FileText | None:
        """Read a file that may have frontmatter, whose parsing costs far more than reading."""
        file = self._read(root, path, limit)
        if file is None:
            return None
        length = frontmatter_length(file.text)
        if length > self._frontmatter_left:
            shown = one_line(self._plan.shown(path), 500)
            why = _too_much("frontmatter", MAX_FRONTMATTER_TOTAL)
            self.problems.append(ProjectProblem(shown, why))
            return None
        self._frontmatter_left -= length
        return file

    def _read(self, root: Path, path: Path, limit: int) -> FileText | None:
        try:
            return self._files.read(root, path, limit)
        except WorkspaceError as error:
            shown = one_line(self._plan.shown(path), 500)
            self.problems.append(ProjectProblem(shown, one_line(str(error), 500)))
            return None


class _Memory:
    """Collects memory files with their imports; each file is used once."""

    def __init__(self, read: Callable[[Path, Path], FileText | None]) -> None:
        self._read = read
        self._identities: set[tuple[int, int]] = set()
        self._imports_left = MAX_IMPORTS
        self._characters_left = MAX_MEMORY_TOTAL
        self.texts: list[str] = []
        self.problems: list[ProjectProblem] = []

    def add(self, root: Path, folder: Path, names: Sequence[str]) -> None:
        for name in names:
            self._add(root, folder / name, MAX_IMPORT_DEPTH)

    def _add(self, root: Path, path: Path, depth: int) -> bool:
        """Add a file and its imports; return whether the file exists and could be read."""
        file = self._read(root, path)
        if file is None:
            return False
        text = file.text.strip()
        if file.identity in self._identities or text in self.texts:
            return True
        self._identities.add(file.identity)
        shown = one_line(str(path), 500)
        if len(text) > self._characters_left:
            self.problems.append(ProjectProblem(shown, _too_much("memory", MAX_MEMORY_TOTAL)))
            return True
        self._characters_left -= len(text)
        self.texts.append(text)
        imported = imports_of(text)
        if imported and depth == 0:
            why = f"imports are followed to a depth of {MAX_IMPORT_DEPTH}"
            self.problems.append(ProjectProblem(shown, why, warning=True))
            return True
        for name in imported:
            if self._imports_left == 0:
                why = f"at most {MAX_IMPORTS} imports are followed"
                self.problems.append(ProjectProblem(shown, why, warning=True))
                break
            self._imports_left -= 1
            known = len(self.problems)
            target = Path(posixpath.normpath(path.parent / name))
            if not self._add(root, target, depth - 1) and len(self.problems) == known:
                why = f"the import @{one_line(name, 200)} was not read"
                self.problems.append(ProjectProblem(shown, why, warning=True))
        return True


def _root_of(folder: Path, project_dir: Path) -> Path:
    """Return the directory that files of a settings directory must be in."""
    return project_dir if folder.is_relative_to(project_dir) else folder


def _too_much(kind: str, limit: int) -> str:
    return f"the {kind} of all files together may have {limit} characters; this file is left out"
