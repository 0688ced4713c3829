"""Quirks that a stream cannot reveal: they need a mode that a `ChatDialect` declares."""

import json
from collections.abc import Sequence
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.messages import Message, Messages, Role
from agent_actors.domain.model import ModelCompleted, ModelRequest, ModelSettings, ToolSpec
from agent_actors.errors import ProviderStatusError
from agent_actors.profiles.dialect import PLAIN, ChatDialect
from agent_actors.providers.error_body import explain_refused_tools
from agent_actors.providers.openai_chat import OpenAIChat
from agent_actors.providers.openai_chat.encode import encode_request
from agent_actors.providers.openai_chat.response import ChatResponseParser
from agent_actors.providers.openai_chat.tool_call_ids import short_call_id
from tests.providers.openai_chat.answers import ENDPOINT, REQUEST, chunk, sse, text
from tests.providers.openai_chat.fake_exchange import FakeExchange

Said: TypeAlias = tuple[Role, Sequence[ContentBlock]]

CALL = ToolUseBlock("call_1_0", "find", {"q": "A"})
RESULT = ToolResultBlock("call_1_0", "found", name="find")
FIND = ToolSpec("find", "Find it.")


def sent(*messages: Said, dialect: ChatDialect = PLAIN) -> JsonObject:
    chain = Messages(Message(role, tuple(blocks)) for role, blocks in messages)
    request = ModelRequest(chain, ModelSettings("m"), tools=(FIND,))
    body: JsonObject = json.loads(encode_request(request, dialect))
    return body


def answered(body: bytes, dialect: ChatDialect) -> ModelCompleted:
    """Return the response in this body; check that it is the same when it arrives byte by byte."""
    found: list[ModelCompleted] = []
    for size in (1, len(body)):
        reader = ChatResponseParser(REQUEST, endpoint=ENDPOINT, dialect=dialect)
        for at in range(0, len(body), size):
            reader.feed(body[at : at + size])
        reader.close()
        found.append(reader.finish())
    assert found[0] == found[1]
    return found[0]


# --- 23: ids of nine characters -------------------------------------------------------------------


def test_quirk_23_ids_become_nine_characters() -> None:
    error = ToolUseError("bad", "{", "call_1_1", "find")
    messages: Sequence[Said] = (
        ("assistant", [CALL, error]),
        ("tool", [RESULT]),
        ("tool", [ToolResultBlock("call_1_1", "bad", is_error=True)]),
    )
    body = json.loads(json.dumps(sent(*messages, dialect=ChatDialect(short_call_ids=True))))
    asked, first, second = body["messages"]
    ids = [call["id"] for call in asked["tool_calls"]]
    assert ids == [first["tool_call_id"], second["tool_call_id"]]
    assert len(set(ids)) == 2
    assert all(len(one) == 9 and one.isalnum() and one.isascii() for one in ids)
    plain = json.loads(json.dumps(sent(*messages)))
    assert plain["messages"][1]["tool_call_id"] == "call_1_0"


def test_quirk_23_call_with_image_keeps_id() -> None:
    image: JsonObject = {"type": "image", "source": "https://x/y.png"}
    result = ToolResultBlock("call_1_0", [image])
    messages: Sequence[Said] = (("assistant", [CALL]), ("tool", [result]))
    body = json.loads(json.dumps(sent(*messages, dialect=ChatDialect(short_call_ids=True))))
    asked, answered_call, _ = body["messages"]
    assert (
        answered_call["tool_call_id"] == asked["tool_calls"][0]["id"] == short_call_id("call_1_0")
    )


def test_ids_are_the_same_in_every_process() -> None:
    assert short_call_id("call_1_0") == "q2mdlcmgB"
    assert short_call_id("abcDEF123") == "abcDEF123"


@given(st.text(st.characters(codec=None)))
def test_quirk_23_shortened_ids_are_stable(call_id: str) -> None:
    short = short_call_id(call_id)
    assert len(short) == 9
    assert short.isalnum()
    assert short.isascii()
    assert short_call_id(short) == short


# --- 25: calls as text ----------------------------------------------------------------------------

TAGS = '<tool_call>\n{"name": "find", "arguments": {"q": "A"}}\n</tool_call>'
HARMONY = 'commentary to=functions.find json{"q": "A"}'


@pytest.mark.parametrize(("mode", "written"), [("tags", TAGS), ("harmony", HARMONY)])
def test_quirk_25_inline_calls_need_declaration(mode: str, written: str) -> None:
    pieces = [written[at : at + 3] for at in range(0, len(written), 3)]
    body = sse(text("Hi "), *map(text, pieces), chunk({"tool_calls": None}, "stop"))
    dialect = ChatDialect(text_tool_calls="tags" if mode == "tags" else "harmony")
    said, call = answered(body, dialect).blocks
    assert said == TextBlock("Hi ")
    assert isinstance(call, ToolUseBlock)
    assert (call.id, call.name, call.input) == ("call_1_0", "find", {"q": "A"})
    assert answered(body, dialect).finish_reason == "tool_calls"
    assert answered(body, PLAIN).blocks == (TextBlock(f"Hi {written}"),)


