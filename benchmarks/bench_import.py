"""CPU to import the package, against the CPU to import the packages that it is built on.

The package imports the module of a public name when a program first uses the name. Two rows measure
that: the names of a module with tools, and the names of a complete agent. Each measurement starts a
new interpreter, and the measurements take turns.
"""

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Final

from benchmarks.harness import ROOT
from benchmarks.record import ROUNDS, report, take_turns

BASE: Final = "trio, attrs, cattrs, msgspec"
PACKAGE: Final = "agent_actors"

_IMPORT: Final = f"import {BASE}"
_AGENT: Final = "AgentOptions, open_runtime, tool"

_PROGRAMS: Final[Mapping[str, str]] = {
    BASE: _IMPORT,
    PACKAGE: f"{_IMPORT}, {PACKAGE}",
    "tool": f"{_IMPORT}; from {PACKAGE} import tool",
    _AGENT: f"{_IMPORT}; from {PACKAGE} import {_AGENT}",
}
_REPEATS: Final = 3


def main() -> None:
    """Run the benchmark."""
    rows = take_turns(
        {name: partial(_cpu, program) for name, program in _PROGRAMS.items()},
        rounds=min(ROUNDS, 3),
        scale=1e3,
    )
    report("import", "CPU to import the package", "ms", rows)


def _cpu(program: str) -> float:
    """Return the mean CPU seconds of a program in a new interpreter."""
    measured = f"import time; at = time.process_time(); {program}; print(time.process_time() - at)"
    command = [sys.executable, "-c", measured]
    total = 0.0
    for _ in range(_REPEATS):
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
        total += float(done.stdout)
    return total / _REPEATS


if __name__ == "__main__":
    main()
