"""The files of the project that the convention checks read."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
# If git is not available, for example in an unpacked source archive, these folders are skipped.
_NOT_OURS: Final = frozenset({"__pycache__", "build", "dist", "htmlcov"})


@cache
def files() -> tuple[str, ...]:
    """Return the sorted paths of all files that git tracks or does not ignore, relative to the
    root.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        found = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not _skipped(path)]
    else:
        found = listed.stdout.split("\0")
    return tuple(sorted({name for name in found if name and (ROOT / name).is_file()}))


def _skipped(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part in _NOT_OURS or part.startswith(".") for part in parts)


def python_files() -> tuple[str, ...]:
    """Return every Python file of the project."""
    return tuple(name for name in files() if name.endswith(".py"))


def library_files() -> tuple[str, ...]:
    """Return every Python file of the library."""
    return tuple(name for name in python_files() if name.startswith("agent_actors/"))


def read(name: str) -> str:
    """Return the text of a file."""
    return (ROOT / name).read_text(encoding="utf-8")
