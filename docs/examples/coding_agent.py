"""A coding agent that repairs a project in a sandbox."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.domain.workspace.processes import ProcessLimits
from agent_actors.errors import WorkspaceError
from agent_actors.permissions import PermissionPolicy
from agent_actors.testing import ScriptedModel, Turn, call, say
from agent_actors.toolbox.workspace import BubblewrapWorkspace

SOURCE = """def mean(values: list[float]) -> float:
    return sum(values) / (len(values) - 1)
"""
TEST = """from stats import mean

assert mean([2.0, 4.0]) == 3.0
print("passed")
"""
RUN_TEST = {"command": "python3 test_stats.py"}

# This script replaces a model.
SCRIPT: list[Turn] = [
    [call("Bash", RUN_TEST)],
    [call("Read", {"file_path": "stats.py"})],
    [call("Edit", {"file_path": "stats.py", "old": "(len(values) - 1)", "new": "len(values)"})],
    [call("Bash", RUN_TEST)],
    [call("Bash", {"command": "rm -rf .git"})],
    [say("`mean` divided by one value too few. I corrected it, and the test passes.")],
]

policy = PermissionPolicy(
    mode="accept_edits",
    allow=["Bash(python3 test_stats.py)"],
    deny=["*(.env)", "Bash(rm *)"],
)


async def main(project: Path) -> None:
    (project / "stats.py").write_text(SOURCE)
    (project / "test_stats.py").write_text(TEST)
    workspace = BubblewrapWorkspace(
        project, network=["pypi.org"], limits=ProcessLimits(wall_seconds=60, processes=64)
    )
    options = AgentOptions(
        model="scripted",
        provider=ScriptedModel(SCRIPT),
        builtin_tools=["Read", "Edit", "Grep", "Bash"],
        workspace=workspace,
        permissions=policy,
    )
    async with open_runtime() as runtime:
        result = await runtime.run("The test fails. Repair the code.", options)
    await workspace.aclose()
    for one in result.tool_calls:
        print(f"{one.name}: {'error' if one.is_error else 'done'}")
    print(result.text)
    assert result.sandbox is not None
    print(f"commands: {result.sandbox.processes}; hosts: {result.sandbox.network}")


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        try:
            trio.run(main, Path(directory))
        except WorkspaceError as error:
            print(f"this machine has no sandbox: {error}")
