"""Skills of a project: the index, loading, activation, and a checklist that the agent follows."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.testing import ScriptedModel, call

SKILL = """\
---
name: find-open-tasks
description: Find open tasks in the source code.
---

# Find open tasks

## Checklist

- [ ] Search for OPEN with Grep
- [ ] Read the file that contains the task
"""


async def program(project: Path) -> None:
    folder = project / ".claude/skills/find-open-tasks"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (project / "AGENTS.md").write_text("Prices are in cents.\n")
    (project / "prices.py").write_text("total = sum(prices)  # OPEN: add the tax\n")
    model = ScriptedModel(
        [
            call("SkillList", {}),
            call("SkillLoad", {"name": "find-open-tasks"}),
            call("SkillActivate", {"name": "find-open-tasks"}),
            call("Grep", {"query": "OPEN"}),
            call("Read", {"file_path": "prices.py"}),
            "One task is open: add the tax.",
            "The skill is still active.",
        ]
    )
    options = AgentOptions(
        model="scripted",
        provider=model,
        cwd=project,
        setting_sources=["project"],
        workspace={"type": "local"},
        builtin_tools=["Read", "Grep"],
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Which tasks are open?", options, session_id="tasks")
        print(result.text)
        print(result.settings.files)

        await runtime.run("Which skills are active?", options, session_id="tasks")
        print(model.requests[-1].system_prompt)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        trio.run(program, Path(folder))
