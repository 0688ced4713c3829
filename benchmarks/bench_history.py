"""Growth with history: what a turn costs on 2,000 messages more than on 20, by the byte sent.

One session goes on turn by turn; each turn sends the whole conversation. The CPU of the last turns
at either length is taken, and their difference divided by the difference of what was sent.
"""

import json
import statistics
import time
from typing import Final

import trio

from agent_actors import AgentOptions, open_runtime
from benchmarks.endpoint import pin
from benchmarks.harness import QUICK, endpoint, report

SHORT: Final = 20
LONG: Final = 400 if QUICK else 2000
SAMPLES: Final = 15
PROMPT: Final = "What is the weather like in Paris today, and what was it yesterday? " * 4


def main() -> None:
    """Measure."""
    pin(0)
    with endpoint() as served:
        short, long = trio.run(_grow, f"{served.url}/burst/10/10/v1")
    answer = "".join(f"word{number} " for number in range(10))
    pair = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": answer}]
    sent = len(json.dumps(pair, separators=(",", ":"))) / 2
    per_byte = (long - short) * 1e6 / (sent * (LONG - SHORT))
    rows = {
        f"a turn on {SHORT} messages": {"value": short * 1e3},
        f"a turn on {LONG} messages": {"value": long * 1e3, "ratio": long / short},
    }
    report("history", "CPU per turn, by the length of the history", "ms", rows, per_byte=per_byte)
    print(f"  {per_byte:.5f} µs per byte sent")


async def _grow(url: str) -> tuple[float, float]:
    options = AgentOptions(model="m", base_url=url)
    spent: list[float] = []
    async with open_runtime() as runtime:
        for _ in range(LONG // 2):
            before = time.process_time()
            await runtime.run(PROMPT, options, session_id="s")
            spent.append(time.process_time() - before)
    short = spent[SHORT // 2 - SAMPLES // 2 : SHORT // 2 + SAMPLES // 2]
    return statistics.median(short), statistics.median(spent[-SAMPLES:])


if __name__ == "__main__":
    main()
