"""Run every benchmark in a separate process, one after another: `python -m benchmarks`."""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run all benchmarks. Return the number of failed ones as the exit status."""
    failed = 0
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        sys.stdout.write(f"== {path.stem}\n")
        sys.stdout.flush()
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}"], check=False)
        failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
