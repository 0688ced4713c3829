"""Growth with the history: the additional cost of a turn per additional byte that it sends.

One session runs turn after turn, and each turn sends the complete conversation. The CPU time of
turns is measured near 20 and near 2,000 messages. The difference in CPU time is divided by the
difference in bytes that the endpoint received.
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
"""The number of turns at each length. Their median is the result."""
WARM: Final = 200
"""The number of turns before the measurement, in separate sessions, because Python specializes
bytecode that runs often.
"""
PROMPT: Final = "What is the weather like in Paris today, and what was it yesterday? " * 4


@attrs.frozen
class Length:
    """A turn at a certain length of the history: CPU seconds, and bytes sent."""

    cpu: float
    sent: float


def main() -> None:
    """Run the benchmark."""
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
    title = f"CPU per additional byte sent, with {LONG} messages instead of {SHORT}"
    report("history_byte", title, "µs", per_byte)


async def _grow(served: Endpoint) -> tuple[Length, Length]:
    """Run one session and return the cost of a turn at each length."""
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
