"""Data that an endpoint wants echoed is sent back to it, after fallbacks and reloads of the log."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest

from agent_actors import AgentOptions, open_runtime
from agent_actors.codec.events import dumps_event
from agent_actors.domain.blocks import ThinkingBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelRequest, ModelSettings
from agent_actors.domain.provenance import Origin
from agent_actors.providers.anthropic import AnthropicMessages
from agent_actors.providers.openai_chat import OpenAIChat
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import (
    EndpointRequest,
    Reply,
    ReplyStep,
    ReplyTurn,
    ScriptedEndpoint,
    call,
    disconnect,
    in_band_error,
    reply,
    say,
    status,
    think,
)
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import echo

Speech: TypeAlias = Literal["chat", "messages"]

# Data that endpoints want echoed: extra fields, signatures, citations, and opaque blocks.
ECHOES: Final[dict[Speech, tuple[str, ...]]] = {
    "chat": ("field-of-call", "field-of-text", "seal"),
    "messages": ("field-of-call", "field-of-text", "seal", "citation", "opaque"),
}
# The part that the wire format can carry, and the part that other endpoints of the protocol get.
OWN: Final[dict[Speech, set[str]]] = {
    "chat": {"field-of-call", "field-of-text"},
    "messages": set(ECHOES["messages"]),
}
SHARED: Final[dict[Speech, set[str]]] = {
    "chat": set(),
    "messages": {"seal", "citation", "opaque"},
}


def giving(speech: Speech, name: str, *steps: str | ReplyStep) -> Reply:
    """Return a response of this endpoint with all the data that it wants echoed."""
    sealed = think("Hm.", signature=f"seal-{name}") if speech == "messages" else say("")
    add = _of_chat if speech == "chat" else _of_messages
    return reply(sealed, say("Look."), *steps, transform=lambda chunks: add(chunks, name))


def _of_chat(chunks: list[JsonObject], name: str) -> Iterable[JsonValue]:
    thought: JsonObject = {"type": "thinking", "thinking": "Hm.", "signature": f"seal-{name}"}
    delta: JsonObject = {
        "content": [thought],
        "extra_content": {"vendor": f"field-of-text-{name}"},
    }
    yield {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta}]}
    for one in chunks:
        for head in _found(one, "tool_calls"):
            if "id" in head:
                head["extra_content"] = {"vendor": f"field-of-call-{name}"}
        yield one


def _of_messages(events: list[JsonObject], name: str) -> Iterable[JsonValue]:
    for event in events:
        for block in _found(event, "content_block"):
            if block["type"] == "text":
                block["vendor"] = f"field-of-text-{name}"
                block["citations"] = [{"cited_text": f"citation-{name}"}]
            elif block["type"] == "tool_use":
                block["vendor"] = f"field-of-call-{name}"
        if event["type"] == "message_delta":
            sealed: JsonObject = {"type": "redacted_thinking", "data": f"opaque-{name}"}
            yield {"type": "content_block_start", "index": 9, "content_block": sealed}
            yield {"type": "content_block_stop", "index": 9}
        yield event


def _found(value: JsonValue, key: str) -> list[JsonObject]:
    """Return the objects under this key at any depth, alone or in a list."""
    found: list[JsonObject] = []
    if isinstance(value, dict):
        there = value.get(key)
        items = there if isinstance(there, list) else [there]
        found += [item for item in items if isinstance(item, dict)]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            found += _found(item, key)
    return found


def agent(
    speech: Speech, endpoint: ScriptedEndpoint, model: str, *fallbacks: AgentOptions
) -> AgentOptions:
    return AgentOptions(
        model=model,
        provider="anthropic" if speech == "messages" else None,
        base_url=endpoint.base_url,
        api_key="k",
        tools=[echo],
        fallbacks=fallbacks,
        max_retries=0,
    )


def echoes(request: EndpointRequest, name: str) -> set[str]:
    """Return the echoes of endpoint `name` that the request contains."""
    sent = request.content.decode()
    return {one for one in ECHOES["messages"] if f"{one}-{name}" in sent}


FAILURES: Final[dict[str, Reply]] = {
    "before anything": status(500),
    "while it speaks": reply(say("Hal"), disconnect(reset=True)),
    "inside the answer": reply(say("Hal"), in_band_error("no")),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("after", ["chat", "messages"])
@pytest.mark.parametrize("before", ["chat", "messages"])
async def test_fallback_gets_no_foreign_echoes(before: Speech, after: Speech, failure: str) -> None:
    first_script = [
        giving(before, "first", call("echo", {"text": "a"})),
        FAILURES[failure],
        giving(before, "first"),
    ]
    second_script = [
        giving(after, "second", call("echo", {"text": "b"})),
        giving(after, "second"),
    ]
    async with (
        ScriptedEndpoint(first_script) as first,
        ScriptedEndpoint(second_script) as second,
        open_runtime() as runtime,
    ):
        options = agent(before, first, "one", agent(after, second, "two"))
        await runtime.run("Go.", options, session_id="s")
        await runtime.run("Again.", options, session_id="s")
        history = runtime.history("s")
        assert history is not None
        check_history(history)
        check_quiet(runtime)
    same = before == after
    # The first endpoint gets its own echoes, and those echoes of the other that the protocol
    # shares.
    assert echoes(first.requests[1], "first") == OWN[before]
    assert echoes(first.requests[2], "first") == OWN[before]
    assert echoes(first.requests[2], "second") == (SHARED[after] if same else set())
    for request in second.requests:
        assert echoes(request, "first") == (SHARED[before] if same else set())
    assert echoes(second.requests[1], "second") == OWN[after]


@pytest.mark.parametrize("speech", ["chat", "messages"])
async def test_same_model_elsewhere_gets_no_echoes(speech: Speech) -> None:
    script = [giving(speech, "first", call("echo", {"text": "a"})), status(500)]
    async with (
        ScriptedEndpoint(script) as first,
        ScriptedEndpoint(["Done."]) as second,
        open_runtime() as runtime,
    ):
        other = agent(speech, second, "vendor/one")
        await runtime.run("Go.", agent(speech, first, "one", other))
    assert echoes(second.requests[0], "first") == OWN[speech]


@pytest.mark.parametrize("after", ["chat", "messages"])
@pytest.mark.parametrize("before", ["chat", "messages"])
async def test_stored_session_switches_endpoints_and_returns(
    before: Speech, after: Speech, tmp_path: Path
) -> None:
    script: list[ReplyTurn] = [
        giving(before, "first", call("echo", {"text": "a"})),
        giving(before, "first"),
        "Back.",
    ]
    async with ScriptedEndpoint(script) as first, ScriptedEndpoint(["Hello."]) as second:
        turns = (
            agent(before, first, "one"),
            agent(after, second, "two"),
            agent(before, first, "one"),
        )
        for options in turns:
            async with open_runtime(store=JsonlStore(tmp_path)) as runtime:
                await runtime.run("Go.", options, session_id="s")
    shared = SHARED[before] if before == after else set[str]()
    assert echoes(second.requests[0], "first") == shared
    assert echoes(first.requests[2], "first") == OWN[before]


async def test_plain_log_has_no_origins() -> None:
    script: list[ReplyTurn] = [reply(say("Look."), call("echo", {"text": "a"})), "Done."]
    store = MemoryStore()
    async with ScriptedEndpoint(script) as endpoint, open_runtime(store=store) as runtime:
        await runtime.run("Go.", agent("chat", endpoint, "one"), session_id="s")
        records = await store.load("s")
    lines = [dumps_event(record) for record in records]
    assert any("assistant.message" in line for line in lines)
    assert not any("origin" in line for line in lines)


async def test_standalone_provider_marks_its_echoes() -> None:
    scripts = [giving("messages", "first"), giving("chat", "first")]
    async with ScriptedEndpoint(scripts) as endpoint:
        request = ModelRequest(Messages().user("Go."), ModelSettings("one"))
        for provider, protocol in (
            (AnthropicMessages(base_url=endpoint.base_url), "anthropic"),
            (OpenAIChat(base_url=endpoint.base_url), "openai"),
        ):
            answer = await provider.complete(request)
            thoughts = [block for block in answer.blocks if isinstance(block, ThinkingBlock)]
            assert [Origin.of(block.origin).protocol for block in thoughts] == [protocol]
            await provider.aclose()
