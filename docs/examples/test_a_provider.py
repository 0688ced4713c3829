"""Test a custom provider: its blocks, its errors, and cancellation at every step."""

from collections.abc import AsyncIterator

import trio
import trio.testing
from custom_provider import Chunk, Server, ServerProvider, get_weather

from agent_actors import AgentOptions, Messages, RunResult, open_runtime
from agent_actors.model import ModelDelta, ModelRequest, ModelSettings
from agent_actors.testing import cancel_at_every_step


class FlakyServer(Server):
    """A server that breaks the connection in the middle of its first response."""

    def __init__(self) -> None:
        self.requests = 0
        self.open = 0

    async def generate(self, prompt: str, tools: list[str]) -> AsyncIterator[Chunk]:
        self.requests += 1
        self.open += 1
        try:
            if self.requests == 1:
                yield {"text": "Let me "}
                raise ConnectionResetError("the server closed the connection")
            async for chunk in super().generate(prompt, tools):
                yield chunk
        finally:
            self.open -= 1


async def ask(server: Server) -> RunResult:
    provider = ServerProvider(server)
    options = AgentOptions(model="any", provider=provider, tools=[get_weather], max_retries=1)
    async with open_runtime() as runtime:
        return await runtime.run("What is the weather in Paris?", options)


async def test_deltas_of_a_response() -> None:
    messages = Messages().user("What is the weather in Paris?")
    request = ModelRequest(messages, ModelSettings("any"), tools=(get_weather.spec,))
    deltas: list[ModelDelta] = [delta async for delta in ServerProvider(Server()).stream(request)]
    assert [type(delta).__name__ for delta in deltas] == [
        "TextDelta",
        "ToolCallDelta",
        "ToolCallDelta",
        "UsageDelta",
        "FinishDelta",
    ]


async def test_tool_call_is_executed() -> None:
    result = await ask(Server())
    assert [call.content for call in result.tool_calls] == ["sunny in Paris"]
    assert [call.input for call in result.messages[1].tool_calls] == [{"city": "Paris"}]
    assert not result.usage.estimated


async def test_broken_connection_is_retried() -> None:
    server = FlakyServer()
    result = await ask(server)
    assert result.text.strip() == "It is sunny."
    assert server.requests == 3
    assert server.open == 0


def test_cancel_leaves_no_response_open() -> None:
    servers: list[FlakyServer] = []

    async def run() -> None:
        servers.append(FlakyServer())
        await ask(servers[-1])

    assert cancel_at_every_step(run) > 10
    assert all(server.open == 0 for server in servers)


for test in (
    test_deltas_of_a_response,
    test_tool_call_is_executed,
    test_broken_connection_is_retried,
):
    trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))
test_cancel_leaves_no_response_open()
print("ok")
