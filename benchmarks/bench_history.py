"""Growth with history: what a turn costs on 2,000 messages more than on 20, by the byte sent.

One session goes on turn by turn; each turn sends the whole conversation. The CPU of the turns
around either length is taken, and their difference divided by that of what the endpoint was sent.
"""

import statistics
import time
from typing import Final

import attrs
import trio

from agent_actors import AgentOptions, open_runtime
from benchmarks.endpoint import pin
from benchmarks.harness import Endpoint, endpoint
from benchmarks.record import QUICK, ROUNDS, Row, report, row

SHORT: Final = 20
LONG: Final = 400 if QUICK else 2000
SAMPLES: Final = 16
"""Turns whose median stands for a length."""
WARM: Final = 200
"""Turns before, in sessions of their own: the interpreter specializes what runs often."""
PROMPT: Final = "What is the weather like in Paris today, and what was it yesterday? " * 4


@attrs.frozen
class Length:
    """One turn at some length of the history: seconds of CPU, and bytes sent."""

    cpu: float
    sent: float


def main() -> None:
    """Measure."""
    pin(0)
    with endpoint() as served:
        found = [trio.run(_grow, served) for _ in range(min(ROUNDS, 3))]
    shorts, longs = ([one[at].cpu * 1e3 for one in found] for at in (0, 1))
    rows = {
        f"a turn on {SHORT} messages": row(shorts, shorts),
        f"a turn on {LONG} messages": row(longs, shorts),
    }
    report("history", "CPU per turn, by the length of the history", "ms", rows)
    per_byte: dict[str, Row] = {
        "agent_actors": row(
            [(long.cpu - short.cpu) * 1e6 / (long.sent - short.sent) for short, long in found]
        )
    }
    title = f"CPU per byte sent that {LONG} messages cost more than {SHORT}"
    report("history_byte", title, "µs", per_byte)


async def _grow(served: Endpoint) -> tuple[Length, Length]:
    """Let one session go on; what a turn is at either length."""
    options = AgentOptions(model="m", base_url=served.base_url("burst/10/10"))

    async def turns(count: int) -> Length:
        cpu: list[float] = []
        sent_before = served.stats()["received"]
        for _ in range(count):
            before = time.process_time()
            await runtime.run(PROMPT, options, session_id="s")
            cpu.append(time.process_time() - before)
        sent = (served.stats()["received"] - sent_before) / count
        return Length(statistics.median(cpu), sent)

    async with open_runtime() as runtime:
        for _ in range(WARM):
            await runtime.run(PROMPT, options)
        await turns((SHORT - SAMPLES) // 2)
        short = await turns(SAMPLES)
        await turns((LONG - SHORT) // 2 - SAMPLES)
        return short, await turns(SAMPLES)


if __name__ == "__main__":
    main()
