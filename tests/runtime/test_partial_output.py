"""The output of a run in its type, while it is streamed."""

import dataclasses
from typing import Any

import attrs
import pytest
from pydantic import BaseModel

from agent_actors import AgentOptions, OutputSpec, PartialOutput, open_runtime, query
from agent_actors.codec.events import dumps_event, loads_event
from agent_actors.domain.events import OutputDelta, RunEvent
from agent_actors.errors import ProviderConnectError
from agent_actors.testing import ScriptedModel, Turn, fail, say


@attrs.frozen
class City:
    name: str
    people: int = 0


class Report(BaseModel):
    title: str
    cities: list[str]


@dataclasses.dataclass
class Trip:
    cities: list[City]


def agent(output_type: Any, *turns: Turn) -> AgentOptions[Any]:
    return AgentOptions(model="m", provider=ScriptedModel(turns), output_type=output_type)


async def outputs(options: AgentOptions[Any]) -> list[tuple[Any, Any]]:
    """Return the JSON and the value of each partial output."""
    found: list[tuple[Any, Any]] = []
    async with open_runtime() as runtime, runtime.stream("go", options) as events:
        async for event in events:
            if isinstance(event, OutputDelta):
                assert events.partial is not None
                assert events.partial.data == event.data
                found.append((event.data, events.partial.value))
    return found


async def test_output_grows_in_its_type() -> None:
    parts = ('{"na', 'me": "Pa', "ris", '", "people": 2', "1", "}")
    assert await outputs(agent(City, [say(*parts)])) == [
        ({}, None),
        ({"name": "Pa"}, City("Pa")),
        ({"name": "Paris"}, City("Paris")),
        ({"name": "Paris", "people": 21}, City("Paris", 21)),
    ]


async def test_model_of_pydantic_grows() -> None:
    parts = ('{"title": "A"', ', "cities": ["Par', 'is"]}')
    assert [value for _, value in await outputs(agent(Report, [say(*parts)]))] == [
        None,
        Report(title="A", cities=["Par"]),
        Report(title="A", cities=["Paris"]),
    ]


async def test_list_omits_incomplete_item() -> None:
    parts = ('{"cities": [{"name": "Paris"}', ', {"people": 3', ', "name": "Rome"}]}')
    assert [value for _, value in await outputs(agent(Trip, [say(*parts)]))] == [
        Trip([City("Paris")]),
        Trip([City("Paris")]),
        Trip([City("Paris"), City("Rome", 3)]),
    ]


async def test_wrapped_output_grows_without_wrapper() -> None:
    options = agent(OutputSpec[list[int]](list[int]), [say('{"output": [1', ", 2", "]}")])
    assert await outputs(options) == [([], []), ([1], [1]), ([1, 2], [1, 2])]


async def test_retried_response_starts_again() -> None:
    lost = ProviderConnectError("the connection broke", endpoint="m")
    options = agent(City, [say('{"name": "R'), fail(lost)], [say('{"name": "', 'Paris"}')])
    assert [data for data, _ in await outputs(options)] == [
        {"name": "R"},
        {"name": ""},
        {"name": "Paris"},
    ]


@pytest.mark.parametrize("text", ["It is Paris.", '{"name": nonsense, "a": "b"'])
async def test_other_text_has_no_output(text: str) -> None:
    options = agent(City, [say(text)], [say('{"name": "Paris"}')])
    assert [data for data, _ in await outputs(options)] == [{"name": "Paris"}]


async def test_agent_without_output_type_has_no_output() -> None:
    options = AgentOptions(model="m", provider=ScriptedModel([[say('{"name": "Paris"}')]]))
    assert await outputs(options) == []


async def test_query_yields_partial_outputs() -> None:
    found: list[object] = []
    async with query("go", agent(City, [say('{"name": "Pa', 'ris"}')])) as messages:
        async for message in messages:
            if isinstance(message, PartialOutput):
                assert message.content == ()
                found.append(message.partial.value)
    assert found == [City("Pa"), City("Paris")]


async def test_event_has_json_form() -> None:
    seen: list[RunEvent] = []
    options = agent(City, [say('{"name": "Paris"}')])
    async with open_runtime() as runtime, runtime.stream("go", options) as events:
        seen += [event async for event in events if isinstance(event, OutputDelta)]
    assert [loads_event(dumps_event(event)) for event in seen] == seen
