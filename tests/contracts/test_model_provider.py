"""The contract of `ModelProvider`, over every kind of implementation, without a runtime."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import pytest
import trio
import trio.testing

from agent_actors.abc import ModelProvider, ModelSink
from agent_actors.domain.blocks import TextBlock, ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    FinishDelta,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ToolCallDelta,
)
from agent_actors.providers.anthropic import AnthropicMessages
from agent_actors.providers.custom import adapt_provider
from agent_actors.providers.openai_chat import OpenAIChat
from agent_actors.testing import ReplyStep, ScriptedEndpoint, call, say
from tests.providers.anthropic import answers as anthropic
from tests.providers.openai_chat.answers import calls, chunk, entry, sse, text
from tests.providers.openai_chat.fake_exchange import FakeExchange
from tests.providers.sinks import CollectingSink

Open: TypeAlias = Callable[[], AbstractAsyncContextManager[ModelProvider]]

REQUEST = ModelRequest(Messages().user("Look."), ModelSettings("m"))
BLOCKS = (TextBlock("Let me look."), ToolUseBlock("a", "find", {"q": 1}, '{"q":1}'))
PIECES: list[ModelDelta] = [
    TextDelta("Let me "),
    TextDelta("look."),
    ToolCallDelta(0, "a", "find", '{"q":1}'),
    FinishDelta("tool_calls"),
]


class Completes:
    async def complete(self, request: ModelRequest) -> ModelCompleted:
        await trio.lowlevel.checkpoint()
        return ModelCompleted(BLOCKS, "tool_calls")


class Feeds:
    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        for piece in PIECES:
            if sink.full:
                await sink.wait_room()
            await trio.lowlevel.checkpoint()
            sink.feed([piece])
        return ModelCompleted(BLOCKS, "tool_calls")


class Yields:
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        for piece in PIECES:
            await trio.lowlevel.checkpoint()
            yield piece


@asynccontextmanager
async def openai_in_memory() -> AsyncGenerator[ModelProvider]:
    body = sse(
        text("Let me "),
        text("look."),
        calls(entry(0, "a", "find", '{"q":1}')),
        chunk({}, "tool_calls"),
    )
    reads = [body[at : at + 40] for at in range(0, len(body), 40)]
    yield OpenAIChat(base_url="http://host/v1", exchange=FakeExchange(reads))


@asynccontextmanager
async def openai_over_http() -> AsyncGenerator[ModelProvider]:
    turn: list[ReplyStep] = [say("Let me look.", chunks=2), call("find", {"q": 1}, id="a")]
    async with ScriptedEndpoint(lambda _: turn) as endpoint:
        chat = OpenAIChat(base_url=endpoint.base_url)
        try:
            yield chat
        finally:
            await chat.aclose()


@asynccontextmanager
async def anthropic_in_memory() -> AsyncGenerator[ModelProvider]:
    body = anthropic.sse(
        anthropic.begin(),
        *anthropic.text_block("Let me ", "look."),
        *anthropic.call_block('{"q":1}', index=1),
        *anthropic.end("tool_use"),
    )
    reads = [body[at : at + 40] for at in range(0, len(body), 40)]
    yield AnthropicMessages(exchange=FakeExchange(reads))


@asynccontextmanager
async def anthropic_over_http() -> AsyncGenerator[ModelProvider]:
    turn: list[ReplyStep] = [say("Let me look.", chunks=2), call("find", {"q": 1}, id="a")]
    async with ScriptedEndpoint(lambda _: turn) as endpoint:
        messages = AnthropicMessages(base_url=endpoint.base_url)
        try:
            yield messages
        finally:
            await messages.aclose()


def adapted(make: Callable[[], object]) -> Open:
    @asynccontextmanager
    async def opener() -> AsyncGenerator[ModelProvider]:
        yield adapt_provider(make())

    return opener


OPENERS: dict[str, Open] = {
    "openai in memory": openai_in_memory,
    "openai over http": openai_over_http,
    "anthropic in memory": anthropic_in_memory,
    "anthropic over http": anthropic_over_http,
    "only complete": adapted(Completes),
    "only stream": adapted(Feeds),
    "a generator": adapted(Yields),
}


@pytest.fixture(params=OPENERS.values(), ids=list(OPENERS))
def open_provider(request: pytest.FixtureRequest) -> Open:
    opener: Open = request.param
    return opener


async def test_provider_has_a_name(open_provider: Open) -> None:
    async with open_provider() as provider:
        assert isinstance(provider, ModelProvider)
        assert provider.name


async def test_complete_returns_the_full_response(open_provider: Open) -> None:
    async with open_provider() as provider:
        answer = await provider.complete(REQUEST)
    assert (answer.blocks, answer.finish_reason) == (BLOCKS, "tool_calls")


async def test_stream_returns_what_it_shows(open_provider: Open) -> None:
    sink = CollectingSink.roomy()
    async with open_provider() as provider:
        answer = await provider.stream(REQUEST, sink)
    assert answer.blocks == BLOCKS
    texts = [delta.text for delta in sink.deltas if isinstance(delta, TextDelta)]
    assert "".join(texts) == "Let me look."
    fragments = [delta for delta in sink.deltas if isinstance(delta, ToolCallDelta)]
    assert {fragment.id for fragment in fragments} == {"a"}
    assert "".join(str(fragment.arguments) for fragment in fragments) == '{"q":1}'
    assert all(sink.batches)


async def test_calls_of_one_provider_do_not_mix(open_provider: Open) -> None:
    sinks = [CollectingSink.roomy() for _ in range(5)]
    async with open_provider() as provider, trio.open_nursery() as nursery:
        for sink in sinks:
            nursery.start_soon(provider.stream, REQUEST, sink)
    first = [delta for delta in sinks[0].deltas if isinstance(delta, TextDelta)]
    for sink in sinks:
        assert [delta for delta in sink.deltas if isinstance(delta, TextDelta)] == first


async def test_provider_waits_while_sink_is_full(open_provider: Open) -> None:
    sink = CollectingSink()
    async with open_provider() as provider:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(provider.stream, REQUEST, sink)
            while not sink.waited:
                await trio.testing.wait_all_tasks_blocked(0.001)
            assert sink.batches == []
            sink.room.set()
        assert sink.batches


async def test_full_sink_can_be_cancelled(open_provider: Open) -> None:
    sink = CollectingSink()
    async with open_provider() as provider:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(provider.stream, REQUEST, sink)
            while not sink.waited:
                await trio.testing.wait_all_tasks_blocked(0.001)
            nursery.cancel_scope.cancel()
        assert sink.batches == []
        assert (await provider.complete(REQUEST)).blocks == BLOCKS


async def test_sink_error_is_raised_unwrapped(open_provider: Open) -> None:
    class Refused(Exception):
        pass

    class Refusing(CollectingSink):
        def feed(self, deltas: object) -> None:
            raise Refused

    sink = Refusing()
    sink.room.set()
    async with open_provider() as provider:
        with pytest.raises(Refused):
            await provider.stream(REQUEST, sink)


async def test_closing_twice_is_closing_once(open_provider: Open) -> None:
    async with open_provider() as provider:
        await provider.aclose()
        await provider.aclose()
