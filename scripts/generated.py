"""Files of the documentation that are made from the code: they are written, or compared."""

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_compare(made: Mapping[Path, str], source: str) -> int:
    """Write the files; with `--check` only say which are stale.

    Args:
        made: What each file is to hold.
        source: What they are made from, for the message.

    Returns:
        The exit status: 1 if one is stale.
    """
    checks, stale = "--check" in sys.argv[1:], False
    for path, text in made.items():
        if not checks:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path.name} is not what {source} says; run `make docs`\n")
            stale = True
    return int(stale)
