"""A client and a query over real sockets, in both protocols, and the requests that they send."""

from typing import Literal

import pytest

from agent_actors import AgentOptions, Client, query
from agent_actors.domain.json import JsonValue
from agent_actors.errors import ProviderError
from agent_actors.model import AnthropicMessages, OpenAIChat
from agent_actors.testing import EndpointRequest, ScriptedEndpoint, call, disconnect, reply, say
from tests.client.helpers import add, ask, calls_of, read, shown

each_protocol = pytest.mark.parametrize("protocol", ["openai", "anthropic"])


def options(endpoint: ScriptedEndpoint, protocol: str) -> AgentOptions:
    url = endpoint.base_url
    return AgentOptions(
        model="any",
        provider=OpenAIChat(base_url=url)
        if protocol == "openai"
        else AnthropicMessages(base_url=url),
        system_prompt="Be brief.",
        tools=[add],
        max_retries=0,
    )


def said_by(request: EndpointRequest) -> list[JsonValue]:
    messages = request.body["messages"]
    assert isinstance(messages, list)
    return [message["role"] for message in messages if isinstance(message, dict)]


@each_protocol
async def test_conversation_with_manual_call_over_sockets(
    protocol: Literal["openai", "anthropic"],
) -> None:
    script = [
        reply(say("Let me see.", chunks=3), call("add", {"a": 1, "b": 2}, chunks=4), split=[5, 90]),
        reply(say("It is 3.", chunks=2)),
        reply(say("Bye.")),
    ]
    async with ScriptedEndpoint(script) as endpoint, Client(options(endpoint, protocol)) as client:
        blocks = await ask(client, "1 + 2?")
        assert "".join(one[5:] for one in shown(blocks)[:-1]) == "Let me see."
        (use,) = calls_of(blocks)
        await client.add_tool_result(use.id, await add.execute(use.input))
        await client.query("")
        assert "".join(one[5:] for one in shown(await read(client))) == "It is 3."
        client.message_history = client.history[-1:]
        assert shown(await ask(client, "Bye.")) == ["text Bye."]
    again, last = (said_by(request) for request in endpoint.requests[1:])
    if protocol == "openai":
        assert again == ["system", "user", "assistant", "tool"]
        assert last == ["system", "assistant", "user"]
    else:
        assert again == ["user", "assistant", "user"]


@each_protocol
async def test_broken_stream_is_reported_and_retryable(protocol: str) -> None:
    script = [reply(say("It i"), disconnect()), reply(say("It is."))]
    async with ScriptedEndpoint(script) as endpoint, Client(options(endpoint, protocol)) as client:
        await client.query("Is it?")
        with pytest.raises(ProviderError):
            await read(client)
        await client.continue_turn()
        assert "It is." in "".join(shown(await read(client)))


@each_protocol
async def test_query_over_sockets(protocol: str) -> None:
    async with (
        ScriptedEndpoint([reply(say("Hello."))]) as endpoint,
        query("Hi.", options(endpoint, protocol)) as messages,
    ):
        found = [block async for message in messages for block in message.content]
    assert shown(found) == ["text Hello."]
