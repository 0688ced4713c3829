"""Endpoints get back their own fields; a caller's own fields are sent to all endpoints."""

import json

import attrs
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.blocks import dump_block, load_block
from agent_actors.codec.openai_messages import message_to_openai
from agent_actors.domain.blocks import (
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest, ModelSettings
from agent_actors.domain.provenance import MarkedBlock, Origin
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.protocol.response.call_ids import with_unique_ids
from agent_actors.providers.anthropic.encode import EncodeOptions, encode_count
from agent_actors.providers.anthropic.encode import encode_request as encode_messages
from agent_actors.providers.openai_chat.encode import encode_request as encode_chat
from tests.codec.values import json_objects

CHAT = Origin("openai", "http://chat/v1", "gemini-3")
MESSAGES = Origin("anthropic", "http://messages", "claude")
NO_TOOLS = ChatDialect(refuses={"tools"})


def said(origin: str) -> Messages:
    """Return a conversation in which each block has a field to echo."""
    extra: JsonObject = {"citations": ["C"], "own": "O"}
    blocks = (
        ThinkingBlock("Hm.", "S", extra={"of_thought": "T"}, origin=origin),
        TextBlock("Look.", extra=extra, origin=origin),
        ToolUseBlock("c1", "find", {}, extra={"caller": "W", "of_call": "K"}, origin=origin),
        ToolUseError("broken", None, "c2", "find", extra={"of_failed": "F"}, origin=origin),
    )
    return Messages(
        [
            Message("user", (TextBlock("Go."),)),
            Message("assistant", blocks),
            Message("tool", (ToolResultBlock("c1", "found", name="find"),)),
            Message("tool", (ToolResultBlock("c2", "no", name="find"),)),
        ]
    )


def request(messages: Messages, asked: Origin) -> ModelRequest:
    return ModelRequest(messages, ModelSettings(asked.model))


def echoed(body: bytes) -> set[str]:
    """Return the echoed fields in a body, by the capital letters that represent them."""
    found: set[str] = set()

    def look(value: JsonValue) -> None:
        if isinstance(value, dict):
            for item in value.values():
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)
        elif isinstance(value, str) and len(value) == 1:
            found.add(value)

    look(json.loads(body))
    return found


def chat(messages: Messages, asked: Origin, dialect: ChatDialect | None = None) -> set[str]:
    ways = ChatDialect() if dialect is None else dialect
    return echoed(encode_chat(request(messages, asked), ways, asked.endpoint))


def claude(messages: Messages, asked: Origin) -> set[str]:
    options = EncodeOptions()
    body = encode_messages(request(messages, asked), options, asked.endpoint)
    assert echoed(encode_count(request(messages, asked), options, asked.endpoint)) == echoed(body)
    return echoed(body)


def test_chat_endpoint_gets_only_own_echoes() -> None:
    own = said(CHAT.mark)
    # Chat completions have no field for a signature, whichever endpoint sent it.
    assert chat(own, CHAT) == set("TCOWKF")
    moved = attrs.evolve(CHAT, endpoint="http://moved/v1")
    assert chat(own, moved) == set("TCOWKF")
    assert chat(own, Origin("openai", "http://strict/v1", "mistral")) == set()
    assert chat(said(MESSAGES.mark), CHAT) == set()


def test_messages_endpoint_gets_protocol_echoes_too() -> None:
    own = said(MESSAGES.mark)
    assert claude(own, MESSAGES) == set("STCOWKF")
    other_host = Origin("anthropic", "http://bedrock", "claude-of-theirs")
    assert claude(own, other_host) == set("SCW")
    assert claude(said(CHAT.mark), MESSAGES) == set()


def test_text_only_endpoint_gets_own_echoes() -> None:
    twice = said(CHAT.mark).append(Message("assistant", said(MESSAGES.mark)[1].blocks[:2]))
    assert chat(twice, CHAT, NO_TOOLS) == set("TCO")
    assert chat(twice, Origin("openai", "http://strict/v1", "mistral"), NO_TOOLS) == set()
    assert chat(said(""), CHAT, NO_TOOLS) == set("TCO")


def test_foreign_signature_is_dropped_from_thinking() -> None:
    asked = request(said(CHAT.mark), MESSAGES)
    body = json.loads(encode_messages(asked, EncodeOptions(echo_unsigned_thinking=True)))
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm."}
    body = json.loads(encode_messages(asked, EncodeOptions()))
    assert [part["type"] for part in body["messages"][1]["content"]] == [
        "text",
        "tool_use",
        "tool_use",
    ]


def test_encodings_are_not_shared_between_endpoints() -> None:
    strict = Origin("openai", "http://strict/v1", "mistral")
    first = request(said(CHAT.mark), CHAT)
    body = encode_chat(first, endpoint=CHAT.endpoint)
    assert "O" in echoed(body)
    settings = ModelSettings(strict.model)
    second = attrs.evolve(first, settings=settings)
    assert second.memo is first.memo
    assert "O" not in echoed(encode_chat(second, endpoint=strict.endpoint))
    assert encode_chat(first, endpoint=CHAT.endpoint) == body


