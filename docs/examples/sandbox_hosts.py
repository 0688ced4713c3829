"""A sandbox whose commands may reach some hosts only."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from agent_actors.domain.workspace.processes import ProcessSpec
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace import BubblewrapWorkspace

FETCH = "import urllib.request as r; r.urlopen('http://example.com/')"


async def program(project: Path) -> None:
    workspace = BubblewrapWorkspace(project, network=["pypi.org", "*.pythonhosted.org"])
    result = await workspace.exec(ProcessSpec(argv=("python3", "-c", FETCH)))
    print(result.stderr.decode().splitlines()[-1])
    for refusal in workspace.describe().refusals:
        print(f"{refusal.operation} {refusal.target}: {refusal.reason}")
    await workspace.aclose()


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        try:
            trio.run(program, Path(directory))
        except WorkspaceError as error:
            print(f"this machine has no sandbox: {error}")