def test_quirk_25_truncated_call_never_runs() -> None:
    for mode, written in (("tags", TAGS[:-20]), ("harmony", HARMONY[:-1])):
        dialect = ChatDialect(text_tool_calls="tags" if mode == "tags" else "harmony")
        (block,) = answered(sse(text(written), chunk({}, "length")), dialect).blocks
        assert isinstance(block, ToolUseError)
        assert "token limit" in block.error


def test_quirk_25_growing_inline_call_counts_once() -> None:
    grown = [text(f"Look: {TAGS}"[:end]) for end in range(5, len(TAGS) + 7)]
    dialect = ChatDialect(text_tool_calls="tags", cumulative=True)
    found = answered(sse(*grown, chunk({}, "stop")), dialect).blocks
    assert [type(block) for block in found] == [TextBlock, ToolUseBlock]


# --- 40, 41: echoed and repeated text -------------------------------------------------------------


def test_quirk_40_thinking_uses_declared_field() -> None:
    messages: Sequence[Said] = (("assistant", [ThinkingBlock("Hm"), TextBlock("Hi")]),)
    for field in ("reasoning_content", "reasoning"):
        body = json.loads(json.dumps(sent(*messages, dialect=ChatDialect(echo_reasoning=field))))
        assert body["messages"] == [{"role": "assistant", "content": "Hi", field: "Hm"}]


def test_quirk_41_declared_cumulative_text_is_read() -> None:
    body = sse(text("H"), text("Hi"), text("Hi!"), text("Hi!"), chunk({}, "stop"))
    assert answered(body, ChatDialect(cumulative=True)).text == "Hi!"
    assert answered(body, PLAIN).text == "HHiHi!Hi!"


# --- an endpoint without tools --------------------------------------------------------------------


@pytest.mark.feature("OAS-071")
def test_endpoint_without_tools_gets_text_only() -> None:
    error = ToolUseError("not valid JSON", "{", "b", "find")
    body = sent(
        ("system", [TextBlock("Be brief.")]),
        ("user", [TextBlock("Go.")]),
        ("assistant", [TextBlock("Let me look."), CALL, error]),
        ("tool", [ToolResultBlock("call_1_0", "found")]),
        ("tool", [ToolResultBlock("b", "bad", is_error=True)]),
        ("user", [TextBlock("And?")]),
        dialect=ChatDialect(refuses={"tools"}),
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go."},
        {
            "role": "assistant",
            "content": 'Let me look.\n\n[Called the tool find with {"q": "A"}]\n\n'
            "[Tried to call find: not valid JSON]",
        },
        {
            "role": "user",
            "content": "[The tool find returned: found]\n\n[A tool failed: bad]\n\nAnd?",
        },
    ]
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


def test_conversation_without_calls_is_unchanged() -> None:
    two = [TextBlock("a"), TextBlock("b")]
    body = sent(("user", two), ("user", two), dialect=ChatDialect(refuses={"tools"}))
    assert body["messages"] == [{"role": "user", "content": "ab"}] * 2
    assert sent(dialect=ChatDialect(refuses={"tools"}))["messages"] == []


REFUSALS = [
    "registry.example/library/gemma:latest does not support tools",
    "No endpoints found that support tool use.",
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "tools param requires --jinja flag",
    "`tool calling` is not supported with this model",
    "Unsupported parameter: 'tools'",
    "This model does not support Function Calling",
    "Unrecognized request argument supplied: tools",
]


@pytest.mark.feature("OAS-071")
@pytest.mark.parametrize("message", REFUSALS)
async def test_refused_tools_error_suggests_a_fix(
    message: str,
) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    chat = OpenAIChat(base_url=ENDPOINT, exchange=FakeExchange([body], status=400))
    with pytest.raises(ProviderStatusError) as caught:
        await chat.complete(ModelRequest(Messages().user("x"), ModelSettings("m"), tools=(FIND,)))
    assert (caught.value.status, caught.value.body_message) == (400, message)
    assert f"HTTP 400: {message} (if this model does not support tools" in str(caught.value)
    assert 'refuses={"tools"}' in caught.value.hint
    with pytest.raises(ProviderStatusError) as without:
        await chat.complete(REQUEST)
    assert without.value.hint == ""


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "max_tokens is not supported"),
        (400, "the tool find has no description"),
        (429, "does not support tools"),
        (500, ""),
    ],
)
def test_other_refusals_get_no_hint(status: int, message: str) -> None:
    error = ProviderStatusError(endpoint="e", status=status, body_message=message, headers={})
    explain_refused_tools(error)
    assert error.hint == ""