@given(json_objects, json_objects)
def test_caller_extras_go_to_every_endpoint(of_text: JsonObject, of_call: JsonObject) -> None:
    message = Message(
        "assistant",
        (TextBlock("a", extra=of_text), ToolUseBlock("c1", "find", {}, extra=of_call)),
    )
    history = Messages([message, Message("tool", (ToolResultBlock("c1", "b", name="find"),))])
    everybody = {
        encode_chat(ModelRequest(history, ModelSettings("m")), endpoint=endpoint)
        for endpoint in ("", "http://one", "http://two")
    }
    assert len(everybody) == 1
    sent = json.loads(everybody.pop())["messages"][0]
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    plain = {"role": "assistant", "content": "a", "tool_calls": [{**call, **of_call}]}
    assert sent == json.loads(json.dumps({**plain, **of_text}))


def test_caller_cache_mark_is_sent() -> None:
    mark: JsonObject = {"cache_control": {"type": "ephemeral"}}
    history = Messages([Message("user", (TextBlock("a", extra=mark),))])
    body = json.loads(encode_messages(request(history, MESSAGES), EncodeOptions(), "http://x"))
    assert body["messages"][0]["content"] == [{"type": "text", "text": "a", **mark}]


_names = st.text("ab/ :", max_size=6)
_plain_blocks: st.SearchStrategy[ContentBlock] = st.one_of(
    st.builds(TextBlock, _names),
    st.builds(ThinkingBlock, _names),
    st.builds(ToolUseBlock, st.just("c1"), st.just("find"), json_objects),
    st.builds(ToolUseError, _names, st.none(), st.just("c2"), st.just("find")),
)
_histories = st.lists(
    st.builds(Message, st.just("assistant"), st.lists(_plain_blocks, max_size=4).map(tuple)),
    max_size=4,
).map(Messages)


def with_mark(block: ContentBlock, mark: str) -> ContentBlock:
    assert isinstance(block, MarkedBlock)
    return attrs.evolve(block, origin=mark)


@given(_histories, _names, _names)
def test_plain_history_encodes_equally_everywhere(
    history: Messages, endpoint: str, mark: str
) -> None:
    # A mark on a block without fields to echo changes nothing either.
    bearing = Messages(
        Message(one.role, tuple(with_mark(block, mark) for block in one.blocks)) for one in history
    )
    settings = ModelSettings("m")
    for dialect in (ChatDialect(), NO_TOOLS, ChatDialect(echo_reasoning="reasoning_content")):
        bodies = {
            encode_chat(ModelRequest(one, settings), dialect, name)
            for one in (history, bearing)
            for name in ("", endpoint)
        }
        assert len(bodies) == 1
    options = EncodeOptions(echo_unsigned_thinking=True)
    bodies = {
        encode_messages(ModelRequest(one, settings), options, name)
        for one in (history, bearing)
        for name in ("", endpoint)
    }
    assert len(bodies) == 1


def test_plain_history_encoding_is_unchanged() -> None:
    history = Messages(
        [
            Message("user", (TextBlock("Go."),)),
            Message(
                "assistant",
                (ThinkingBlock("Hm."), TextBlock("Look."), ToolUseBlock("c1", "find", {"q": 1})),
            ),
            Message("tool", (ToolResultBlock("c1", "found", name="find"),)),
        ]
    )
    asked = ModelRequest(history, ModelSettings("m"), "Be brief.")
    assert encode_chat(asked, endpoint="http://x") == (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":['
        b'{"role":"system","content":"Be brief."},{"role":"user","content":"Go."},'
        b'{"role":"assistant","content":"Look.","tool_calls":[{"id":"c1","type":"function",'
        b'"function":{"name":"find","arguments":"{\\"q\\": 1}"}}]},'
        b'{"role":"tool","tool_call_id":"c1","name":"find","content":"found"}]}'
    )
    assert encode_messages(asked, EncodeOptions(), "http://x") == (
        b'{"model":"m","max_tokens":8192,"system":"Be brief.","messages":['
        b'{"role":"user","content":"Go."},{"role":"assistant","content":['
        b'{"type":"text","text":"Look."},'
        b'{"type":"tool_use","id":"c1","name":"find","input":{"q":1}}]},'
        b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1",'
        b'"content":"found"}]}],"stream":true}'
    )


def test_chat_dicts_hold_only_chat_echoes() -> None:
    def fields(origin: str) -> set[str]:
        (sent,) = message_to_openai(said(origin)[1])
        return echoed(json.dumps(sent).encode())

    assert fields("") == fields(CHAT.mark) == set("TCOWKF")
    assert fields(MESSAGES.mark) == set()


def test_origin_survives_log_and_new_id() -> None:
    for block in said(CHAT.mark)[1].blocks:
        assert load_block(dump_block(block)) == block
    assert "origin" not in dump_block(TextBlock("a"))
    unnamed = ToolUseBlock("c1", "", {}, extra={"a": 1}, origin="x")
    (renamed,) = with_unique_ids(ModelCompleted((unnamed,)), turn=1).blocks
    assert isinstance(renamed, ToolUseError)
    assert renamed.origin == "x"


def test_old_block_without_origin_goes_everywhere() -> None:
    old = load_block({"type": "thinking", "thinking": "Hm.", "signature": "S"})
    history = Messages([Message("assistant", (old, TextBlock("a")))])
    assert claude(history, MESSAGES) == {"S", "a"}
