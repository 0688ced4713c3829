"""An output requested through a tool: a tool call on the wire, and text for the caller."""

from collections.abc import Sequence
from typing import Final

import attrs
import pytest

from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.json import JsonObject
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    FinishReason,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ModelSettings,
    OutputSchema,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
)
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.providers.openai_chat.structured import ask_for_output
from agent_actors.providers.output_tool import OutputTool
from tests.providers.sinks import CollectingSink

CITY: Final = OutputSchema(
    "City", {"type": "object", "properties": {"name": {"type": "string"}}}, "A city."
)
NAME: Final = "final_answer"
LOOKUP: Final = ToolSpec("lookup", "Look it up.", None)


def request(
    *tools: ToolSpec, choice: str | None = None, output: OutputSchema = CITY
) -> ModelRequest:
    settings = ModelSettings("m", tool_choice=choice)
    return ModelRequest(Messages().user("Where?"), settings, "Be brief.", tools, output=output)


def tool(*tools: ToolSpec) -> OutputTool:
    return OutputTool.of(request(*tools), CITY)


def shown(*batches: Sequence[ModelDelta]) -> list[ModelDelta]:
    sink = CollectingSink.roomy()
    output = tool().sink(sink)
    for batch in batches:
        output.feed(batch)
    return [delta for batch in sink.batches for delta in batch]


def test_request_offers_the_output_tool() -> None:
    sent = tool(LOOKUP).request
    assert [spec.name for spec in sent.tools] == ["lookup", NAME]
    assert sent.tools[-1].input_schema == CITY.schema
    assert sent.tools[-1].description.endswith("It is: A city.")


def test_unnamed_output_has_a_default_description() -> None:
    plain = attrs.evolve(CITY, description="")
    sent = OutputTool.of(request(), plain).request
    assert sent.tools[-1].description.endswith("answering in text.")


@pytest.mark.parametrize(
    ("tools", "wanted", "sent"),
    [
        ((), None, NAME),
        ((), "required", NAME),
        ((LOOKUP,), None, "required"),
        ((LOOKUP,), "auto", "required"),
        ((LOOKUP,), "required", "required"),
        ((LOOKUP,), "none", NAME),
        ((LOOKUP,), "lookup", "lookup"),
    ],
)
def test_model_must_call_some_tool(
    tools: tuple[ToolSpec, ...], wanted: str | None, sent: str
) -> None:
    assert OutputTool.of(request(*tools, choice=wanted), CITY).request.settings.tool_choice == sent


def test_unforceable_call_is_only_offered() -> None:
    sent = OutputTool.of(request(), CITY, force=False).request
    assert sent.settings.tool_choice is None
    assert [spec.name for spec in sent.tools] == [NAME]


def test_real_tool_keeps_its_name() -> None:
    both = (attrs.evolve(LOOKUP, name=NAME), attrs.evolve(LOOKUP, name=f"{NAME}_"))
    output = tool(*both)
    assert output.name == f"{NAME}__"
    call = ToolUseBlock("a", NAME, {})
    assert output.answer(ModelCompleted((call,))).blocks == (call,)


def test_output_deltas_become_text() -> None:
    others: list[ModelDelta] = [
        TextDelta("Hm."),
        ThinkingDelta("…"),
        ToolCallDelta(1, "b", "lookup", "{}"),
    ]
    pieces = [ToolCallDelta(0, "a", NAME, '{"na'), ToolCallDelta(0, "a", NAME, 'me":""}')]
    assert shown(others, pieces) == [*others, TextDelta('{"na'), TextDelta('me":""}')]


def test_a_piece_without_arguments_shows_nothing() -> None:
    assert shown([ToolCallDelta(0, "a", NAME, "")], [ToolCallDelta(0, "a", NAME, None)]) == []


def test_late_id_repeats_nothing() -> None:
    assert shown(
        [ToolCallDelta(0, "made_up", NAME, '{"na')],
        [ToolCallDelta(0, "a", NAME, '{"name"')],
        [ToolCallDelta(0, "a", NAME, ":1}")],
    ) == [TextDelta('{"na'), TextDelta('me"'), TextDelta(":1}")]


