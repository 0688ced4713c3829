"""Providers learn which deltas no reader sees one by one."""

import pytest
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.abc import ModelSink
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.events import Event
from agent_actors.domain.model import ModelCompleted, ModelRequest, TextDelta
from agent_actors.runtime.runtime import Runtime


class Model:
    """A model that records what its sinks see."""

    name = "recording"

    def __init__(self) -> None:
        self.seen: list[tuple[object, object]] = []

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        self.seen.append((getattr(sink, "sees_text", None), getattr(sink, "sees_arguments", None)))
        await trio.lowlevel.checkpoint()
        sink.feed([TextDelta("Done.")])
        return ModelCompleted((TextBlock("Done."),))


async def ignore(event: Event) -> None:
    """Ignore an event."""


async def read(runtime: Runtime, options: AgentOptions) -> None:
    async with runtime.stream("Go.", options) as events:
        async for _ in events:
            pass


@pytest.mark.parametrize("tool_deltas", [False, True])
async def test_unread_run_sees_no_deltas(*, tool_deltas: bool) -> None:
    model = Model()
    options = AgentOptions(model="m", provider=model, tool_deltas=tool_deltas)
    async with open_runtime() as runtime:
        await runtime.run("Go.", options)
        await read(runtime, options)
        runtime.events.subscribe(ignore)
        await runtime.run("Go.", options)
    assert model.seen == [(False, False), (True, tool_deltas), (True, tool_deltas)]
