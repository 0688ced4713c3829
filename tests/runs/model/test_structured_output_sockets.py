"""Typed output over real sockets, in both protocols and with each way of requesting it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import attrs
import pytest

from agent_actors import AgentOptions, OutputError, Tool, open_runtime, tool
from agent_actors.domain.events import AssistantDelta, Event, ResultEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.model import AnthropicMessages, OpenAIChat
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.testing import EndpointRequest, Reply, ScriptedEndpoint, call, finish, reply, say
from tests.runs.helpers import check_history

if TYPE_CHECKING:
    from agent_actors.abc import ModelProvider

Way: TypeAlias = Literal["json_schema", "json_object", "tool", "anthropic"]

WAYS: Final[tuple[Way, ...]] = ("json_schema", "json_object", "tool", "anthropic")
PARIS: Final = '{"name":"Paris","people":2}'
NAME: Final = "final_answer"

each_way = pytest.mark.parametrize("way", WAYS)
each_tool_way = pytest.mark.parametrize("way", ["tool", "anthropic"])


@attrs.frozen
class City:
    """A city on the map."""

    name: str
    people: int = 0


@tool
async def lookup(key: str) -> str:
    """Look it up."""
    return f"{key}!"


def options(
    way: Way,
    endpoint: ScriptedEndpoint,
    *,
    tools: Sequence[Tool] = (),
    extra_body: JsonObject | None = None,
) -> AgentOptions[City]:
    dialect = ChatDialect() if way == "anthropic" else ChatDialect(structured_output=way)
    provider: ModelProvider = (
        AnthropicMessages(base_url=endpoint.base_url)
        if way == "anthropic"
        else OpenAIChat(base_url=endpoint.base_url, dialect=dialect)
    )
    return AgentOptions(
        model="any",
        provider=provider,
        system_prompt="Be brief.",
        output_type=City,
        extra_body=extra_body or {},
        tools=tools,
    )


def gives(way: Way, text: str, *, before: str = "") -> Reply:
    """Return the model's output in the way in which the request asked for it."""
    said = (say(before),) if before else ()
    if way in ("tool", "anthropic"):
        return reply(*said, call(NAME, text, chunks=3), split=[7])
    return reply(*said, say(text, chunks=3), split=[7])


def sent(request: EndpointRequest) -> JsonObject:
    """Return the fields of a request's body that ask for the output."""
    asks = ("response_format", "tool_choice")
    return {name: request.body[name] for name in asks if name in request.body}


def asked_by(way: Way, *, beside_tools: bool = False) -> JsonObject:
    """Return the fields that each way sends."""
    match way:
        case "json_schema":
            described: JsonObject = {"name": "City", "description": "A city on the map."}
            schema: JsonObject = {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "people": {"type": "integer", "description": "Default: 0"},
                },
                "required": ["name", "people"],
                "additionalProperties": False,
            }
            # The docstring of a class is also part of its schema.
            schema["description"] = "A city on the map."
            strict: JsonObject = {**described, "schema": schema, "strict": True}
            return {"response_format": {"type": "json_schema", "json_schema": strict}}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "tool" if beside_tools:
            return {"tool_choice": "required"}
        case "tool":
            return {"tool_choice": {"type": "function", "function": {"name": NAME}}}
        case _:
            return {
                "tool_choice": {"type": "any"} if beside_tools else {"type": "tool", "name": NAME}
            }


def streamed_text(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, AssistantDelta))


@each_way
async def test_output_streams_and_parses_over_sockets(way: Way) -> None:
    async with ScriptedEndpoint([gives(way, PARIS)]) as endpoint, open_runtime() as runtime:
        async with runtime.stream("Where?", options(way, endpoint)) as events:
            seen = [event async for event in events]
        result = events.result
    assert sent(endpoint.requests[0]) == asked_by(way)
    assert result.output == City("Paris", 2)
    assert streamed_text(seen) == result.text == PARIS
    assert sum(isinstance(event, AssistantDelta) for event in seen) > 1
    # The output tool is hidden from readers and from the history.
    kinds = {event.type for event in seen}
    assert not {kind for kind in kinds if kind.startswith("tool.")}
    assert result.tool_calls == ()
    check_history(result.messages)
    last = seen[-1]
    assert isinstance(last, ResultEvent)
    assert last.output == {"name": "Paris", "people": 2}


