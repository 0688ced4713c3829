import json
from collections.abc import Iterable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Message, Messages, Role
from agent_actors.domain.model import ModelRequest, ModelSettings, ToolSpec
from agent_actors.profiles.dialect import PLAIN, ChatDialect
from agent_actors.providers.openai_chat.encode import RequestHeads, encode_request

HI = Messages().user("Hi")
NOW = ToolSpec("now", "The time.")
FIND = ToolSpec("find", "Find it.", {"type": "object", "properties": {"q": {"type": "string"}}})


def body_of(
    settings: ModelSettings | None = None,
    messages: Messages = HI,
    dialect: ChatDialect = PLAIN,
    *,
    tools: bool = False,
    system_prompt: str = "",
) -> JsonObject:
    offered = (NOW, FIND) if tools else ()
    request = ModelRequest(messages, settings or ModelSettings("m"), system_prompt, offered)
    decoded: JsonObject = json.loads(encode_request(request, dialect))
    return decoded


def sent(*messages: Message, dialect: ChatDialect = PLAIN) -> JsonValue:
    return body_of(messages=Messages(messages), dialect=dialect)["messages"]


def message(role: Role, *blocks: ContentBlock) -> Message:
    return Message(role, blocks)


def test_the_smallest_request() -> None:
    assert body_of() == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.feature("OAS-074")
def test_stream_and_usage_are_requested() -> None:
    body = body_of(dialect=ChatDialect(include_usage=False))
    assert body["stream"] is True
    assert "stream_options" not in body


@pytest.mark.feature("OAS-032", "WICK-081", "OAS-001")
def test_system_prompt_history_and_user_order() -> None:
    messages = Messages().user("One").assistant("Two").user("Three")
    assert body_of(messages=messages, system_prompt="Be brief.")["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "user", "content": "Three"},
    ]


def test_system_messages_keep_their_place() -> None:
    assert sent(message("user", TextBlock("a")), message("system", TextBlock("b"))) == [
        {"role": "user", "content": "a"},
        {"role": "system", "content": "b"},
    ]


@pytest.mark.feature("OAS-008")
@pytest.mark.parametrize("value", [None, 4096])
def test_max_tokens_is_left_out_when_none(value: int | None) -> None:
    assert body_of(ModelSettings("m", max_tokens=value)).get("max_tokens") == value


@pytest.mark.feature("OAS-009", "WICK-082", "ASDK-015")
def test_zero_temperature_is_sent() -> None:
    assert body_of(ModelSettings("m", temperature=0.0))["temperature"] == 0
    assert body_of(ModelSettings("m", temperature=0.7))["temperature"] == 0.7
    assert "temperature" not in body_of(ModelSettings("m"))


def test_every_sampling_option_has_its_field() -> None:
    body = body_of(
        ModelSettings(
            "m",
            top_p=0.0,
            stop=("END", "\n"),
            seed=0,
            presence_penalty=-1.0,
            frequency_penalty=0.5,
            extra_body={"top_k": 40, "stream_options": {"include_usage": False}},
        )
    )
    assert {key: body[key] for key in ("top_p", "stop", "seed", "top_k", "stream_options")} == {
        "top_p": 0,
        "stop": ["END", "\n"],
        "seed": 0,
        "top_k": 40,
        "stream_options": {"include_usage": False},
    }
    assert (body["presence_penalty"], body["frequency_penalty"]) == (-1, 0.5)


def test_token_limit_uses_endpoint_field() -> None:
    dialect = ChatDialect(max_tokens_field="max_completion_tokens")
    body = body_of(ModelSettings("m", max_tokens=7), dialect=dialect)
    assert body["max_completion_tokens"] == 7
    assert "max_tokens" not in body


def test_refused_fields_are_dropped_unless_explicit() -> None:
    dialect = ChatDialect(refuses={"temperature", "seed", "stream_options", "parallel_tool_calls"})
    settings = ModelSettings(
        "m", temperature=0.5, top_p=0.1, seed=1, parallel_tool_calls=True, extra_body={"seed": 2}
    )
    body = body_of(settings, dialect=dialect, tools=True)
    assert body.keys() == {"model", "stream", "tools", "top_p", "seed", "messages"}
    assert body["seed"] == 2


def test_tools_are_offered_in_the_wires_form() -> None:
    assert body_of(tools=True)["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "now",
                "description": "The time.",
                "parameters": {"type": "object"},
            },
        },
        {
            "type": "function",
            "function": {
                "name": "find",
                "description": "Find it.",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            },
        },
    ]


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("find", {"type": "function", "function": {"name": "find"}}),
    ],
)
def test_tool_choice_is_word_or_tool(choice: str, field: JsonValue) -> None:
    settings = ModelSettings("m", tool_choice=choice, parallel_tool_calls=False)
    body = body_of(settings, tools=True)
    assert body["tool_choice"] == field
    assert body["parallel_tool_calls"] is False


