"""Runs every benchmark, one after another, in a process of its own: `python -m benchmarks`."""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run them all; the number of those that failed is the exit status."""
    failed = 0
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        sys.stdout.write(f"== {path.stem}\n")
        sys.stdout.flush()
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}"], check=False)
        failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