@each_way
async def test_invalid_output_is_retried_over_sockets(way: Way) -> None:
    script = [gives(way, '{"name":3}'), gives(way, '{"name":'), gives(way, PARIS)]
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        result = await runtime.run("Where?", options(way, endpoint))
    assert result.output == City("Paris", 2)
    first, second, third = endpoint.requests
    assert sent(first) == sent(second) == sent(third) == asked_by(way)
    assert "field name: expected string, got integer 3" in second.last_content
    assert "the response is not JSON" in third.last_content
    said = [message["content"] for message in second.messages if message["role"] == "assistant"]
    assert said == ['{"name":3}']


@each_way
async def test_tools_run_before_output(way: Way) -> None:
    script = [reply(call("lookup", {"key": "a"})), gives(way, PARIS)]
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        result = await runtime.run("Where?", options(way, endpoint, tools=[lookup]))
    assert result.output == City("Paris", 2)
    assert [one.content for one in result.tool_calls] == ["a!"]
    offered = ["lookup", NAME] if way in ("tool", "anthropic") else ["lookup"]
    for request in endpoint.requests:
        assert request.tool_names == offered
        assert sent(request) == asked_by(way, beside_tools=True)


@each_tool_way
async def test_text_before_output_call_stays_text(way: Way) -> None:
    script = [gives(way, PARIS, before="Here. ")]
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        result = await runtime.run("Where?", options(way, endpoint))
    assert result.output == City("Paris", 2)
    assert result.text == f"Here. {PARIS}"


@each_tool_way
async def test_output_beside_calls_is_not_final(way: Way) -> None:
    both = reply(call(NAME, '{"name":"Rome"}'), call("lookup", {"key": "a"}))
    script = [both, gives(way, PARIS)]
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        result = await runtime.run("Where?", options(way, endpoint, tools=[lookup]))
    assert result.output == City("Paris", 2)
    assert [one.name for one in result.tool_calls] == ["lookup"]
    check_history(result.messages)


@each_tool_way
async def test_plain_text_output_is_read(way: Way) -> None:
    script = [reply(say(f"```json\n{PARIS}\n```"))]
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        result = await runtime.run("Where?", options(way, endpoint))
    assert result.output == City("Paris", 2)


@each_way
async def test_later_run_needs_no_output_tool(way: Way) -> None:
    async with ScriptedEndpoint([gives(way, PARIS), reply(say("Fine."))]) as endpoint:
        typed = options(way, endpoint)
        plain = AgentOptions(model="any", provider=typed.provider)
        async with open_runtime() as runtime:
            await runtime.run("Where?", typed, session_id="s")
            result = await runtime.run("And?", plain, session_id="s")
    assert result.output == "Fine."
    later = endpoint.requests[1]
    assert later.tool_names == []
    assert sent(later) == {}
    assert [message["content"] for message in later.messages] == ["Where?", PARIS, "And?"]


@each_way
async def test_truncated_output_is_not_retried(way: Way) -> None:
    text = '{"name":"Pa'
    how = call(NAME, text) if way in ("tool", "anthropic") else say(text)
    script = [reply(how, finish("length"))]
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        result = await runtime.run("Where?", options(way, endpoint))
    assert (result.stop_reason, result.text) == ("length", text)
    with pytest.raises(OutputError, match="the response is not JSON"):
        _ = result.output


async def test_json_mode_adds_schema_to_prompt() -> None:
    async with ScriptedEndpoint([reply(say(PARIS))]) as endpoint, open_runtime() as runtime:
        await runtime.run("Where?", options("json_object", endpoint))
    prompt = str(endpoint.requests[0].messages[0]["content"])
    assert prompt.startswith("Be brief.\n\n")
    assert '"required": ["name"]' in prompt


@pytest.mark.parametrize(
    ("thinking", "choice"),
    [
        ({"type": "enabled", "budget_tokens": 1024}, None),
        ({"type": "adaptive"}, None),
        ({"type": "disabled"}, {"type": "tool", "name": NAME}),
    ],
)
async def test_thinking_model_is_not_forced(
    thinking: dict[str, JsonValue], choice: JsonValue
) -> None:
    async with ScriptedEndpoint([gives("anthropic", PARIS)]) as endpoint:
        agent = options("anthropic", endpoint, extra_body={"thinking": thinking})
        async with open_runtime() as runtime:
            result = await runtime.run("Where?", agent)
    assert result.output == City("Paris", 2)
    assert endpoint.requests[0].body.get("tool_choice") == choice
    [offered] = cast(list[JsonObject], endpoint.requests[0].body["tools"])
    assert offered["name"] == NAME
    schema = offered["input_schema"]
    assert isinstance(schema, dict)
    assert schema["required"] == ["name"]
