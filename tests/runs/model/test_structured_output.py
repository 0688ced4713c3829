"""Runs with a required output type: the output, the feedback to the model, and the stop reason."""

from typing import TYPE_CHECKING, cast

import attrs
import pytest

from agent_actors import (
    AgentOptions,
    OutputError,
    OutputSpec,
    RunResult,
    StopReason,
    Usage,
    open_runtime,
    tool,
)
from agent_actors.codec.events import dumps_event, loads_event
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.events import ResultEvent, UserMessage
from agent_actors.domain.json import JsonValue
from agent_actors.domain.limits import UsageLimits
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.errors import ConfigError, SchemaError
from agent_actors.testing import (
    ScriptedModel,
    Turn,
    call,
    cancel_at_every_step,
    finish,
    say,
)
from tests.runs.helpers import check_history
from tests.sweeps import STRIDE

if TYPE_CHECKING:
    from collections.abc import Callable

PARIS = '{"name": "Paris"}'


@attrs.frozen
class City:
    name: str
    people: int = 0


@tool
async def lookup(key: str) -> str:
    """Look it up."""
    return f"{key}!"


def agent(model: ScriptedModel, *, retries: int = 2, iterations: int = 25) -> AgentOptions[City]:
    return AgentOptions(
        model="m",
        provider=model,
        tools=[lookup],
        output_type=City,
        output_retries=retries,
        max_iterations=iterations,
    )


async def run(*turns: Turn, retries: int = 2, iterations: int = 25) -> RunResult[City]:
    options = agent(ScriptedModel(turns), retries=retries, iterations=iterations)
    async with open_runtime() as runtime:
        result = await runtime.run("Where?", options)
    check_history(result.messages)
    return result


async def test_output_has_the_requested_type() -> None:
    result = await run(PARIS)
    assert result.output == City("Paris")
    assert (result.text, result.stop_reason, result.iterations) == (PARIS, "completed", 1)


async def test_default_output_is_text() -> None:
    model = ScriptedModel(["Paris", "Rome"])
    async with open_runtime() as runtime:
        result = await runtime.run("Where?", AgentOptions(model="m", provider=model))
        text = await runtime.run("And?", AgentOptions(model="m", provider=model, output_type=str))
    assert (result.output, text.output) == ("Paris", "Rome")
    assert [request.output for request in model.requests] == [None, None]


async def test_a_json_schema_gives_plain_json() -> None:
    spec = OutputSpec.json_schema({"type": "object", "required": ["a"]}, name="thing")
    model = ScriptedModel(['{"a": [1]}'])
    async with open_runtime() as runtime:
        result = await runtime.run("?", AgentOptions(model="m", provider=model, output_type=spec))
    assert result.output == {"a": [1]}
    [request] = model.requests
    assert request.output is not None
    assert request.output.name == "thing"


async def test_invalid_output_returns_feedback() -> None:
    result = await run("Paris!", '{"name": 3}', PARIS)
    assert result.output == City("Paris")
    assert result.iterations == 3
    said = [(message.role, message.content) for message in result.messages]
    assert [role for role, _ in said] == ["user", "assistant"] * 3
    assert "the response is not JSON" in said[2][1]
    assert '"required": ["name"]' in said[2][1]
    assert said[4][1] == (
        "Invalid response: field name: expected string, got integer 3. "
        "Give the complete response again."
    )


async def test_always_invalid_output_ends_with_reason() -> None:
    result = await run("no", "no", '{"name": 3}')
    assert result.stop_reason == StopReason.OUTPUT_INVALID
    assert (result.iterations, result.text) == (3, '{"name": 3}')
    assert result.usage != Usage()
    with pytest.raises(OutputError, match="ended with 'output_invalid'") as caught:
        _ = result.output
    error = caught.value
    assert error.fault == "field name: expected string, got integer 3"
    assert (error.stop_reason, error.text) == ("output_invalid", '{"name": 3}')
    assert error.messages == result.messages


async def test_zero_retries_takes_first_response() -> None:
    result = await run("no", retries=0)
    assert (result.stop_reason, result.iterations) == ("output_invalid", 1)


@pytest.mark.parametrize(
    ("turn", "stop_reason", "fault"),
    [
        (
            [say("I will not."), finish("refusal")],
            "refusal",
            "before the model returned the output",
        ),
        ([say('{"name": "Pa'), finish("length")], "length", "the response is not JSON"),
        ([say(PARIS), finish("refusal")], "refusal", "before the model returned the output"),
    ],
)
async def test_refusal_or_truncation_is_not_retried(
    turn: Turn, stop_reason: str, fault: str
) -> None:
    result = await run(turn)
    assert (result.stop_reason, result.iterations) == (stop_reason, 1)
    with pytest.raises(OutputError, match=fault):
        _ = result.output


async def test_complete_truncated_response_is_accepted() -> None:
    result = await run([say(PARIS), finish("length")])
    assert (result.output, result.stop_reason) == (City("Paris"), "completed")


