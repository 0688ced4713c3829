"""The cost of creating an options object, and a session: its gate entry and its state."""

import time
from collections.abc import Callable
from typing import Final

from agent_actors import AgentOptions, tool
from agent_actors.actors.session_gate import SessionGate
from agent_actors.sessions.state import SessionState
from benchmarks.endpoint import pin
from benchmarks.record import QUICK, report, take_turns

COUNT: Final = 500 if QUICK else 5000


@tool
async def lookup(name: str, depth: int = 1) -> str:
    """Look up a name."""
    return f"{name} {depth}"


def _options() -> None:
    AgentOptions(model="m", base_url="http://127.0.0.1:1/v1", tools=[lookup])


def _sessions() -> Callable[[], None]:
    gate, kept = SessionGate(), list[SessionState]()

    def make() -> None:
        gate.acquire_nowait(f"s{len(kept)}", "run")
        kept.append(SessionState())

    return make


def main() -> None:
    """Run the benchmark."""
    pin(0)
    contenders = {
        "an options object": lambda: _timed(_options),
        "a session": lambda: _timed(_sessions()),
    }
    report("making", "CPU to create an object", "µs", take_turns(contenders, scale=1e6))


def _timed(make: Callable[[], None]) -> float:
    began = time.process_time()
    for _ in range(COUNT):
        make()
    return (time.process_time() - began) / COUNT


if __name__ == "__main__":
    main()
