"""The project knowledge that one run has read, and what the run did with it."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors.abc.project import ProjectFiles
from agent_actors.domain.workspace.project import FileText, HandlerResult
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.options.agent_options import AgentOptions
from agent_actors.options.project import user_directory
from agent_actors.options.workspace_config import CONTAINER_ENGINES, WorkspaceConfig
from agent_actors.project.reading import (
    ProjectKnowledge,
    ProjectPlan,
    read_skills,
)
from agent_actors.project.rules import rules_text
from agent_actors.project.skills import MAX_SKILL_BYTES, SkillEntry, SkillIndex
from agent_actors.sessions.skills import append_skills_prompt

_EDIT_TOOLS: Final = ("Edit", "edit_file")


@attrs.define(eq=False)
class RunProject:
    """The project knowledge of one run.

    Attributes:
        files: Reads files.
        plan: The files that may be read.
        workspace_dir: The directory in which the tools of the run work.
        knowledge: The knowledge, as it was when the run began.
        activated: The skills that the run has activated, in order; some may not be recorded yet.
        skill_results: The results of the skills' handlers.
        command_results: The results of the commands in the prompt.
    """

    files: ProjectFiles
    plan: ProjectPlan
    workspace_dir: Path
    knowledge: ProjectKnowledge
    activated: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    skill_results: list[HandlerResult] = attrs.field(factory=list[HandlerResult], init=False)
    command_results: list[HandlerResult] = attrs.field(factory=list[HandlerResult], init=False)

    def system_prompt(
        self, prompt: str, active: Sequence[str], used: Callable[[], Iterable[str]]
    ) -> str:
        """Return the complete system prompt for the next model call.

        Args:
            prompt: The part that is the same for all calls of the run.
            active: The active skills of the session.
            used: Returns the paths of the files that the run has used, in the form of the
                workspace; called only if rules are limited to some files.
        """
        limited = [rule for rule in self.knowledge.rules if rule.patterns]
        if limited:
            paths = {self._in_project(path) for path in used()}
            applying = rules_text(rule for rule in limited if rule.applies_to(paths))
            prompt = "\n\n".join(part for part in (prompt, applying) if part)
        return append_skills_prompt(prompt, active)

    def _in_project(self, path: str) -> str:
        complete = _below(self.workspace_dir, Path(path))
        if complete.is_relative_to(self.plan.project_dir):
            return complete.relative_to(self.plan.project_dir).as_posix()
        return path

    async def skills_in(self, project_dir: str) -> SkillIndex:
        """Return the skills of a project, or of this run's project without a directory.

        Args:
            project_dir: The directory, relative to that of this run's project; may be empty.

        Raises:
            ConfigError: The directory is neither in the project nor in the workspace, or the agent
                may not read files of projects.

        Cancellation: waits until the files have been read.
        """
        if not project_dir:
            return self.knowledge.skills
        if "project" not in self.plan.sources:
            raise ConfigError(
                "project_dir cannot be used, because this agent reads no files of projects; pass "
                "AgentOptions(setting_sources=['project'])"
            )
        folder = _below(self.plan.project_dir, Path(project_dir))
        allowed = (self.plan.project_dir, self.workspace_dir)
        if not any(folder.is_relative_to(root) for root in allowed):
            raise ConfigError(
                f"project_dir must be in {self.plan.project_dir} or in the workspace; got "
                f"{project_dir!r:.200}"
            )
        plan = attrs.evolve(
            self.plan,
            sources=frozenset({"project"}),
            project_dir=folder,
            claude_dir=folder / ".claude",
            skill_paths=(),
        )
        return await trio.to_thread.run_sync(read_skills, self.files, plan)

    async def text_of(self, entry: SkillEntry) -> str:
        """Return the complete text of a skill's file.

        Raises:
            WorkspaceError: The file cannot be read, or has become too large.

        Cancellation: waits until the file has been read.
        """
        assert entry.file is not None and entry.root is not None  # noqa: PT018 - set together
        file: FileText | None = await trio.to_thread.run_sync(
            self.files.read, entry.root, entry.file, MAX_SKILL_BYTES
        )
        if file is None:
            raise WorkspaceError(
                f"{entry.path!r} does not exist any more", reason="not_found", path=entry.path
            )
        if not file.complete:
            raise WorkspaceError(
                f"{entry.path!r} has {file.size} bytes; expected at most {MAX_SKILL_BYTES}",
                reason="invalid",
                path=entry.path,
            )
        return file.text


def plan_of(options: AgentOptions, workspace_dir: Path) -> ProjectPlan:
    """Return the files that the options enable.

    Args:
        options: The options of the agent.
        workspace_dir: The directory in which the tools of the run work.
    """
    cwd = _below(Path.cwd(), options.cwd)
    project_dir = _below(cwd, options.project_dir or cwd)
    source = options.workspace
    # The root of a container is a path in the container; the agent's directory is mounted there.
    in_container = isinstance(source, WorkspaceConfig) and source.type in CONTAINER_ENGINES
    edits = [name for name in _EDIT_TOOLS if name in options.tools_by_name]
    return ProjectPlan(
        sources=frozenset(options.setting_sources),
        project_dir=project_dir,
        claude_dir=_below(project_dir, options.claude_dir or Path(".claude")),
        user_dir=user_directory(),
        skill_paths=tuple(_below(project_dir, path) for path in options.skill_paths),
        memory_paths=tuple(_below(project_dir, path) for path in options.memory_paths),
        skills=options.skills,
        reads_commands=options.slash_commands,
        commands=options.commands,
        shown_from=project_dir if in_container else _below(cwd, workspace_dir),
        edit_tool=edits[0] if edits else _EDIT_TOOLS[0],
    )


def _below(folder: Path, path: Path) -> Path:
    # Symlinks are not resolved here; the reader of files resolves them without leaving the root.
    return Path(os.path.normpath(folder / path))
