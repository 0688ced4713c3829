"""Compaction: its cost while it is not due, and a conversation of 2,000 turns in a small window.

The first part compares turns of agents without and with the option, far below the threshold, in
alternation. The second part is one conversation in a window of 16,000 tokens. Every request must
fit, the summaries must keep a fact of turn 3, and the CPU time per turn must not grow.
"""

import statistics
import time
from typing import Final

import trio

from agent_actors import AgentOptions, Compaction, open_runtime
from agent_actors.domain.model import ModelRequest
from agent_actors.testing import ScriptedModel, Turn, say, usage
from benchmarks.record import QUICK, ROUNDS, report, row

TURNS: Final = 600 if QUICK else 2000
WINDOW: Final = 16_000
SAMPLES: Final = 200
"""The number of turns for one figure."""
WARM: Final = 200
PROMPT: Final = "What is the weather like in Paris today, and what was it yesterday? " * 4
FACT: Final = "FACT-gate-17"


def answer(request: ModelRequest) -> Turn:
    """Respond, and copy the marked facts into summaries."""
    if request.system_prompt.startswith("Summarize the transcript"):
        words = request.messages[-1].content.split()
        return "Facts: " + " ".join(dict.fromkeys(w for w in words if w.startswith("FACT")))
    tokens = request.messages.estimate_tokens()
    if tokens > WINDOW:
        raise AssertionError(f"a request of {tokens} tokens exceeds the window of {WINDOW}")
    return [say(PROMPT), usage(tokens, len(PROMPT) // 4)]


def main() -> None:
    """Run the benchmark."""
    rounds = [trio.run(_idle) for _ in range(min(ROUNDS, 3))]
    off, on = ([one[at] * 1e6 for one in rounds] for at in (0, 1))
    idle = {"without": row(off, off), "configured, not due": row(on, off)}
    report("compaction_idle", "CPU per turn with compaction that is not due", "µs", idle)
    grown = [trio.run(_grow) for _ in range(min(ROUNDS, 3))]
    early, late = ([one[at] * 1e6 for one in grown] for at in (0, 1))
    rows = {
        f"turns {SAMPLES} to {2 * SAMPLES}": row(early, early),
        f"the last {SAMPLES} of {TURNS} turns": row(late, early),
    }
    report("compaction_turns", f"CPU per turn in a window of {WINDOW} tokens", "µs", rows)


async def _idle() -> tuple[float, float]:
    """Return the CPU seconds of a turn without the option and with it."""
    model = ScriptedModel(answer)
    agents = [
        AgentOptions(model="m", provider=model, compaction=compaction)
        for compaction in (None, Compaction())
    ]
    cpu: tuple[list[float], list[float]] = ([], [])
    async with open_runtime() as runtime:
        for at in range(WARM + SAMPLES):
            for which, agent in enumerate(agents):
                before = time.process_time()
                # A new session every few turns keeps the conversations short.
                await runtime.run(PROMPT, agent, session_id=f"{which}-{at // 10}")
                if at >= WARM:
                    cpu[which].append(time.process_time() - before)
            model.requests.clear()
    return statistics.median(cpu[0]), statistics.median(cpu[1])


async def _grow() -> tuple[float, float]:
    """Return the mean CPU seconds of an early and of a late turn of one conversation."""
    model = ScriptedModel(answer)
    options = AgentOptions(model="m", provider=model, compaction=Compaction(context_window=WINDOW))
    cpu: list[float] = []
    async with open_runtime() as runtime:
        for at in range(TURNS):
            prompt = f"{FACT} {PROMPT}" if at == 3 else PROMPT
            before = time.process_time()
            await runtime.run(prompt, options, session_id="s")
            cpu.append(time.process_time() - before)
            model.requests.clear()
        history = await runtime.sessions.history("s")
    if not any(FACT in message.content for message in history or ()):
        raise AssertionError("the fact of turn 3 is lost")
    return statistics.mean(cpu[SAMPLES : 2 * SAMPLES]), statistics.mean(cpu[-SAMPLES:])


if __name__ == "__main__":
    main()
