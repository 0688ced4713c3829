"""Functions as the options `model` and `provider`."""

from functools import partial
from typing import TYPE_CHECKING, cast

import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentDefinition, AgentOptions, RunInfo, open_runtime
from agent_actors.errors import ConfigError
from agent_actors.testing import ScriptedModel
from tests.subagents.helpers import start_once, task

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.feature("ASDK-019", "ASDK-104")
async def test_factories_are_called_once(autojump_clock: MockClock) -> None:
    called: list[str] = []
    scripted = ScriptedModel(lambda _: "Hello.")

    async def model(info: RunInfo) -> str:
        called.append(f"model of {info.session_id}")
        await trio.sleep(1)
        return "m1"

    def provider() -> ScriptedModel:
        called.append("provider")
        return scripted

    options = AgentOptions(model=model, provider=provider)
    assert called == []
    async with open_runtime() as runtime:
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(partial(runtime.run, "go", options, session_id=f"s{number}"))
        await runtime.run("again", options)
    assert [one.partition(" of s")[0] for one in called] == ["model", "provider"]
    assert {request.settings.model for request in scripted.requests} == {"m1"}
    assert len(scripted.requests) == 4


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": lambda: 1 / 0}, "factory of `model` raised ZeroDivisionError"),
        ({"model": lambda: " "}, "must return the name of a model; it returned ' '"),
        ({"model": "m", "provider": lambda: None}, "factory of `provider` must return"),
        ({"model": "m", "provider": partial(object)}, "cannot be a provider"),
    ],
)
async def test_failing_factory_is_clear_error(fields: dict[str, object], message: str) -> None:
    made = cast("Callable[..., AgentOptions]", AgentOptions)
    options = made(**{"provider": ScriptedModel([]), **fields})
    async with open_runtime() as runtime:
        for _ in range(2):
            with pytest.raises(ConfigError, match=message):
                await runtime.run("go", options)


async def test_factory_of_agent_is_called_once() -> None:
    called: list[str] = []

    def model() -> str:
        called.append("model")
        return "small"

    agents = {"worker": AgentDefinition("Works.", "You are a worker.", model=model)}
    provider = ScriptedModel(start_once([task("a"), task("b")], "Done."))
    options = AgentOptions(model="m", provider=provider, agents=agents)
    async with open_runtime() as runtime:
        await runtime.run("go", options)
    assert called == ["model"]
    assert [r.settings.model for r in provider.requests] == ["m", "small", "small", "m"]


def test_fallback_must_not_be_deferred() -> None:
    deferred = AgentOptions(model=lambda: "m", provider=ScriptedModel([]))
    with pytest.raises(ConfigError, match="a fallback cannot have a function"):
        AgentOptions(model="m", provider=ScriptedModel([]), fallbacks=[deferred])
