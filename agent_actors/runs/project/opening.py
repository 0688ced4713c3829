"""Reads the project knowledge of a run when the run begins, and activates forced skills."""

from functools import partial

import trio

from agent_actors.domain.events import EventBuilder, SkillActivated
from agent_actors.errors import ConfigError
from agent_actors.project.reading import read_project
from agent_actors.project.skills import SkillIndex
from agent_actors.runs.context import RunContext
from agent_actors.runs.project.run_project import RunProject, plan_of


async def read_project_of(context: RunContext) -> RunProject:
    """Read the project knowledge of a run, in a worker thread.

    Raises:
        ConfigError: A file cannot be used, and the option `broken_files` is `refuse`.

    Cancellation: waits until the files have been read, which takes a bounded time.
    """
    options, files = context.options, context.services.make_project_files()
    plan = plan_of(options, context.cwd)
    knowledge = await trio.to_thread.run_sync(partial(read_project, files, plan))
    broken = [problem for problem in knowledge.report.problems if not problem.warning]
    if broken and options.broken_files == "refuse":
        more = f" (and {len(broken) - 1} more files)" if len(broken) > 1 else ""
        raise ConfigError(
            f"{broken[0]}{more}; correct the file, or pass AgentOptions(broken_files='skip')"
        )
    return RunProject(files, plan, context.cwd, knowledge)


def forced_skills(context: RunContext) -> list[EventBuilder]:
    """Return the records that activate the skills which the request names.

    Raises:
        ConfigError: A skill is unknown.
    """
    names = context.spec.request.force_skills
    if not names:
        return []
    index = SkillIndex() if context.project is None else context.project.knowledge.skills
    active = context.opened_session.state.skills
    for name in names:
        if index.get(name) is None:
            raise ConfigError(f"force_skills: {index.unknown(name)}")
    return [partial(SkillActivated, name=name) for name in names if name not in active]