async def test_tools_precede_final_output() -> None:
    result = await run([say(PARIS), call("lookup", {"key": "a"})], '{"name": "Rome"}')
    assert result.output == City("Rome")
    assert [one.content for one in result.tool_calls] == ["a!"]


async def test_asking_again_counts_as_an_iteration() -> None:
    result = await run([call("lookup", {"key": "a"})], "no", iterations=2)
    assert result.stop_reason == "max_iterations"
    with pytest.raises(OutputError, match="the response is not JSON"):
        _ = result.output


async def test_early_end_has_no_output() -> None:
    result = await run([call("lookup", {"key": "a"})], iterations=1)
    assert result.stop_reason == "max_iterations"
    with pytest.raises(OutputError, match="the run ended before the model returned the output"):
        _ = result.output


async def test_result_describes_only_last_response() -> None:
    result = await run("no", [call("lookup", {"key": "a"})], iterations=2)
    assert result.stop_reason == "max_iterations"
    with pytest.raises(OutputError, match="the run ended before the model returned the output"):
        _ = result.output


async def test_budget_may_prevent_output_retry() -> None:
    model = ScriptedModel(["no"])
    options = attrs.evolve(agent(model), limits=UsageLimits(requests=1))
    async with open_runtime() as runtime:
        result = await runtime.run("Where?", options)
    assert result.stop_reason == "budget:requests"
    check_history(result.messages)
    with pytest.raises(OutputError, match="the response is not JSON"):
        _ = result.output


async def test_session_continues_after_invalid_output() -> None:
    model = ScriptedModel(["no", PARIS])
    options = agent(model, retries=0)
    async with open_runtime() as runtime:
        await runtime.run("Where?", options, session_id="s")
        result = await runtime.run("Where then?", options, session_id="s")
    assert result.output == City("Paris")
    check_history(result.messages)


async def test_stream_ends_with_parsed_output() -> None:
    model = ScriptedModel(["no", [say(PARIS, chunks=4)]])
    async with open_runtime() as runtime, runtime.stream("Where?", agent(model)) as events:
        seen = [event async for event in events]
        result = events.result
    assert [event.type for event in seen].count("assistant.delta") == 5
    assert len([event for event in seen if isinstance(event, UserMessage)]) == 2
    last = seen[-1]
    assert isinstance(last, ResultEvent)
    assert (last.output, last.stop_reason) == ({"name": "Paris"}, "completed")
    assert loads_event(dumps_event(last)) == last
    assert result.output == City("Paris")


async def test_event_output_is_a_copy() -> None:
    spec = OutputSpec.json_schema({"type": "object"})
    model = ScriptedModel(['{"a": [1]}'])
    options = AgentOptions(model="m", provider=model, output_type=spec)
    async with open_runtime() as runtime, runtime.stream("?", options) as events:
        seen = [event async for event in events]
        cast(dict[str, list[JsonValue]], events.result.output)["a"].append(2)
    last = seen[-1]
    assert isinstance(last, ResultEvent)
    assert last.output == {"a": [1]}


async def test_provider_marked_output_is_trusted() -> None:
    class Apart:
        async def complete(self, request: ModelRequest) -> ModelCompleted:
            return ModelCompleted((TextBlock("Here it is."),), output=PARIS)

    options = AgentOptions(model="m", provider=Apart(), output_type=City)
    async with open_runtime() as runtime:
        result = await runtime.run("Where?", options)
    assert (result.output, result.text) == (City("Paris"), "Here it is.")


async def test_one_agent_runs_many_sessions() -> None:
    def script(request: ModelRequest) -> Turn:
        return PARIS if len(request.messages) > 1 else "no"

    options = agent(ScriptedModel(script))
    async with open_runtime() as runtime:
        results = [await runtime.run("Where?", options) for _ in range(3)]
    assert [result.output for result in results] == [City("Paris")] * 3
    assert [result.iterations for result in results] == [2, 2, 2]


def test_cancel_at_any_step_is_valid() -> None:
    async def body() -> None:
        model = ScriptedModel(["no", [call("lookup", {"key": "a"})], PARIS])
        async with open_runtime() as runtime:
            try:
                await runtime.run("Where?", agent(model), session_id="s")
            finally:
                history = runtime.history("s")
                check_history(Messages() if history is None else history)

    assert cancel_at_every_step(body, stride=STRIDE)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"output_retries": -1}, "output_retries must not be negative; got -1"),
        ({"output_type": bytes}, "output_type: parameter 'output'"),
        ({"output_type": {"type": "object", "properties": 3}}, "output_type: invalid schema"),
    ],
)
def test_impossible_output_type_is_refused(options: dict[str, object], fault: str) -> None:
    make = cast("Callable[..., object]", AgentOptions)
    with pytest.raises(ConfigError, match=fault):
        make(model="m", base_url="http://localhost:1/v1", **options)


def test_raw_schema_is_accepted() -> None:
    make = cast("Callable[..., AgentOptions[JsonValue]]", AgentOptions)
    made = make(model="m", base_url="http://localhost:1/v1", output_type={"type": "array"})
    assert made.output_schema is not None
    with pytest.raises(SchemaError):
        OutputSpec.json_schema({"type": 3})
