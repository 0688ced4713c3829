"""Our side of Anthropic's protocol, compared with the official SDK, if it is installed.

The SDK reads what `ScriptedEndpoint` renders, streamed or not, and its request types are compared
with our requests.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from agent_actors.domain.blocks import (
    FileBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import ModelRequest, ModelSettings, ToolSpec
from agent_actors.providers.anthropic.encode import EncodeOptions, encode_count, encode_request
from agent_actors.testing import (
    ReplyStep,
    ScriptedEndpoint,
    call,
    in_band_error,
    interleave,
    reply,
    say,
    status,
    think,
    usage,
)
from tests.domain.test_media import PDF, PNG

anthropic: Any = pytest.importorskip(
    "anthropic", reason="the official SDK is no dependency; the extra `dev` installs it"
)
pydantic: Any = pytest.importorskip("pydantic")

ASKED: Mapping[str, Any] = {
    "model": "m",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Weather?"}],
}
TURN: list[ReplyStep] = [
    think("Let me", " think.", signature="seal"),
    say("I will look.", chunks=3),
    interleave(call("find", {"q": "é\U0001f600"}, id="a", chunks=4), call("now", id="b", chunks=2)),
    usage(20, 7, cache_read_tokens=5, reasoning_tokens=3),
]


@asynccontextmanager
async def client_of(*turns: Any) -> AsyncGenerator[Any]:
    async with ScriptedEndpoint(list(turns)) as endpoint:
        base = endpoint.base_url.removesuffix("/v1")
        async with anthropic.AsyncAnthropic(
            api_key="k", base_url=base, max_retries=0, _strict_response_validation=True
        ) as client:
            yield client


def brief(message: Any) -> list[tuple[object, ...]]:
    listed: list[tuple[object, ...]] = []
    for block in message.content:
        if block.type == "thinking":
            listed.append((block.thinking, block.signature))
        elif block.type == "text":
            listed.append((block.text,))
        else:
            listed.append((block.id, block.name, block.input))
    return listed


BLOCKS: Sequence[tuple[object, ...]] = [
    ("Let me think.", "seal"),
    ("I will look.",),
    ("a", "find", {"q": "é\U0001f600"}),
    ("b", "now", {}),
]


async def test_sdk_reads_a_streamed_response() -> None:
    answer = reply(*TURN, split=[1, 7, 3])
    async with client_of(answer) as client, client.messages.stream(**ASKED) as stream:
        texts = [text async for text in stream.text_stream]
        message = await stream.get_final_message()
    assert "".join(texts) == "I will look."
    assert brief(message) == BLOCKS
    assert message.stop_reason == "tool_use"
    used = message.usage
    assert (used.input_tokens, used.cache_read_input_tokens, used.output_tokens) == (15, 5, 7)


async def test_sdk_reads_a_complete_response() -> None:
    async with client_of(TURN) as client:
        message = await client.messages.create(**ASKED)
    assert brief(message) == BLOCKS
    assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 7)


# The SDK's decoder leaves its generators to the garbage collector when an event is an error.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_sdk_reads_both_kinds_of_errors() -> None:
    busy = in_band_error("Overloaded", code="overloaded_error")
    async with client_of(status(429), reply(say("I"), busy)) as client:
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(**ASKED)
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            async with client.messages.stream(**ASKED) as stream:
                await stream.get_final_message()


async def test_sdk_counts_tokens() -> None:
    async with client_of() as client:
        found = await client.messages.count_tokens(model="m", messages=ASKED["messages"])
    assert found.input_tokens > 0


FOUND: list[JsonValue] = [
    {"type": "text", "text": "found"},
    {"type": "image", "source": "data:image/png;base64,aGk="},
    {"type": "file", "source": "data:text/csv,a", "name": "a.csv"},
]


def test_requests_match_sdk_types() -> None:
    messages = Messages().append(
        Message("user", (TextBlock("Look"), ImageBlock("data:image/png;base64,aGk="))),
        Message(
            "assistant",
            (
                ThinkingBlock("Hm", "seal"),
                TextBlock("I look."),
                ToolUseBlock("a", "find", {"q": 1}),
                ToolUseBlock("b", "now", {}),
            ),
        ),
        Message("tool", (ToolResultBlock("a", FOUND),)),
        Message("tool", (ToolResultBlock("b", "broken", is_error=True),)),
        Message(
            "user",
            (
                ImageBlock("https://x/y.pdf", "application/pdf"),
                ImageBlock.from_bytes(PNG, detail="low"),
                FileBlock.from_bytes(PDF, name="a.pdf"),
                FileBlock.from_text("# Notes", "text/markdown", name="n.md"),
                FileBlock.from_bytes(PNG, name="a.png"),
                FileBlock("https://x/y", extra={"citations": {"enabled": True}}),
            ),
        ),
    )
    request = ModelRequest(
        messages,
        ModelSettings("m", tool_choice="find", parallel_tool_calls=False),
        "Be brief.",
        (ToolSpec("find", "Find it.", {"properties": {"q": {}}}), ToolSpec("now", "")),
    )
    options = EncodeOptions(cache=["system", "tools", "messages"], cache_ttl="1h")
    body = cast(dict[str, Any], json.loads(encode_request(request, options)))
    del body["stream"]
    kind = anthropic.types.message_create_params.MessageCreateParamsNonStreaming
    assert taken(pydantic.TypeAdapter(kind).validate_python(body)) == body
    count = json.loads(encode_count(request, options))
    kind = anthropic.types.message_count_tokens_params.MessageCountTokensParams
    assert taken(pydantic.TypeAdapter(kind).validate_python(count)) == count


def taken(value: Any) -> Any:
    """Return the part of a value that the type accepted.

    The type omits unknown keys, and checks lists only while they are read.
    """
    if isinstance(value, dict):
        return {key: taken(item) for key, item in cast(dict[str, Any], value).items()}
    listed = hasattr(value, "__iter__") and not isinstance(value, str)
    return [taken(item) for item in value] if listed else value
