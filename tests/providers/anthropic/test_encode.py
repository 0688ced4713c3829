import json
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given

from agent_actors.domain.blocks import (
    ContentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Message, Messages, Role
from agent_actors.domain.model import ModelRequest, ModelSettings, ToolSpec
from agent_actors.providers.anthropic.encode import (
    CachePoint,
    EncodeOptions,
    encode_count,
    encode_request,
)
from agent_actors.providers.openai_chat.encode import encode_request as encode_openai
from agent_actors.testing.strategies import messages

HI = Messages().user("Hi")
NOW = ToolSpec("now", "")
FIND = ToolSpec("find", "Find it.", {"type": "object", "properties": {"q": {"type": "string"}}})
EPHEMERAL: JsonObject = {"type": "ephemeral"}


def body_of(
    settings: ModelSettings | None = None,
    chain: Messages = HI,
    *,
    system_prompt: str = "",
    tools: tuple[ToolSpec, ...] = (),
    options: EncodeOptions | None = None,
    encode: Callable[[ModelRequest, EncodeOptions], bytes] = encode_request,
) -> JsonObject:
    request = ModelRequest(chain, settings or ModelSettings("m"), system_prompt, tools)
    decoded: JsonObject = json.loads(encode(request, options or EncodeOptions()))
    return decoded


def sent(*chain: Message, options: EncodeOptions | None = None) -> JsonValue:
    return body_of(chain=Messages(chain), options=options)["messages"]


def message(role: Role, *blocks: ContentBlock) -> Message:
    return Message(role, blocks)


def parts(*blocks: ContentBlock, role: Role = "user") -> list[JsonObject]:
    """Return the encoded parts of one message with these blocks."""
    found: list[dict[str, list[JsonObject]]] = json.loads(json.dumps(sent(message(role, *blocks))))
    return found[0]["content"] if found else []


def test_the_smallest_request() -> None:
    assert body_of() == {
        "model": "m",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    }


def test_settings_are_sent_own_fields_win() -> None:
    settings = ModelSettings(
        "m",
        max_tokens=5,
        temperature=0,
        top_p=0.5,
        stop=("END",),
        seed=1,
        presence_penalty=1,
        frequency_penalty=1,
        extra_body={"thinking": {"type": "adaptive"}, "temperature": 1},
    )
    assert body_of(settings) == {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "temperature": 1,
        "top_p": 0.5,
        "stop_sequences": ["END"],
        "thinking": {"type": "adaptive"},
    }


def test_max_tokens_has_a_default() -> None:
    assert body_of(options=EncodeOptions(max_tokens=99))["max_tokens"] == 99


# --- the system prompt ----------------------------------------------------------------------------


@pytest.mark.feature("ASDK-027")
@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_no_empty_system_block_is_sent(prompt: str) -> None:
    assert "system" not in body_of(chain=Messages().system(" ").user("Hi"), system_prompt=prompt)


def test_system_prompt_is_a_separate_field() -> None:
    chain = Messages().system("a").user("Hi").system("b").assistant("Hello").user("!")
    body = body_of(chain=chain, system_prompt="p")
    assert body["system"] == [{"type": "text", "text": text} for text in "pab"]
    assert body["messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "!"},
    ]
    assert body_of(system_prompt="p")["system"] == "p"


# --- turns ----------------------------------------------------------------------------------------


def test_neighbours_of_one_role_are_joined() -> None:
    chain = Messages().user("a").user("b").assistant("c").assistant([]).user("d")
    assert sent(*chain) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]


def test_neighbours_of_empty_message_are_joined() -> None:
    assert sent(message("user"), message("assistant", TextBlock(" ")), message("user")) == []
    chain = Messages().user("a").assistant([ThinkingBlock("unsealed")]).user("b")
    assert sent(*chain) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_results_come_first_after_calls() -> None:
    chain = [
        message("assistant", ToolUseBlock("a", "find", {"q": "é"}), ToolUseBlock("b", "now", {})),
        message("tool", ToolResultBlock("b", "2", is_error=True)),
        message("user", TextBlock("and"), ToolResultBlock("a", "1")),
    ]
    assert sent(*chain) == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "find", "input": {"q": "é"}},
                {"type": "tool_use", "id": "b", "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": "2", "is_error": True},
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "text", "text": "and"},
            ],
        },
    ]


