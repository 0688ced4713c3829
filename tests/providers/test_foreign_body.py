"""If a body belongs to another API than the requested one, the error names that API."""

import json
from typing import TYPE_CHECKING

import pytest

from agent_actors.errors import ProviderInBandError, ProviderProtocolError
from agent_actors.providers.foreign_body import api_of, api_of_text
from agent_actors.testing import body_of, say
from tests.providers.anthropic import answers as messages
from tests.providers.openai_chat import answers as chat

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject

RESPONSE = {"id": "resp_1", "object": "response", "status": "completed", "error": None}
CREATED = {"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}}
DELTA = {"type": "response.output_text.delta", "delta": "Hi"}
OLLAMA = {"model": "m", "message": {"role": "assistant", "content": "Hi"}, "done": False}
GEMINI = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}
FRAME = b"\x00\x00\x00\x9e\x00\x00\x00\x57\x0b:event-type\x07\x00\x05chunk" + bytes(40)


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (json.dumps(RESPONSE).encode(), "a response of OpenAI's Responses API"),
        (chat.sse(CREATED, DELTA), "an event stream of a response of OpenAI's Responses API"),
        (lines(OLLAMA, {**OLLAMA, "done": True}), "newline-delimited JSON (a response of Ollama's"),
        (lines(OLLAMA), "a response of Ollama's own API"),
        (lines({"a": 1}, {"a": 2}), "newline-delimited JSON (content type"),
        (json.dumps(GEMINI, indent=1).encode(), "a response of Gemini's own API"),
        (chat.sse(GEMINI), "an event stream of a response of Gemini's own API"),
        (b"[" + json.dumps(GEMINI).encode() + b"]", "a response of Gemini's own API"),
        (FRAME, "an AWS event stream (content type 'x/y')"),
        (b"\x00" * 9, "binary data (content type 'x/y')"),
        (b"\x1f\x8b\x08" + bytes(9), "compressed data (content type 'x/y')"),
        (lines({"object": "list", "data": []}), "a list, for example of models"),
        (lines({"messageStart": {"role": "assistant"}}), "Bedrock's Converse API"),
    ],
)
def test_foreign_body_is_named(body: bytes, name: str) -> None:
    for read in (chat.read_all, messages.read_all):
        found: list[str] = []
        for reads in ([body], [body[at : at + 1] for at in range(len(body))]):
            with pytest.raises(ProviderProtocolError) as caught:
                read(reads, content_type="x/y")
            found.append(str(caught.value))
        assert found[0] == found[1]
        assert name in found[0]
        assert "expected an event stream of" in found[0]


def test_each_protocol_names_the_other() -> None:
    for stream in (True, False):
        with pytest.raises(ProviderProtocolError, match="Anthropic's Messages API"):
            chat.read(body_of([say("Hi")], "messages", stream=stream))
        with pytest.raises(ProviderProtocolError, match="a chat completion"):
            messages.read(body_of([say("Hi")], "chat", stream=stream))


def test_errors_of_other_apis_are_errors() -> None:
    with pytest.raises(ProviderInBandError, match="no credit"):
        chat.read(chat.sse({"type": "error", "error": {"message": "no credit"}}))
    with pytest.raises(ProviderInBandError, match="no credit"):
        chat.read(lines({"message": {"text": "x", "message": "no credit"}}))


def test_endless_binary_body_is_refused() -> None:
    with pytest.raises(ProviderProtocolError, match="an AWS event stream"):
        chat.read_all([FRAME, b"x" * 70_000, b"x"])


@pytest.mark.parametrize("text", ["{", "7", "[]", "{}", '{"choices": []}', '{"type": 7}'])
def test_unknown_json_has_no_name(text: str) -> None:
    assert api_of_text(text) == ""


def test_name_is_that_of_first_known_item() -> None:
    old: JsonObject = {"object": "text_completion", "choices": [{"text": "Hi"}]}
    assert api_of([None, {}, old, {"candidates": []}]) == (
        "a response of OpenAI's legacy Completions API"
    )
