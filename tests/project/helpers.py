"""A project in memory, and the projects of this folder as plans."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from agent_actors.domain.workspace.project import FileText, FoundFiles
from agent_actors.errors import WorkspaceError
from agent_actors.project.reading import ProjectPlan

PROJECTS: Final = Path(__file__).with_name("projects")
ROOT: Final = Path("/project")


@attrs.define(eq=False)
class MemoryFiles:
    """Files in memory, as a `ProjectFiles`; counts its calls.

    A text that begins with `->` is a link to another path.
    """

    texts: Mapping[str, str]
    calls: list[str] = attrs.field(factory=list[str])

    def find(self, root: Path, folder: Path, name: str, limit: int) -> FoundFiles:
        """Return the files below the folder, sorted by path."""
        self.calls.append(f"find {folder}")
        paths = sorted(ROOT / path for path in self.texts)
        end = name.removeprefix("*")
        found = [
            path
            for path in paths
            if path.is_relative_to(folder) and path.is_relative_to(root)
            if (path.name.endswith(end) if name.startswith("*") else path.name == name)
        ]
        return FoundFiles(tuple(found[:limit]))

    def read(self, root: Path, path: Path, limit: int) -> FileText | None:
        """Return the beginning of a file below the root."""
        self.calls.append(f"read {path}")
        text = self._at(path)
        target = path
        if text is not None and text.startswith("->"):
            target = Path(text.removeprefix("->"))
            text = self._at(target)
        if not target.is_relative_to(root):
            raise WorkspaceError(f"{path} is outside", reason="refused", path=str(path))
        if text is None:
            return None
        identity = (1, hash(target))
        return FileText(path, text[:limit], len(text), len(text) <= limit, identity)

    def find_above(self, folder: Path, name: str) -> Path | None:
        """Return the nearest directory with an entry of this name."""
        self.calls.append(f"above {folder}")
        for path in (folder, *folder.parents):
            if any((ROOT / one).is_relative_to(path / name) for one in self.texts):
                return path
        return None

    def _at(self, path: Path) -> str | None:
        return next((text for name, text in self.texts.items() if ROOT / name == path), None)


def project_plan(*sources: str, project_dir: Path = ROOT, **changes: object) -> ProjectPlan:
    """Return the plan of an agent with these sources."""
    plan = ProjectPlan(
        sources=frozenset(sources or ("project",)),
        project_dir=project_dir,
        claude_dir=project_dir / ".claude",
        user_dir=ROOT / "home/.claude",
        shown_from=project_dir,
    )
    return attrs.evolve(plan, **changes)  # type: ignore[arg-type]