def test_prefill_has_no_trailing_blanks() -> None:
    last = message("assistant", TextBlock("So \n"))
    assert sent(last) == [{"role": "assistant", "content": "So"}]
    chain = Messages().assistant("So ").user("Hi ")
    assert sent(*chain) == [
        {"role": "assistant", "content": "So "},
        {"role": "user", "content": "Hi "},
    ]
    said, _ = parts(TextBlock("So "), ToolUseBlock("a", "now", {}), role="assistant")
    assert said["text"] == "So "


@given(messages())
def test_any_conversation_alternates_roles(chain: Messages) -> None:
    found: list[dict[str, object]] = json.loads(json.dumps(sent(*chain)))
    roles = [one["role"] for one in found]
    assert all(left != right for left, right in pairwise(roles))
    assert all(one["content"] for one in found)


# --- blocks ---------------------------------------------------------------------------------------


def test_signed_thinking_is_sent_unsigned_dropped() -> None:
    sealed = ThinkingBlock("Hm", "seal", extra={"x": 1})
    bare = ThinkingBlock("Hm")
    assert parts(sealed, bare, ThinkingBlock("", "s"), role="assistant") == [
        {"type": "thinking", "thinking": "Hm", "signature": "seal", "x": 1},
        {"type": "thinking", "thinking": "", "signature": "s"},
    ]
    assert sent(message("user", sealed)) == []
    echo = EncodeOptions(echo_unsigned_thinking=True)
    assert sent(message("assistant", bare, ThinkingBlock("")), options=echo) == [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}]}
    ]


def test_opaque_blocks_return_to_their_source() -> None:
    data: JsonObject = {"type": "redacted_thinking", "data": "xyz"}
    ours, others = OpaqueBlock(data, "anthropic"), OpaqueBlock({"type": "x"}, "other")
    assert parts(ours, others, role="assistant") == [data]
    document: JsonObject = {"type": "document", "source": {"type": "file", "file_id": "f"}}
    mark: JsonObject = {"cache_control": EPHEMERAL}
    assert parts(OpaqueBlock(document, "anthropic", extra=mark)) == [{**document, **mark}]


def test_block_extras_return_within_protocol() -> None:
    extra: JsonObject = {"cache_control": EPHEMERAL, "extra_content": {}, "reasoning_content": "x"}
    kept: JsonObject = {"cache_control": EPHEMERAL}
    blocks: list[ContentBlock] = [
        TextBlock("a", extra=extra),
        ToolUseBlock("a", "f", {}, extra=extra),
        ToolResultBlock("a", "x", extra=extra),
        ImageBlock("https://x/y.png", extra=extra),
    ]
    for block in blocks:
        (part,) = parts(block)
        assert {key: part[key] for key in extra.keys() & part.keys()} == kept


def test_invalid_ids_and_names_are_rewritten() -> None:
    calls = [ToolUseBlock(id_, "a.b", {}) for id_ in ("f.x:0", "f_x_0", "f/x/0", "", "ok-1")]
    results = [ToolResultBlock(call.id, "x") for call in calls]
    found = json.loads(json.dumps(sent(message("assistant", *calls), message("tool", *results))))
    ids = [part["id"] for part in found[0]["content"]]
    assert ids == ["f_x_0", "f_x_0_2", "f_x_0_3", "call", "ok-1"]
    assert [part["tool_use_id"] for part in found[1]["content"]] == ids
    assert {part["name"] for part in found[0]["content"]} == {"a_b"}


def test_answered_broken_call_has_no_arguments() -> None:
    error = ToolUseError("bad", "{x", "a", "find")
    assert sent(message("assistant", error)) == []
    found = sent(message("assistant", error), message("tool", ToolResultBlock("a", "bad")))
    assert isinstance(found, list)
    assert found[0] == {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "a", "name": "find", "input": {}}],
    }


def test_lone_surrogates_of_the_caller_are_replaced() -> None:
    settings = ModelSettings("m", extra_body={"k\ud83d": [1, ("\ud83d\ude00",)]})
    body = body_of(settings, Messages().user("a\ud83db"))
    assert body["messages"] == [{"role": "user", "content": "a\ufffdb"}]
    assert body["k\ufffd"] == [1, ["\N{GRINNING FACE}"]]


# --- tools ----------------------------------------------------------------------------------------


