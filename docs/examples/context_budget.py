"""Third pattern, a token budget: the session keeps everything; requests contain what fits."""

import os

import attrs
import trio

from agent_actors import AgentOptions, Hook, HookContext, open_runtime
from agent_actors.context import Trimmer, estimate_tokens
from agent_actors.model import ModelRequest


class FitsInto(Hook):
    """Send the newest messages that fit."""

    def __init__(self, max_tokens: int) -> None:
        self.trimmer = Trimmer(max_tokens)

    async def modify_request(self, request: ModelRequest, ctx: HookContext) -> ModelRequest | None:
        fits = self.trimmer.trim(request.messages)
        if len(fits) == len(request.messages):
            return None
        # Many models require a user message first. If the newest exchange alone is too long, send
        # it anyway: a rejected request is better than an empty one.
        starts = [at for at, one in enumerate(request.messages) if one.role == "user"]
        first = next((at for at in starts if at >= len(request.messages) - len(fits)), starts[-1])
        fits = request.messages[first:]
        print(f"sent {len(fits)} of {len(request.messages)} messages")
        return attrs.evolve(request, messages=fits)


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    hooks=FitsInto(400),
)


async def main() -> None:
    async with open_runtime() as runtime:
        for number in range(6):
            result = await runtime.run(f"Tell me fact {number}.", options, session_id="s")
            print(f"{len(result.messages)} kept, about {estimate_tokens(result.messages)} tokens")


trio.run(main)
