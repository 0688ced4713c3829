"""Undo what an agent did to the files of its workspace."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from agent_actors import AgentOptions, Checkpoints, open_runtime
from agent_actors.testing import ScriptedModel, call


async def program(project: Path, copies: Path) -> None:
    (project / "plan.txt").write_text("Monday\n")
    model = ScriptedModel(
        [call("Write", {"file_path": "plan.txt", "content": "Tuesday\n"}), "I moved it."]
    )
    options = AgentOptions(
        model="scripted",
        provider=model,
        builtin_tools="code",
        workspace={"type": "local", "root": project},
        checkpoints=Checkpoints(directory=copies),
        permissions="bypass",
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Move the meeting.", options, session_id="plan")
        print([(change.kind, change.path) for change in result.files])

        sessions = runtime.sessions
        shown = await sessions.rewind("plan", 0, files=True, dry_run=True)
        print([change.path for change in shown.changes], shown.conflicts)

        await sessions.rewind("plan", 0, files=True)
        print((project / "plan.txt").read_text())


if __name__ == "__main__":
    with TemporaryDirectory() as project, TemporaryDirectory() as copies:
        trio.run(program, Path(project), Path(copies))
