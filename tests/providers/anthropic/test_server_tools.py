"""Calls of the endpoint's own tools are sent together with their results, or not at all."""

import json
from typing import TYPE_CHECKING

import pytest

from agent_actors.domain.blocks import (
    ContentBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import ModelRequest, ModelSettings
from agent_actors.providers.anthropic.encode import EncodeOptions, encode_request
from agent_actors.providers.anthropic.server_tools import without_torn_server_calls

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject

GO = Message("user", (TextBlock("Go."),))
MORE = Message("user", (TextBlock("And?"),))
TEXT = TextBlock("Let me look.")


def use(call_id: str = "s", kind: str = "server", **given: str) -> OpaqueBlock:
    fields: JsonObject = {"type": f"{kind}_tool_use", "id": call_id, "name": "web_search"}
    return OpaqueBlock({**fields, "input": dict(given)}, "anthropic")


def result(call_id: str = "s", kind: str = "web_search") -> OpaqueBlock:
    fields: JsonObject = {"type": f"{kind}_tool_result", "tool_use_id": call_id, "content": []}
    return OpaqueBlock(fields, "anthropic")


def said(*blocks: ContentBlock) -> Message:
    return Message("assistant", blocks)


def sent(*messages: Message) -> list[str]:
    """Return the kinds and ids of the parts that are sent, in order."""
    body = encode_request(ModelRequest(Messages(messages), ModelSettings("m")), EncodeOptions())
    turns: list[dict[str, str | list[JsonObject]]] = json.loads(body)["messages"]
    found: list[str] = []
    for turn in turns:
        parts = turn["content"]
        listed = [{"type": "text"}] if isinstance(parts, str) else parts
        for part in listed:
            name = part.get("id") or part.get("tool_use_id") or ""
            found.append(f"{part['type']} {name}".strip())
    return found


@pytest.mark.parametrize("kind", ["server", "mcp"])
@pytest.mark.parametrize("given", [{}, {"query": "x"}])
def test_cut_server_call_is_not_sent(kind: str, given: dict[str, str]) -> None:
    assert sent(GO, said(TEXT, use(kind=kind, **given)), MORE) == ["text"] * 3


def test_complete_server_call_is_sent() -> None:
    whole = said(use(), result(), use("m", "mcp"), result("m", "mcp"), TEXT)
    assert sent(GO, whole, MORE) == [
        "text",
        "server_tool_use s",
        "web_search_tool_result s",
        "mcp_tool_use m",
        "mcp_tool_result m",
        "text",
        "text",
    ]


def test_result_without_call_is_not_sent() -> None:
    assert sent(GO, said(result(), TEXT), MORE) == ["text"] * 3
    assert sent(GO, said(result(), use(), TEXT), MORE) == ["text"] * 3


def test_paused_response_returns_unchanged() -> None:
    assert sent(GO, said(TEXT, use())) == ["text", "text", "server_tool_use s"]


def test_response_with_client_results_keeps_pending_call() -> None:
    client = ToolUseBlock("c", "find", {})
    found = Message("tool", (ToolResultBlock("c", "found"),))
    rest = ["tool_use c", "tool_result c"]
    assert sent(GO, said(use(query="x"), client), found) == ["text", "server_tool_use s", *rest]
    assert sent(GO, said(client, use()), found) == [
        "text",
        *rest,
    ]  # the server call's input was truncated
    assert sent(GO, said(use(query="x"), client), found, MORE) == ["text", *rest, "text"]


def test_result_may_follow_in_later_response() -> None:
    """Code at the endpoint calls a client-side tool, and finishes in the next response."""
    client = ToolUseBlock("c", "find", {}, extra={"caller": {"type": "x", "tool_id": "s"}})
    found = Message("tool", (ToolResultBlock("c", "found"),))
    history = (GO, said(use(), client), found)
    begun = ["text", "server_tool_use s", "tool_use c", "tool_result c"]
    assert sent(*history) == begun
    assert sent(*history, said(result(), TEXT)) == [*begun, "web_search_tool_result s", "text"]


def test_other_messages_stay_same_objects() -> None:
    odd = OpaqueBlock({"type": "server_tool_use", "id": 7}, "anthropic")
    foreign = OpaqueBlock({"type": "server_tool_use", "id": "s"}, "openai")
    whole = [GO, said(TEXT, odd, foreign, ToolUseBlock("c", "f", {}, extra={"caller": {}})), MORE]
    assert without_torn_server_calls(whole) is whole
    kept = without_torn_server_calls([*whole, said(use()), MORE])
    assert kept[1] is whole[1]
    results = [Message("tool", (ToolResultBlock("c", "found"),)), said(result())][:1]
    assert list(without_torn_server_calls([*results, Message("user", (result(),))])) == [
        *results,
        Message("user", ()),
    ]
