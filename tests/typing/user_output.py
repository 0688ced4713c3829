"""A user's code with output types, for the type checkers only: no cast and no ignore."""

import dataclasses
from typing import Literal, NotRequired, TypedDict, assert_type

import attrs

from agent_actors import (
    AgentOptions,
    OutputError,
    OutputSpec,
    Partial,
    RunResult,
    RunStream,
    Runtime,
    open_runtime,
)
from agent_actors.domain.json import JsonValue


@attrs.frozen
class City:
    name: str


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Row(TypedDict):
    key: str
    note: NotRequired[str]


city = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=City)
point = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=Point)
row = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=Row)
cities = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=list[City])
either = AgentOptions(
    model="m",
    base_url="http://localhost:1234/v1",
    output_type=OutputSpec[City | Point](City | Point, name="place"),
)
choice = AgentOptions(
    model="m",
    base_url="http://localhost:1234/v1",
    output_type=OutputSpec[Literal["yes", "no"]](Literal["yes", "no"]),
    output_retries=0,
)
schema = AgentOptions(
    model="m",
    base_url="http://localhost:1234/v1",
    output_type=OutputSpec.json_schema({"type": "object"}, strict=False),
)
plain = AgentOptions(model="m", base_url="http://localhost:1234/v1")
text = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=str)

assert_type(city, AgentOptions[City])
assert_type(plain, AgentOptions)
assert_type(text, AgentOptions)


# Code that needs no output type does not need the type parameter.
def stricter(options: AgentOptions) -> AgentOptions:
    return attrs.evolve(options, temperature=0)


async def ask(runtime: Runtime, options: AgentOptions) -> RunResult:
    result = await runtime.run("Hello", options)
    assert_type(result.output, str)
    return result


# Code that accepts any output type uses `object`.
async def text_of(runtime: Runtime, options: AgentOptions[object]) -> str:
    return (await runtime.run("Hello", options)).text


async def use() -> None:
    async with open_runtime() as runtime:
        assert_type((await runtime.run("Where?", city)).output, City)
        assert_type((await runtime.run("Where?", point)).output, Point)
        assert_type((await runtime.run("Where?", row)).output, Row)
        assert_type((await runtime.run("Where?", cities)).output, list[City])
        assert_type((await runtime.run("Where?", either)).output, City | Point)
        assert_type((await runtime.run("Where?", choice)).output, Literal["yes", "no"])
        assert_type((await runtime.run("Where?", schema)).output, JsonValue)
        assert_type((await runtime.run("Where?", plain)).output, str)
        async with runtime.stream("Where?", city) as events:
            assert_type(events, RunStream[City])
            async for _ in events:
                assert_type(events.partial, Partial[City] | None)
                if events.partial is not None:
                    assert_type(events.partial.value, City | None)
        try:
            assert_type(events.result, RunResult[City])
            assert_type(events.result.output, City)
        except OutputError as error:
            assert_type(error.fault, str)
        await ask(runtime, stricter(plain))
        await text_of(runtime, city)
        await text_of(runtime, plain)
        mixed: list[RunResult[object]] = [
            await runtime.run("Where?", city),
            await runtime.run("Where?", plain),
        ]
        assert len(mixed) == 2
