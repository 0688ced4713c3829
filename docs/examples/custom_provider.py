"""Write a custom provider: translate the wire format of a model server into deltas."""

from collections.abc import AsyncIterator, Iterable
from typing import TypedDict

import trio

from agent_actors import AgentOptions, Usage, open_runtime, tool
from agent_actors.errors import ProviderConnectError
from agent_actors.model import (
    FinishDelta,
    ModelDelta,
    ModelRequest,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)


class Chunk(TypedDict, total=False):
    """A chunk of this server's response."""

    text: str
    call: tuple[int, str, str, str]
    tokens: tuple[int, int]


class Server:
    """A stand-in for the client of your model server."""

    async def generate(self, prompt: str, tools: list[str]) -> AsyncIterator[Chunk]:
        await trio.lowlevel.checkpoint()
        if tools and "Result:" not in prompt:
            yield {"text": "Let me look. "}
            yield {"call": (0, "c1", tools[0], '{"city": ')}
            yield {"call": (0, "", "", '"Paris"}')}
        else:
            for word in ("It", "is", "sunny."):
                yield {"text": f"{word} "}
        yield {"tokens": (12, 7)}


class ServerProvider:
    """A provider that yields the server's response as deltas."""

    name = "my-server"

    def __init__(self, server: Server) -> None:
        self.server = server

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        prompt = as_prompt(request)
        tools = [spec.name for spec in request.tools]
        try:
            async for chunk in self.server.generate(prompt, tools):
                for delta in as_deltas(chunk):
                    yield delta
        except OSError as error:
            raise ProviderConnectError(str(error), endpoint=self.name) from error

    async def aclose(self) -> None:
        """Close the connections of the server's client; this stand-in has none."""


def as_prompt(request: ModelRequest) -> str:
    lines = [request.system_prompt]
    for message in request.messages:
        role = "Result" if message.role == "tool" else message.role
        if message.content:
            lines.append(f"{role}: {message.content}")
    return "\n".join(filter(None, lines))


def as_deltas(chunk: Chunk) -> Iterable[ModelDelta]:
    if "text" in chunk:
        yield TextDelta(chunk["text"])
    if "call" in chunk:
        index, call_id, name, arguments = chunk["call"]
        yield ToolCallDelta(index, call_id, name, arguments)
    if "tokens" in chunk:
        sent, received = chunk["tokens"]
        yield UsageDelta(Usage(input_tokens=sent, output_tokens=received))
        yield FinishDelta("stop")


@tool
async def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"sunny in {city}"


async def main() -> None:
    options = AgentOptions(
        model="any", provider=ServerProvider(Server()), tools=[get_weather], max_retries=1
    )
    async with open_runtime() as runtime:
        result = await runtime.run("What is the weather in Paris?", options)
    print(result.text.strip(), result.usage.total_tokens)


if __name__ == "__main__":
    trio.run(main)