async def test_slow_reader_is_awaited() -> None:
    sink = CollectingSink()
    output = tool().sink(sink)
    assert output.full is True
    sink.room.set()
    await output.wait_room()
    assert (output.full, sink.waited) == (False, 1)


def test_the_call_becomes_text_and_the_output() -> None:
    thought = ThinkingBlock("Hm.", "seal")
    call = ToolUseBlock("a", NAME, {"name": "Paris"}, '{"name": "Paris"}')
    answer = tool().answer(ModelCompleted((thought, call), "tool_calls"))
    assert answer.blocks == (thought, TextBlock('{"name": "Paris"}'))
    assert answer.output == '{"name": "Paris"}'
    assert answer.finish_reason == "stop"


def test_output_alongside_calls_becomes_text() -> None:
    real = ToolUseBlock("b", "lookup", {})
    answer = tool(LOOKUP).answer(
        ModelCompleted((ToolUseBlock("a", NAME, {"name": "ü"}), real), "tool_calls")
    )
    assert answer.blocks == (TextBlock('{"name": "ü"}'), real)
    assert answer.finish_reason == "tool_calls"


def test_first_output_call_wins() -> None:
    calls = tuple(ToolUseBlock(name, NAME, {"name": name}) for name in "ab")
    answer = tool().answer(ModelCompleted(calls))
    assert answer.output == '{"name": "a"}'
    assert answer.text == '{"name": "a"}{"name": "b"}'


@pytest.mark.parametrize("finish", ["length", "tool_calls"])
def test_invalid_output_call_gives_no_output(finish: FinishReason) -> None:
    broken = ToolUseError("cut", '{"na', "a", NAME)
    answer = tool().answer(ModelCompleted((broken,), finish))
    assert answer.blocks == (TextBlock('{"na'),)
    assert answer.output == '{"na'
    assert answer.finish_reason == ("length" if finish == "length" else "stop")


def test_empty_arguments_leave_no_text() -> None:
    answer = tool().answer(ModelCompleted((ToolUseError("cut", None, "a", NAME),)))
    assert answer.blocks == ()
    assert answer.output == ""


def test_response_without_tool_is_unchanged() -> None:
    answer = ModelCompleted((TextBlock("Hm."), ToolUseBlock("b", "lookup", {})), "tool_calls")
    assert tool().answer(answer) is answer


def test_request_without_output_is_unchanged() -> None:
    plain, sink = attrs.evolve(request(), output=None), CollectingSink()
    answer = ModelCompleted((TextBlock("Hm."),))
    for way in ("json_schema", "json_object", "tool"):
        asked = ask_for_output(plain, sink, ChatDialect(structured_output=way))
        assert (asked.request, asked.sink) == (plain, sink)
        assert asked.answer(answer) is answer


@pytest.mark.parametrize("strict", [None, {"type": "object", "additionalProperties": False}])
def test_schema_is_strict_where_possible(
    strict: JsonObject | None,
) -> None:
    output = attrs.evolve(CITY, strict_schema=strict)
    asked = ask_for_output(request(output=output), CollectingSink(), ChatDialect())
    assert asked.request.settings.extra_body["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "City",
            "description": "A city.",
            "schema": strict or CITY.schema,
            "strict": strict is not None,
        },
    }
    assert asked.request.tools == ()


def test_json_only_endpoint_gets_schema_text() -> None:
    dialect = ChatDialect(structured_output="json_object")
    asked = ask_for_output(request(), CollectingSink(), dialect).request
    assert asked.settings.extra_body["response_format"] == {"type": "json_object"}
    assert asked.system_prompt.startswith("Be brief.\n\nThe final answer is one JSON object")
    assert '{"name": {"type": "string"}}' in asked.system_prompt
    bare = attrs.evolve(request(), system_prompt="")
    prompt = ask_for_output(bare, CollectingSink(), dialect).request.system_prompt
    assert prompt.startswith("The final answer")


def test_a_callers_own_format_wins() -> None:
    own = ModelSettings("m", extra_body={"response_format": {"type": "text"}, "x": 1})
    asked = ask_for_output(
        attrs.evolve(request(output=attrs.evolve(CITY, description="")), settings=own),
        CollectingSink(),
        ChatDialect(),
    )
    assert asked.request.settings.extra_body == own.extra_body
