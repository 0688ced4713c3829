"""Install each peer into a separate environment: `python -m benchmarks.peers_setup`."""

import json
import subprocess
import venv
from pathlib import Path
from typing import Final

from benchmarks.harness import ROOT, Contender

PEERS: Final = Path(__file__).parent / "peers"
ENVIRONMENTS: Final = ROOT / ".venv-peers"


def requirements() -> dict[str, list[str]]:
    """Return the pinned requirements of each peer."""
    found: dict[str, list[str]] = json.loads(
        (PEERS / "requirements.json").read_text(encoding="utf-8")
    )
    return found


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer's environment."""
    return ENVIRONMENTS / peer / "bin" / "python"


def contender(name: str, peer: str, *settings: str) -> Contender:
    """Return a peer as a contender; `settings` are variables of its environment."""
    program = str(PEERS / f"use_{peer}.py")
    return Contender(name, ("env", *settings, str(python_of(peer)), program))


def main() -> None:
    """Create the missing environments."""
    for peer, needed in requirements().items():
        python, stamp = python_of(peer), ENVIRONMENTS / peer / "installed.json"
        if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == needed:
            continue
        print(f"Installing {', '.join(needed)} ...", flush=True)
        if not python.exists():
            venv.create(ENVIRONMENTS / peer, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *needed], check=True)
        stamp.write_text(json.dumps(needed), encoding="utf-8")


if __name__ == "__main__":
    main()
