"""File operations that stay in a directory, whatever paths a model writes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from agent_actors.domain.workspace.files import GrepQuery
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace import LocalWorkspace


async def program(project: Path) -> None:
    workspace = LocalWorkspace(project)
    await workspace.write("src/app.py", b"def main() -> None:\n    print('hello')\n")
    source = await workspace.read("src/app.py")
    print(source.data.decode())

    found = await workspace.grep(GrepQuery(pattern=r"def \w+", file_glob="*.py"))
    for match in found.matches:
        print(f"{match.file}:{match.line}: {match.text}")

    (project / "notes").symlink_to("/etc")
    for path in ("../secret", "notes/passwd", ".git/hooks/pre-commit"):
        try:
            await workspace.write(path, b"")
        except WorkspaceError as error:
            print(f"{error.reason}: {error}")
    await workspace.aclose()


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        trio.run(program, Path(directory))
