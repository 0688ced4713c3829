from collections.abc import AsyncIterator, Callable

import pytest
import trio
import trio.testing

from agent_actors.abc import ModelProvider, ModelSink
from agent_actors.domain.blocks import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    FinishDelta,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ModelSettings,
    ProgressDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import ConfigError, ProviderProtocolError
from agent_actors.providers.custom import adapt_provider
from agent_actors.providers.response_sink import DroppingSink
from tests.providers.sinks import CollectingSink

REQUEST = ModelRequest(Messages().user("Hello?"), ModelSettings("m"), turn=3)
ANSWER = ModelCompleted(
    (
        ThinkingBlock("Hm", "seal"),
        TextBlock("Hello"),
        ToolUseBlock("a", "f", {"x": 1}),
        ToolUseError("bad"),
        ImageBlock("https://x/y.png"),
        ToolUseBlock("b", "g", {}, "{ }"),
    ),
    "tool_calls",
    Usage(1, 2),
)
DELTAS: list[ModelDelta] = [
    ThinkingDelta("Hm", "seal"),
    TextDelta("Hello"),
    ToolCallDelta(0, "a", "f", '{"x": 1}'),
    ToolCallDelta(1, "b", "g", "{ }"),
]


class Completes:
    def __init__(self, answer: object = ANSWER) -> None:
        self._answer = answer

    async def complete(self, request: ModelRequest) -> object:
        await trio.lowlevel.checkpoint()
        return self._answer


class Streams:
    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        await trio.lowlevel.checkpoint()
        sink.feed([TextDelta("Hel"), TextDelta("lo")])
        return ModelCompleted((TextBlock("Hello"),))


class Yields:
    """A provider with an async generator, which records whether it was closed."""

    def __init__(self, *pieces: object) -> None:
        self._pieces = pieces
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[object]:
        try:
            for piece in self._pieces:
                await trio.lowlevel.checkpoint()
                yield piece
        finally:
            self.closed = True


class Whole(Streams):
    name = "whole"

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        return ANSWER

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


@pytest.mark.feature("OAGS-046")
def test_complete_provider_is_passed_through() -> None:
    provider: object = Whole()
    assert adapt_provider(provider) is provider


@pytest.mark.feature("OAGS-044", "ASDK-018")
async def test_complete_method_alone_gives_one_delta() -> None:
    provider = adapt_provider(Completes())
    assert isinstance(provider, ModelProvider)
    sink = CollectingSink.roomy()
    assert await provider.stream(REQUEST, sink) == ANSWER
    assert sink.batches == [DELTAS]
    assert await provider.complete(REQUEST) == ANSWER


@pytest.mark.feature("OAGS-044")
async def test_complete_may_return_a_text() -> None:
    provider = adapt_provider(Completes("Hello"))
    sink = CollectingSink.roomy()
    answer = await provider.stream(REQUEST, sink)
    assert (answer.blocks, answer.finish_reason) == ((TextBlock("Hello"),), "stop")
    assert answer.usage.estimated
    assert sink.deltas == [TextDelta("Hello")]


async def test_an_empty_answer_shows_nothing() -> None:
    sink = CollectingSink.roomy()
    empty = ModelCompleted((TextBlock(""), ThinkingBlock("")))
    assert await adapt_provider(Completes(empty)).stream(REQUEST, sink) == empty
    assert sink.batches == []


@pytest.mark.feature("OAGS-045", "ASDK-018")
async def test_an_object_with_only_stream_completes() -> None:
    provider = adapt_provider(Streams())
    assert isinstance(provider, ModelProvider)
    assert (await provider.complete(REQUEST)).text == "Hello"
    sink = CollectingSink.roomy()
    await provider.stream(REQUEST, sink)
    assert sink.deltas == [TextDelta("Hel"), TextDelta("lo")]


@pytest.mark.feature("OAGS-045", "OAGS-041")
async def test_an_async_generator_of_deltas_is_assembled() -> None:
    generator = Yields(
        ThinkingDelta("Hm"),
        TextDelta("Hel"),
        TextDelta("lo"),
        ToolCallDelta(0, "", "f", '{"x":'),
        ToolCallDelta(0, "", "", "1}"),
        UsageDelta(Usage(5, 6)),
        FinishDelta("stop"),
    )
    sink = CollectingSink.roomy()
    answer = await adapt_provider(generator).stream(REQUEST, sink)
    assert answer == ModelCompleted(
        (
            ThinkingBlock("Hm"),
            TextBlock("Hello"),
            ToolUseBlock("call_3_0", "f", {"x": 1}, '{"x":1}'),
        ),
        "tool_calls",
        Usage(5, 6),
    )
    assert sink.deltas[:3] == [ThinkingDelta("Hm"), TextDelta("Hel"), TextDelta("lo")]
    assert generator.closed


