"""Cancel a run at each of its steps, and check that it leaves nothing behind."""

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.testing import ScriptedModel, StepOutcome, call, cancel_at_every_step, say

lock = trio.Lock()


@tool
async def book(seat: int) -> str:
    """Book a seat."""
    async with lock:
        await trio.sleep(1)
    return f"seat {seat} is yours"


async def book_a_seat() -> None:
    model = ScriptedModel([[call("book", {"seat": 7})], [say("Done.")]])
    options = AgentOptions(model="scripted", provider=model, tools=[book])
    async with open_runtime() as runtime:
        await runtime.run("Seat 7, please.", options)


def test_lock_is_free_after_every_cancellation() -> None:
    def check(step: int, outcome: StepOutcome[None]) -> None:
        assert not lock.locked(), f"held after cancellation at step {step}"

    assert cancel_at_every_step(book_a_seat, check=check) > 3


if __name__ == "__main__":
    test_lock_is_free_after_every_cancellation()
    print("ok")
