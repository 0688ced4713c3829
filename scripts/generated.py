"""Writes or compares documentation files that are generated from the code."""

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_compare(made: Mapping[Path, str], source: str) -> int:
    """Write the files; with `--check`, only report which files are stale.

    Args:
        made: The expected content of each file.
        source: The origin of the files, for the error message.

    Returns:
        The exit status: 1 if a file is stale.
    """
    checks, stale = "--check" in sys.argv[1:], False
    for path, text in made.items():
        if not checks:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path.name} does not match {source}; run `make docs`\n")
            stale = True
    return int(stale)