async def test_generator_may_yield_progress() -> None:
    sink = CollectingSink.roomy()
    going_on = ProgressDelta()
    answer = await adapt_provider(Yields(going_on, TextDelta("Hi"))).stream(REQUEST, sink)
    assert answer.blocks == (TextBlock("Hi"),)
    assert sink.deltas == [going_on, TextDelta("Hi")]


async def test_generator_without_finish_has_stopped() -> None:
    provider = adapt_provider(Yields(TextDelta("so"), TextDelta("so on")))
    sink = CollectingSink.roomy()
    answer = await provider.stream(REQUEST, sink)
    assert (answer.text, answer.finish_reason) == ("soso on", "stop")
    assert sink.deltas == [TextDelta("so"), TextDelta("so on")]


async def test_cancelled_reader_closes_generator() -> None:
    generator = Yields(TextDelta("a"))
    with trio.CancelScope() as scope:
        sink = CollectingSink()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(adapt_provider(generator).stream, REQUEST, sink)
            await trio.testing.wait_all_tasks_blocked()
            assert sink.waited == 1
            scope.cancel()
    assert generator.closed


async def test_full_sink_is_awaited() -> None:
    for source in (Completes(), Yields(TextDelta("Hello"))):
        sink = CollectingSink()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(adapt_provider(source).stream, REQUEST, sink)
            await trio.testing.wait_all_tasks_blocked()
            assert sink.batches == []
            sink.room.set()
        assert sink.waited == 1
        assert sink.batches


async def test_invalid_delta_closes_the_generator() -> None:
    generator = Yields("text")
    with pytest.raises(ProviderProtocolError, match="yielded 'text'; expected a delta"):
        await adapt_provider(generator).complete(REQUEST)
    assert generator.closed


@pytest.mark.parametrize("answer", [None, 3, {"text": "x"}])
async def test_wrong_complete_result_is_refused(answer: object) -> None:
    with pytest.raises(ProviderProtocolError, match=r"Completes: complete\(\) returned"):
        await adapt_provider(Completes(answer)).complete(REQUEST)


async def test_sync_method_is_refused_when_called() -> None:
    class Sync:
        def complete(self, request: ModelRequest) -> str:
            return "x"

    with pytest.raises(ConfigError, match="declare it `async def`"):
        await adapt_provider(Sync()).complete(REQUEST)


async def test_wrong_stream_result_is_refused() -> None:
    class Lists:
        def stream(self, request: ModelRequest) -> list[str]:
            return []

    with pytest.raises(ConfigError, match=r"stream\(request\) returned \[\]"):
        await adapt_provider(Lists()).complete(REQUEST)


class NoSink:
    async def stream(self, request: ModelRequest) -> ModelCompleted:
        return ANSWER


@pytest.mark.parametrize("provider", [object(), None, "model", 3, NoSink()])
def test_other_objects_are_refused_with_hint(provider: object) -> None:
    with pytest.raises(ConfigError, match=r"expected an object with `async def complete"):
        adapt_provider(provider)


def test_class_instead_of_object_is_refused() -> None:
    with pytest.raises(ConfigError, match="is the class Whole; pass an instance"):
        adapt_provider(Whole)


async def test_stream_with_hidden_signature_gets_sink() -> None:
    class Builtin:
        stream: Callable[..., object] = (
            max  # it has no readable signature, and cannot compare these two arguments
        )

    with pytest.raises(TypeError, match="'>' not supported"):
        await adapt_provider(Builtin()).complete(REQUEST)


async def test_yielding_stream_of_provider_is_adapted() -> None:
    class Odd(Yields):
        name = "odd"
        closings = 0

        async def complete(self, request: ModelRequest) -> ModelCompleted:
            return ANSWER

        async def aclose(self) -> None:
            self.closings += 1

    source = Odd(TextDelta("a"))
    provider = adapt_provider(source)
    sink = CollectingSink.roomy()
    assert (await provider.stream(REQUEST, sink)).text == "a"
    assert await provider.complete(REQUEST) == ANSWER
    await provider.aclose()
    assert (provider.name, source.closings) == ("odd", 1)


async def test_missing_name_and_close_are_added() -> None:
    provider = adapt_provider(Streams())
    assert provider.name == "Streams"
    await provider.aclose()


async def test_dropping_sink_always_has_room() -> None:
    sink = DroppingSink()
    assert sink.full is False
    await sink.wait_room()
