"""Use your own model: any object with `complete` or `stream` is a provider."""

from collections.abc import AsyncIterator

import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.model import ModelDelta, ModelRequest, TextDelta


class Parrot:
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        for word in request.messages.last_content().split():
            yield TextDelta(f"{word} ")


options = AgentOptions(model="parrot", provider=Parrot())


async def main() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Polly wants a cracker", options)
        print(result.text.strip())


trio.run(main)