def test_no_tools_means_no_choice() -> None:
    body = body_of(ModelSettings("m", tool_choice="auto", parallel_tool_calls=True))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


@pytest.mark.feature("WICK-083")
def test_a_call_and_its_result() -> None:
    call = ToolUseBlock("a", "find", {"q": "é"}, '{"q": "é"}')
    assert sent(
        message("assistant", TextBlock("Let me look."), call),
        message("tool", ToolResultBlock("a", {"found": 1}, name="find")),
    ) == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "find", "arguments": '{"q": "é"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "a", "name": "find", "content": '{"found": 1}'},
    ]


def arguments_sent(call: ToolUseBlock) -> str:
    (assistant,) = json.loads(json.dumps(sent(message("assistant", call))))
    assert assistant["content"] is None
    text = assistant["tool_calls"][0]["function"]["arguments"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    "raw", ["", "{}", "not json", r'"{\"q\": 1}"', '{"q":2}', '{"q":1}{"q":1}', "[" * 100_000]
)
def test_differing_raw_arguments_are_regenerated(raw: str) -> None:
    assert arguments_sent(ToolUseBlock("a", "find", {"q": 1}, raw)) == '{"q": 1}'


def test_equal_raw_arguments_are_sent_verbatim() -> None:
    assert arguments_sent(ToolUseBlock("a", "find", {"q": 1}, '{ "q":1 }')) == '{ "q":1 }'


@given(st.dictionaries(st.text(), st.integers() | st.text(st.characters(codec=None))), st.text())
def test_arguments_are_always_an_object_in_text(value: dict[str, JsonValue], raw: str) -> None:
    decoded = json.loads(arguments_sent(ToolUseBlock("a", "f", value, raw)))
    assert decoded.keys() == value.keys()


def test_lone_surrogates_of_the_caller_are_replaced() -> None:
    settings = ModelSettings("m", extra_body={"k\ud83d": [1, ("\ud83d\ude00",)]})
    body = body_of(settings, Messages().user("a\ud83db"))
    assert body["messages"] == [{"role": "user", "content": "a\ufffdb"}]
    assert body["k\ufffd"] == [1, ["\N{GRINNING FACE}"]]


@pytest.mark.feature("OAS-067")
def test_unanswered_broken_call_is_not_sent() -> None:
    error = ToolUseError("bad", "{x", "a", "find")
    assert sent(message("assistant", TextBlock("Hm"), error)) == [
        {"role": "assistant", "content": "Hm"}
    ]
    assert sent(message("assistant", error)) == []


@pytest.mark.feature("OAS-067")
@pytest.mark.parametrize(("name", "as_sent"), [("find", "find"), ("", "unnamed")])
def test_answered_broken_call_has_no_arguments(name: str, as_sent: str) -> None:
    assert sent(
        message("assistant", ToolUseError("bad", "{x", "a", name)),
        message("tool", ToolResultBlock("a", "bad", is_error=True)),
    ) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": as_sent, "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "bad"},
    ]


def test_several_results_become_messages() -> None:
    results = [ToolResultBlock("a", "1"), ToolResultBlock("b", "2")]
    assert sent(message("user", *results, TextBlock("Go on."))) == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "Go on."},
    ]
    assert sent(message("tool", results[0], ImageBlock("https://x/y.png"))) == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}],
        },
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": ""}], "a"),
        ([{"type": "text", "text": "a"}, {"type": "image"}], None),
        ([{"type": "text", "text": 1}], None),
        (["a"], None),
        ([], "[]"),
        ("plain", "plain"),
    ],
)
def test_a_result_is_text(content: str | list[JsonValue], text: str | None) -> None:
    (found,) = json.loads(json.dumps(sent(message("tool", ToolResultBlock("a", content)))))
    assert found["content"] == (json.dumps(content) if text is None else text)


def test_unsendable_blocks_are_left_out() -> None:
    odd = message("user", ThinkingBlock("Hm"), TextBlock("Hi"))
    assert assistant(ToolResultBlock("a", "x"), TextBlock("Hi")) == [
        {"role": "assistant", "content": "Hi"}
    ]
    assert sent(odd) == [{"role": "user", "content": "Hi"}]
    assert sent(message("user", ThinkingBlock("Hm"))) == []


