"""Run flake8-async with the rules of this project over files and folders.

    python -m scripts.async_rules agent_actors tests

All rules are enabled, including the optional ones below. Each disabled rule is listed here with a
reason. To allow a single exception in the code, use a `# noqa: ASYNC<number>` comment with a
reason.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Final

OPTIONAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ASYNC106": "`trio.` before every name shows what may checkpoint",
        "ASYNC900": "an async generator over a nursery or scope breaks cancellation (PEP 533, 789)",
        "ASYNC913": "an endless loop must have a point at which it can be cancelled",
    }
)
OFF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ASYNC127": "the transport offers httpx's API by design; only the transport imports httpx",
        "ASYNC910": "an operation without a wait has no checkpoint, since checkpoints are counted",
        "ASYNC911": "the same, for iterables",
        "ASYNC912": "a shielded scope around a brief, mandatory operation needs no cancel point",
    }
)
OFF_OUTSIDE_THE_LIBRARY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ASYNC124": "tests and examples pass async functions, such as tools, with nothing to await",
        "ASYNC900": "a test may drive a plain async generator of its own",
    }
)
LIBRARY: Final = "agent_actors"
# Each rule looks for one of these words: asynchronous functions, the names of libraries, nurseries,
# handlers that may catch a cancellation, and exception groups.
_WORDS: Final = re.compile(
    r"async|await|trio|anyio|nursery|BaseException|except\s*[:*]|\.exceptions\b|ExceptionGroup"
)


def arguments(files: Sequence[Path], *, library: bool) -> list[str]:
    """Return the arguments of flake8-async for these files.

    Args:
        files: The files to check.
        library: True if the files belong to the library.
    """
    off = set(OFF) if library else {*OFF, *OFF_OUTSIDE_THE_LIBRARY}
    enable = ["ASYNC1", "ASYNC2", "ASYNC3", "ASYNC4", *sorted(set(OPTIONAL) - off)]
    return [
        f"--enable={','.join(enable)}",
        f"--disable={','.join(sorted(off))}",
        *map(str, files),
    ]


def python_files(root: Path) -> list[Path]:
    """Return the Python files under `root`, or `root` itself if it is a file.

    Files in which no rule can find anything are left out.
    """
    files = [root] if root.is_file() else sorted(root.rglob("*.py"))
    return [file for file in files if _WORDS.search(file.read_text(encoding="utf-8"))]


def main(roots: Sequence[str]) -> int:
    """Check every Python file under `roots` on all cores. Return 0 if all files are clean."""
    commands: list[list[str]] = []
    for library in (True, False):
        files = [
            file
            for root in map(Path, roots)
            if (root.parts[:1] == (LIBRARY,)) is library
            for file in python_files(root)
        ]
        parts = min(len(files), os.cpu_count() or 1)
        commands += [
            [
                sys.executable,
                "-m",
                "scripts.async_pass",
                *arguments(files[at::parts], library=library),
            ]
            for at in range(parts)
        ]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return max(pool.map(_status, commands), default=0)


def _status(command: Sequence[str]) -> int:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