def test_tools_precede_tools_of_the_endpoint() -> None:
    own: JsonObject = {"type": "web_search_20250305", "name": "web_search"}
    options = EncodeOptions(server_tools=[own], eager_tool_input=True)
    assert body_of(tools=(NOW,))["tools"] == [{"name": "now", "input_schema": {"type": "object"}}]
    assert body_of(tools=(FIND,), options=options)["tools"] == [
        {
            "name": "find",
            "description": "Find it.",
            "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
            "eager_input_streaming": True,
        },
        own,
    ]


@pytest.mark.parametrize(
    ("choice", "parallel", "field"),
    [
        (None, None, None),
        ("auto", None, {"type": "auto"}),
        ("required", True, {"type": "any", "disable_parallel_tool_use": False}),
        ("none", False, {"type": "none"}),
        ("find", False, {"type": "tool", "name": "find", "disable_parallel_tool_use": True}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
    ],
)
def test_a_choice_of_tool(choice: str | None, parallel: bool | None, field: JsonValue) -> None:
    settings = ModelSettings("m", tool_choice=choice, parallel_tool_calls=parallel)
    assert body_of(settings, tools=(FIND,)).get("tool_choice") == field
    assert "tool_choice" not in body_of(settings)


# --- the cache ------------------------------------------------------------------------------------


def marked(body: JsonObject) -> list[str]:
    """Return the text or name of each part that has a cache mark."""
    found: list[JsonObject] = []
    for message_ in objects(body["messages"]):
        found += objects(message_["content"])
    every = [*objects(body.get("system")), *objects(body.get("tools")), *found]
    return [str(one.get("text") or one.get("name")) for one in every if "cache_control" in one]


def objects(value: JsonValue) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("cache", "ends"),
    [
        ((), []),
        (("system",), ["p"]),
        (("tools",), ["find"]),
        (("messages",), ["Hi"]),
        (("messages", "tools", "system"), ["p", "find", "Hi"]),
    ],
)
def test_ends_are_marked_for_the_cache(cache: Iterable[CachePoint], ends: list[str]) -> None:
    options = EncodeOptions(cache=tuple(cache))
    body = body_of(system_prompt="p", tools=(NOW, FIND), options=options)
    assert marked(body) == ends


def test_the_cache_may_be_kept_for_longer() -> None:
    options = EncodeOptions(cache=["system"], cache_ttl="1h")
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert body_of(system_prompt="p", options=options)["system"] == [
        {"type": "text", "text": "p", "cache_control": mark}
    ]


def test_cache_marks_are_bounded() -> None:
    own = [TextBlock(str(n), extra={"cache_control": EPHEMERAL}) for n in range(3)]
    options = EncodeOptions(cache=("system", "tools", "messages"))
    chain = Messages().user([*own, TextBlock("last")])
    body = body_of(chain=chain, system_prompt="p", tools=(FIND,), options=options)
    assert marked(body) == ["0", "1", "2", "last"]


def test_cache_mark_is_set_once_where_allowed() -> None:
    options = EncodeOptions(cache=["messages"])
    chain = Messages().user("Hi").assistant([TextBlock("a"), ThinkingBlock("Hm", "s")])
    assert marked(body_of(chain=chain, options=options)) == ["a"]
    longer: JsonObject = {"type": "ephemeral", "ttl": "1h"}
    chain = Messages().user([TextBlock("a", extra={"cache_control": longer})])
    assert json.dumps(longer) in json.dumps(body_of(chain=chain, options=options))
    assert marked(body_of(chain=Messages(), options=options) | {"messages": []}) == []


# --- token counts ---------------------------------------------------------------------------------


def test_count_omits_response_settings() -> None:
    settings = ModelSettings(
        "m", temperature=0, top_p=1, stop=("x",), extra_body={"top_k": 1, "thinking": {}}
    )
    assert body_of(settings, system_prompt="p", tools=(NOW,), encode=encode_count) == {
        "model": "m",
        "system": "p",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "now", "input_schema": {"type": "object"}}],
        "thinking": {},
    }


def test_other_protocols_leave_opaque_blocks_out() -> None:
    opaque = OpaqueBlock({"type": "redacted_thinking", "data": "x"}, "anthropic")
    chain = Messages().user([TextBlock("Hi"), opaque]).assistant([opaque, TextBlock("Hello")])
    request = ModelRequest(chain.append(message("assistant", opaque)), ModelSettings("m"))
    assert json.loads(encode_openai(request))["messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
    ]