def test_images_are_parts_next_to_text() -> None:
    blocks: list[ContentBlock] = [
        TextBlock("What is this?"),
        ImageBlock("data:image/png;base64,xx", "image/png"),
    ]
    assert sent(message("user", *blocks)) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,xx"}},
            ],
        }
    ]


def assistant(*blocks: ContentBlock, dialect: ChatDialect = PLAIN) -> Iterable[JsonObject]:
    found: list[JsonObject] = json.loads(
        json.dumps(sent(message("assistant", *blocks), dialect=dialect))
    )
    return found


def test_thoughts_are_not_sent() -> None:
    assert assistant(ThinkingBlock("Hm"), TextBlock("Hi")) == [
        {"role": "assistant", "content": "Hi"}
    ]
    assert assistant(ThinkingBlock("Hm")) == []


def test_quirk_40_reasoning_is_echoed_on_request() -> None:
    blocks = (ThinkingBlock("H"), ThinkingBlock("m"), TextBlock("Hi"))
    for field in ("reasoning_content", "reasoning"):
        assert assistant(*blocks, dialect=ChatDialect(echo_reasoning=field)) == [
            {"role": "assistant", "content": "Hi", field: "Hm"}
        ]
    own = ThinkingBlock("x", extra={"reasoning_content": "own"})
    for field in ("reasoning_content", ""):
        assert assistant(own, TextBlock("Hi"), dialect=ChatDialect(echo_reasoning=field)) == [
            {"role": "assistant", "content": "Hi", "reasoning_content": "own"}
        ]


def test_quirk_40_echoes_return_with_their_part() -> None:
    seal: JsonObject = {"extra_content": {"google": {"thought_signature": "s"}}}
    (found,) = assistant(TextBlock("Hi", extra=seal), ToolUseBlock("a", "f", {}, extra=seal))
    assert found["extra_content"] == seal["extra_content"]
    assert found["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, **seal}
    ]
    result = ToolResultBlock("a", "x", extra={"k": 1})
    (sent_result,) = json.loads(json.dumps(sent(message("tool", result))))
    assert sent_result["k"] == 1


@pytest.mark.parametrize("prompt", ["", "Be brief."])
@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_any_number_of_messages_keeps_order(prompt: str, length: int) -> None:
    chain = [message("user", TextBlock(f"{at}")) for at in range(length)]
    said = [("system", prompt)] if prompt else []
    said += [("user", f"{at}") for at in range(length)]
    expected = [{"role": role, "content": content} for role, content in said]
    assert body_of(messages=Messages(chain), system_prompt=prompt)["messages"] == expected


def test_unsendable_messages_leave_no_trace() -> None:
    silent = message("assistant", ThinkingBlock("Hm"))
    spoken = message("user", TextBlock("a"))
    expected = [{"role": "user", "content": "a"}]
    for chain in ((silent, spoken), (spoken, silent), (silent, spoken, silent)):
        assert sent(*chain) == expected
    assert sent(silent) == []


def test_extra_messages_field_replaces_conversation() -> None:
    own: JsonValue = "whatever the caller wants"
    body = body_of(ModelSettings("m", extra_body={"messages": own}), system_prompt="Be brief.")
    assert body["messages"] == own


def test_cached_encoding_equals_fresh_encoding() -> None:
    memo = EncodedMessageCache()
    chain = Messages()
    for at in range(4):
        chain = chain.user(f"{at}").assistant([ThinkingBlock("Hm")]).assistant("x")
        request = ModelRequest(chain, ModelSettings("m"), memo=memo)
        assert encode_request(request) == encode_request(
            attrs.evolve(request, memo=EncodedMessageCache())
        )


def test_kept_head_changes_no_body() -> None:
    """The head of an earlier request is used only for the same settings and tools."""
    heads, tools, fields = RequestHeads(), (NOW, FIND), dict[str, JsonValue](top_k=1)
    settings = [
        ModelSettings("a"),
        ModelSettings("b", temperature=0.5),
        ModelSettings("a", extra_body=fields),
        ModelSettings("a", extra_body={"messages": []}),
    ]
    for repeat in range(2):
        fields["top_k"] = repeat  # in place
        for one in settings:
            for offered in (tools, (), tools, tools):
                for messages in (HI, HI.user("And?"), Messages()):
                    request = ModelRequest(messages, one, "Be brief.", offered)
                    assert encode_request(request, PLAIN, "", heads) == encode_request(request)


def test_same_head_is_encoded_once() -> None:
    heads, request = RequestHeads(), ModelRequest(HI, ModelSettings("m"), "", (NOW,))
    encode_request(request, PLAIN, "", heads)
    kept = heads.find(request)
    assert kept is not None
    encode_request(request, PLAIN, "", heads)
    assert heads.find(request) is kept
