"""`RunStream.batches` yields the same events as the stream, in the batches in which they arrive."""

import math

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.abc import ModelSink
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.events import AssistantDelta, ErrorEvent, Event, ResultEvent, RunEvent
from agent_actors.domain.model import ModelCompleted, ModelRequest, TextDelta
from agent_actors.errors import ProviderConnectError
from agent_actors.testing import ScriptedModel, Turn, call, fail, hang, say


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


def options() -> AgentOptions:
    turns: list[Turn] = [call("echo", {"text": "a"}), [say("One "), say("two "), say("three.")]]
    return AgentOptions(model="m", provider=ScriptedModel(turns), tools=[echo])


def shown(events: list[RunEvent]) -> list[tuple[str, str]]:
    return [(event.type, getattr(event, "text", "")) for event in events]


@given(st.lists(st.integers(0, 5), max_size=8))
def test_batches_and_events_can_alternate(counts: list[int]) -> None:
    """Read some single events, then a batch, then some single events, and so on."""

    async def read() -> tuple[list[RunEvent], list[RunEvent]]:
        plain, mixed = list[RunEvent](), list[RunEvent]()
        async with open_runtime() as runtime:
            async with runtime.stream("Go.", options()) as events:
                async for event in events:
                    plain.append(event)
            async with runtime.stream("Go.", options()) as events:
                batches = events.batches()
                for count in [*counts, math.inf]:
                    while count > 0:
                        count -= 1  # noqa: PLW2901 - counts down
                        event_or_end = await anext(events, None)
                        if event_or_end is None:
                            break
                        mixed.append(event_or_end)
                    batch = await anext(batches, None)
                    assert batch is None or len(batch) > 0
                    mixed += batch or ()
        return plain, mixed

    plain, mixed = trio.run(read, clock=MockClock(autojump_threshold=0))
    assert shown(mixed) == shown(plain)
    assert isinstance(plain[-1], ResultEvent)


async def test_deltas_of_one_read_are_one_batch() -> None:
    class Model:
        """A model that feeds its deltas at once."""

        name = "model"

        async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
            await trio.lowlevel.checkpoint()
            sink.feed([TextDelta("a"), TextDelta("b"), TextDelta("c")])
            return ModelCompleted((TextBlock("abc"),))

    agent = AgentOptions(model="m", provider=Model())
    async with open_runtime() as runtime, runtime.stream("Go.", agent) as events:
        sizes = [
            len(batch) async for batch in events.batches() if isinstance(batch[0], AssistantDelta)
        ]
    assert sizes == [3]


async def test_run_error_is_raised_after_last_batch(autojump_clock: MockClock) -> None:
    seen: list[Event] = []
    agent = AgentOptions(
        model="m",
        provider=ScriptedModel([[say("Hel"), fail(ProviderConnectError("x", endpoint="e"))]]),
        max_retries=0,
    )

    async def read() -> None:
        async with open_runtime() as runtime, runtime.stream("Go.", agent) as events:
            async for batch in events.batches():
                seen.extend(batch)

    with pytest.raises(ProviderConnectError):
        await read()
    assert isinstance(seen[-1], ErrorEvent)


async def test_cancelled_batch_loses_nothing(autojump_clock: MockClock) -> None:
    agent = AgentOptions(model="m", provider=ScriptedModel([[say("a"), hang()]]))
    async with open_runtime() as runtime, runtime.stream("Go.", agent) as events:
        batches, texts = events.batches(), list[str]()
        while not texts:
            texts += [one.text for one in await anext(batches) if isinstance(one, AssistantDelta)]
        with trio.move_on_after(1) as limit:
            await anext(batches)
        assert limit.cancelled_caught
        await events.interrupt()
        assert isinstance((await anext(batches))[-1], ResultEvent)


async def test_batches_of_stream_that_was_not_entered() -> None:
    async with open_runtime() as runtime:
        events = runtime.stream("Go.", options())
        with pytest.raises(RuntimeError, match="not entered"):
            await anext(events.batches())
