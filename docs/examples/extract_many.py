"""Extract structured data from 300 texts, ten at a time, and show the progress."""

from collections import Counter

import trio
from pydantic import BaseModel, Field

from agent_actors import AgentOptions, OutputError, Runtime, open_runtime
from agent_actors.domain.model import ModelRequest
from agent_actors.events import OutputDelta
from agent_actors.testing import ScriptedModel, Turn, say

TEXTS = [f"Invoice {number}: {number % 7} items" for number in range(300)]
AT_ONCE = 10


class Invoice(BaseModel):
    """An invoice."""

    number: int
    items: int = Field(ge=1)


def extract(request: ModelRequest) -> Turn:
    """Return the response of a model that reads the number and the items from the text."""
    words = request.messages[0].content.replace(":", "").split()
    return [say(f'{{"number": {words[1]}, ', f'"items": {words[2]}}}')]


agent = AgentOptions(
    model="scripted", provider=ScriptedModel(extract), output_type=Invoice, output_retries=0
)


async def main() -> None:
    found: list[Invoice] = []
    counts: Counter[str] = Counter()
    limiter = trio.CapacityLimiter(AT_ONCE)

    async def extract_one(runtime: Runtime, text: str) -> None:
        async with limiter, runtime.stream(text, agent) as events:
            async for event in events:
                counts["updates"] += isinstance(event, OutputDelta)
        try:
            found.append(events.result.output)
        except OutputError as error:
            counts[str(error)] += 1
        if len(found) % 100 == 0:
            print(f"{len(found)} of {len(TEXTS)} invoices")

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        for text in TEXTS:
            nursery.start_soon(extract_one, runtime, text)
    print(f"{len(found)} invoices with {sum(one.items for one in found)} items")
    print(counts)


trio.run(main)
