"""Run a thousand prompts, a hundred at a time, and write each response to a CSV file."""

import csv
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

import trio

from agent_actors import AgentError, AgentOptions, Runtime, open_runtime

AT_ONCE = 100

options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    max_retries=3,
)


async def fan_out(runtime: Runtime, prompts: Sequence[str], file: IO[str]) -> int:
    """Write a row for each prompt, and return the number of failures."""
    rows = csv.writer(file)
    rows.writerow(["number", "prompt", "answer", "error", "tokens"])
    limiter = trio.CapacityLimiter(AT_ONCE)
    done = failed = 0

    async def ask(number: int, prompt: str) -> None:
        nonlocal done, failed
        async with limiter:
            answer = error = ""
            tokens = 0
            try:
                result = await runtime.run(prompt, options)
                answer, tokens = result.text, result.usage.total_tokens
            except AgentError as failure:  # a failed run does not affect the others
                error = str(failure)
                failed += 1
        done += 1
        rows.writerow([number, prompt, answer, error, tokens])
        if done % 100 == 0 or done == len(prompts):
            print(f"{done} of {len(prompts)}, {failed} failed", file=sys.stderr)

    async with trio.open_nursery() as nursery:
        for number, prompt in enumerate(prompts):
            nursery.start_soon(ask, number, prompt)
    return failed


async def main() -> None:
    prompts = [f"A word that rhymes with number {number}?" for number in range(1000)]
    with tempfile.NamedTemporaryFile("w+", newline="", suffix=".csv") as file:
        async with open_runtime() as runtime:
            failed = await fan_out(runtime, prompts, file)
        file.seek(0)
        print(f"{sum(1 for _ in csv.reader(file)) - 1} rows, {failed} failed")


if __name__ == "__main__":
    trio.run(main)
