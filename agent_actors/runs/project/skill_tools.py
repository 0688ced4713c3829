"""The tools `SkillList`, `SkillLoad` and `SkillActivate`.

The tools find the run that called them through its context variable, so that all runs share them.
No tool executes a file of a skill.
"""

from functools import partial
from pathlib import PurePath
from typing import Final

from agent_actors.domain.events import SkillActivated
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.project.skills import SkillEntry, parse_skill
from agent_actors.runs.context import RunContext, current_context
from agent_actors.runs.project.handlers import call_handler
from agent_actors.runs.project.run_project import RunProject
from agent_actors.tools import Tool, ToolContext, ToolOutput, tool


@tool("SkillList", read_only=True, open_world=False)
async def _skill_list(project_dir: str = "") -> object:
    """List the available skills: instructions for certain kinds of tasks.

    Returns the name, the summary and the path of each skill, sorted by name.

    Args:
        project_dir: The directory of another project in the workspace; by default, this project.
    """
    try:
        _, project = _current()
        return {"skills": (await project.skills_in(project_dir)).listed()}
    except ConfigError as error:
        return ToolOutput(str(error), is_error=True)


@tool("SkillLoad", read_only=True, open_world=False)
async def _skill_load(name: str, project_dir: str = "") -> object:
    """Load the complete instructions of a skill. Nothing is executed.

    Returns the name, the summary, the checklist, the content and the path of the skill.

    Args:
        name: The name of the skill.
        project_dir: The directory of another project in the workspace; by default, this project.
    """
    try:
        _, project = _current()
        entry = await _found(project, name, project_dir)
        if entry.skill is not None:
            return await _from_code(project, entry)
        text = await project.text_of(entry)
    except (ConfigError, WorkspaceError) as error:
        return ToolOutput(str(error), is_error=True)
    return _shown(entry, text)


@tool("SkillActivate", idempotent=True, open_world=False)
async def _skill_activate(name: str, ctx: ToolContext, project_dir: str = "") -> object:
    """Activate a skill for the rest of the session, after you have loaded it.

    Active skills are named in the system prompt. Returns the active skills.

    Args:
        name: The name of the skill.
        ctx: The context of the call.
        project_dir: The directory of another project in the workspace; by default, this project.
    """
    try:
        context, project = _current()
        entry = await _found(project, name, project_dir)
    except ConfigError as error:
        return ToolOutput(str(error), is_error=True)
    ctx.record(partial(SkillActivated, name=entry.name))
    project.activated[entry.name] = None
    active = dict.fromkeys((*context.opened_session.state.skills, *project.activated))
    return {"active": list(active)}


SKILL_TOOLS: Final[tuple[Tool, ...]] = (_skill_list, _skill_load, _skill_activate)
"""The tools, in the order in which the model sees them."""


def _current() -> tuple[RunContext, RunProject]:
    context = current_context.get()
    if context is None or context.project is None:
        raise ConfigError("skills are available only in a run whose agent has skills")
    return context, context.project


async def _found(project: RunProject, name: str, project_dir: str) -> SkillEntry:
    index = await project.skills_in(project_dir)
    entry = index.get(name)
    if entry is None:
        raise ConfigError(index.unknown(name))
    return entry


async def _from_code(project: RunProject, entry: SkillEntry) -> object:
    assert entry.skill is not None
    if entry.skill.handler is None:
        return _shown(entry, entry.skill.body)
    result = await call_handler(entry.name, entry.skill.handler)
    project.skill_results.append(result)
    if result.error:
        return ToolOutput(f"the skill {entry.name!r} failed: {result.error}", is_error=True)
    if isinstance(result.output, str):
        return _shown(entry, result.output)
    return _loaded(entry, (), result.output)


def _shown(entry: SkillEntry, text: str) -> JsonObject:
    parsed = parse_skill(text, PurePath(entry.path).parent.name)
    return _loaded(entry, parsed.checklist, parsed.body)


def _loaded(entry: SkillEntry, checklist: tuple[str, ...], content: JsonValue) -> JsonObject:
    return {
        "name": entry.name,
        "summary": entry.summary,
        "checklist": list(checklist),
        "content": content,
        "path": entry.path,
    }
