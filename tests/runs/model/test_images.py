"""Images and files from callers and tools, as endpoints of both protocols receive them."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_actors import (
    AgentOptions,
    FileBlock,
    ImageBlock,
    Message,
    Prompt,
    TextBlock,
    open_runtime,
    tool,
)
from agent_actors.codec.events import encode_event, loads_event
from agent_actors.codec.openai_messages import messages_from_openai, messages_to_openai
from agent_actors.domain.events import UserMessage
from agent_actors.errors import ProviderStatusError
from agent_actors.providers.anthropic.client import AnthropicMessages
from agent_actors.sessions.state import fold
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedEndpoint, call, status
from tests.domain.test_media import PDF, PNG

IMAGE = ImageBlock.from_bytes(PNG)
REPORT = FileBlock.from_bytes(PDF, name="report.pdf")
NOTES = FileBlock.from_text("# Notes", name="notes.md")
PROMPT: Prompt = ["What is this?", IMAGE, REPORT, NOTES]
BLOCKS = (TextBlock("What is this?"), IMAGE, REPORT, NOTES)


@tool
async def camera() -> list[object]:
    """Return a picture."""
    return [TextBlock("A picture: "), IMAGE]


def chat(endpoint: ScriptedEndpoint) -> AgentOptions:
    return AgentOptions(model="m", base_url=endpoint.base_url, tools=[camera], max_retries=0)


def messages(endpoint: ScriptedEndpoint) -> AgentOptions:
    base = endpoint.base_url.removesuffix("/v1")
    provider = AnthropicMessages(api_key="k", base_url=base)
    return AgentOptions(model="m", provider=provider, tools=[camera], max_retries=0)


def asked(endpoint: ScriptedEndpoint, at: int = -1) -> Any:
    return endpoint.requests[at].body["messages"]


IMAGE_URL = {"type": "image_url", "image_url": {"url": IMAGE.source}}
IMAGE_SOURCE = {
    "type": "image",
    "source": {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(PNG).decode(),
    },
}


async def test_chat_endpoint_gets_media_as_parts() -> None:
    async with ScriptedEndpoint(["A cat."]) as endpoint, open_runtime() as runtime:
        result = await runtime.run(PROMPT, chat(endpoint))
        assert asked(endpoint) == [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    IMAGE_URL,
                    {
                        "type": "file",
                        "file": {"file_data": REPORT.source, "filename": "report.pdf"},
                    },
                    {"type": "text", "text": "\n\n[file notes.md]\n# Notes\n[end of file]\n\n"},
                ],
            }
        ]
    assert result.messages[0] == Message("user", BLOCKS)


async def test_anthropic_gets_images_and_documents() -> None:
    async with ScriptedEndpoint(["A cat."]) as endpoint, open_runtime() as runtime:
        result = await runtime.run(PROMPT, messages(endpoint))
        pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="}
        text = {"type": "text", "media_type": "text/plain", "data": "# Notes"}
        assert asked(endpoint) == [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    IMAGE_SOURCE,
                    {"type": "document", "source": pdf, "title": "report.pdf"},
                    {"type": "document", "source": text, "title": "notes.md"},
                ],
            }
        ]
    assert result.messages[0] == Message("user", BLOCKS)


LOOKS: Sequence[Any] = [[call("camera", {}, id="a"), call("camera", {}, id="b")], "Two cats."]


async def test_chat_tool_images_follow_results() -> None:
    async with ScriptedEndpoint(list(LOOKS)) as endpoint, open_runtime() as runtime:
        await runtime.run("Look.", chat(endpoint))
        sent = asked(endpoint)
    heading = {"type": "text", "text": "The tool camera returned:"}
    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [one["content"] for one in sent[2:4]] == ["A picture: [image]"] * 2
    assert sent[4]["content"] == [heading, IMAGE_URL] * 2


async def test_anthropic_tool_images_are_inside_results() -> None:
    async with ScriptedEndpoint(list(LOOKS)) as endpoint, open_runtime() as runtime:
        await runtime.run("Look.", messages(endpoint))
        sent = asked(endpoint)
    said = {"type": "text", "text": "A picture: "}
    assert [part["content"] for part in sent[2]["content"]] == [[said, IMAGE_SOURCE]] * 2


@pytest.mark.parametrize("agent", [chat, messages])
async def test_an_image_stays_in_the_session(agent: Any) -> None:
    async with ScriptedEndpoint(["A cat.", "Grey."]) as endpoint, open_runtime() as runtime:
        options = agent(endpoint)
        await runtime.run(PROMPT, options, session_id="s")
        async with runtime.stream(["And this?", IMAGE], options, session_id="s") as stream:
            events = [event async for event in stream]
        first, second = asked(endpoint, 0), asked(endpoint, 1)
        assert second[0] == first[0]
        assert len(second) == 3
        assert json.dumps(second[2]).count(IMAGE.source.partition(",")[2]) == 1
    heard = [event for event in events if isinstance(event, UserMessage)]
    assert [(event.text, event.blocks) for event in heard] == [
        ("And this?", (TextBlock("And this?"), IMAGE))
    ]


async def test_json_log_keeps_images() -> None:
    store = MemoryStore()
    async with ScriptedEndpoint(list(LOOKS)) as endpoint, open_runtime(store=store) as runtime:
        result = await runtime.run(PROMPT, chat(endpoint), session_id="s")
        records = await store.load("s")
    read = [loads_event(encode_event(record)) for record in records]
    assert read == list(records)
    assert fold(read).history() == result.messages
    # The dicts keep all of the parts, but not all of the thinking blocks and tool calls.
    again = messages_from_openai(messages_to_openai(result.messages))
    assert messages_to_openai(again) == messages_to_openai(result.messages)


@pytest.mark.parametrize("agent", [chat, messages])
async def test_image_refusal_is_reported(agent: Any) -> None:
    why = "this model does not support image input"
    refused = status(400, {"error": {"message": why, "type": "invalid_request_error"}})
    async with ScriptedEndpoint([refused]) as endpoint, open_runtime() as runtime:
        with pytest.raises(ProviderStatusError, match=why) as caught:
            await runtime.run(PROMPT, agent(endpoint))
    assert caught.value.status == 400
