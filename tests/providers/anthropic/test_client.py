import json
from typing import Any, TypedDict, Unpack

import attrs
import pytest
import trio
import trio.testing

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.domain.blocks import OpaqueBlock, TextBlock, ToolUseBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import TextDelta, ToolCallDelta
from agent_actors.domain.usage import Usage
from agent_actors.errors import (
    ConfigError,
    ProviderConnectError,
    ProviderInBandError,
    ProviderProtocolError,
    ProviderStatusError,
)
from agent_actors.model import AnthropicMessages
from agent_actors.testing import ScriptedEndpoint, call, html, reply, say, status, think, usage
from tests.providers.anthropic.answers import (
    REQUEST,
    add,
    arguments,
    begin,
    call_block,
    end,
    sse,
    start,
    stop,
    text_block,
)
from tests.providers.openai_chat.fake_exchange import FakeExchange
from tests.providers.sinks import CollectingSink

BASE = "http://localhost:1234"
HELLO = sse(begin(), *text_block("Hel", "lo"), *end())
SEARCH: JsonObject = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}


class SequentialExchange(FakeExchange):
    """An exchange that responds to each request with the next of these bodies."""

    def __init__(self, *bodies: bytes) -> None:
        super().__init__()
        self._bodies = list(bodies)

    async def exchange(self, request: Any, sink: Any) -> None:
        self._reads = [self._bodies.pop(0)]
        await super().exchange(request, sink)


def model(exchange: FakeExchange, base_url: str = BASE, api_key: str = "k") -> AnthropicMessages:
    return AnthropicMessages(base_url=base_url, exchange=exchange, api_key=api_key)


@pytest.mark.feature("ASDK-023")
async def test_stream_shows_deltas_and_returns_response() -> None:
    sink = CollectingSink.roomy()
    body = sse(begin(), *text_block("Look"), *call_block('{"q":1}', index=1), *end("tool_use"))
    answer = await model(FakeExchange([body])).stream(REQUEST, sink)
    assert answer.blocks == (TextBlock("Look"), ToolUseBlock("a", "find", {"q": 1}, '{"q":1}'))
    assert answer.usage == Usage(3, 4)
    assert sink.deltas[:2] == [TextDelta("Look"), ToolCallDelta(0, "a", "find", "")]


async def test_complete_returns_the_full_response() -> None:
    assert (await model(FakeExchange([HELLO])).complete(REQUEST)).text == "Hello"


async def test_a_full_sink_stops_the_reading() -> None:
    exchange = FakeExchange([HELLO[:-1], HELLO[-1:]])
    sink = CollectingSink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(model(exchange).stream, REQUEST, sink)
        await trio.testing.wait_all_tasks_blocked()
        assert (exchange.taken, sink.waited) == (0, 1)
        sink.room.set()
    assert exchange.taken == 2


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "url", "name"),
    [
        (BASE, f"{BASE}/v1/messages", BASE),
        (f" {BASE}/v1/ ", f"{BASE}/v1/messages", f"{BASE}/v1"),
        (f"{BASE}/v1/messages", f"{BASE}/v1/messages", f"{BASE}/v1/messages"),
        ("https://h/anthropic?k=1", "https://h/anthropic/v1/messages?k=1", "https://h/anthropic"),
        ("https://me:secret@h", "https://me:secret@h/v1/messages", "https://h"),
    ],
)
async def test_url_joins_base_url_and_path(base_url: str, url: str, name: str) -> None:
    exchange = FakeExchange([HELLO])
    asked = model(exchange, base_url)
    await asked.complete(REQUEST)
    assert (exchange.requests[0].url, asked.name) == (url, name)


@pytest.mark.parametrize("base_url", ["", "localhost:1234", "ftp://x", "http://", "http://[x"])
def test_non_http_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        AnthropicMessages(base_url=base_url)


class Options(TypedDict, total=False):
    base_url: str
    api_key: str
    version: str
    betas: list[str]
    headers: dict[str, str]


async def headers_of(**options: Unpack[Options]) -> dict[str, str]:
    exchange = FakeExchange([HELLO])
    await AnthropicMessages(exchange=exchange, **options).complete(REQUEST)
    return dict(exchange.requests[0].headers)


async def test_key_version_and_betas_are_headers() -> None:
    assert await headers_of(api_key="k", betas=["a", "b"]) == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "a,b",
        "x-api-key": "k",
    }
    bare = await headers_of(api_key="", version="", headers={"X-Api-Key": "own"})
    assert (bare["x-api-key"], "anthropic-version" in bare) == ("own", False)


@pytest.mark.feature("ASDK-021")
async def test_environment_key_stays_with_its_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "env")
    assert (await headers_of())["x-api-key"] == "env"
    assert (await headers_of(api_key="own"))["x-api-key"] == "own"
    for other in (BASE, "https://api.anthropic.com.example"):
        assert "x-api-key" not in await headers_of(base_url=other)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert "x-api-key" not in await headers_of()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_key": "secret\n"}, "the API key must be printable ASCII"),
        ({"headers": {"x-team": "a\r\nb"}}, "header 'x-team': its value"),
        ({"headers": {"x team": "a"}}, "'x team' is not a valid HTTP header name"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused(options: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        AnthropicMessages(**options)
    assert "secret" not in str(caught.value)


async def test_options_of_the_request_are_sent() -> None:
    exchange = FakeExchange([HELLO])
    asked = AnthropicMessages(
        exchange=exchange,
        max_tokens=9,
        cache=["messages"],
        cache_ttl="5m",
        server_tools=[{"type": "web_search_20250305", "name": "web_search"}],
        eager_tool_input=True,
        echo_unsigned_thinking=True,
    )
    await asked.complete(REQUEST)
    body = json.loads(exchange.requests[0].body)
    assert body["max_tokens"] == 9
    assert body["tools"] == [{"type": "web_search_20250305", "name": "web_search"}]
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}


# --- paused responses -----------------------------------------------------------------------------


async def test_paused_response_is_continued() -> None:
    search = [start(1, SEARCH), arguments("{}", 1)]
    paused = sse(begin(), *text_block("I look."), *search, *end("pause_turn"))
    more = sse(begin("msg_2"), *text_block("Found."), *call_block("{}", index=1), *end("tool_use"))
    exchange, sink = SequentialExchange(paused, more), CollectingSink.roomy()
    answer = await model(exchange).stream(REQUEST, sink)
    said = (TextBlock("I look."), OpaqueBlock(SEARCH, "anthropic"))
    assert answer.blocks == (*said, TextBlock("Found."), ToolUseBlock("a", "find", {}, "{}"))
    assert (answer.finish_reason, answer.usage) == ("tool_calls", Usage(6, 8))
    first, second = [json.loads(request.body)["messages"] for request in exchange.requests]
    content: list[JsonValue] = [{"type": "text", "text": "I look."}, SEARCH]
    assert second == [*first, {"role": "assistant", "content": content}]
    assert "".join(d.text for d in sink.deltas if isinstance(d, TextDelta)) == "I look.Found."


async def test_continuation_has_its_own_idempotency_key() -> None:
    paused = sse(begin(), *text_block("."), *end("pause_turn"))
    whole = sse(begin(), *text_block("!"), *end())
    for key, wanted in (("key", ["key", "key-1", "key-2"]), ("", [None, None, None])):
        exchange = SequentialExchange(paused, paused, whole)
        answer = await model(exchange).complete(attrs.evolve(REQUEST, idempotency_key=key))
        assert answer.text == "..!"
        assert [asked.headers.get("idempotency-key") for asked in exchange.requests] == wanted


async def test_continuations_are_bounded() -> None:
    paused = sse(begin(), *text_block("."), *end("pause_turn"))
    exchange = SequentialExchange(*[paused] * 9)
    asked = AnthropicMessages(exchange=exchange, max_continuations=2)
    answer = await asked.complete(REQUEST)
    assert (answer.text, answer.finish_reason) == ("...", "paused")
    assert len(exchange.requests) == 3


async def test_compaction_is_continued() -> None:
    """With `pause_after_compaction`, a response is only the summary of the conversation."""
    begun = start(0, {"type": "compaction", "content": None})
    summary = add(0, {"type": "compaction_delta", "content": "They said hello."})
    compacted = sse(begin(), begun, summary, stop(0), *end("compaction"))
    exchange = SequentialExchange(compacted, sse(begin(), *text_block("Hi"), *end()))
    answer = await model(exchange).complete(REQUEST)
    block: JsonObject = {"type": "compaction", "content": "They said hello."}
    assert answer.blocks == (OpaqueBlock(block, "anthropic"), TextBlock("Hi"))
    assert answer.finish_reason == "stop"
    messages = json.loads(exchange.requests[1].body)["messages"]
    assert messages[1] == {"role": "assistant", "content": [block]}


async def test_damage_of_each_part_is_counted() -> None:
    junk = b"data: {no json\n\n"
    parts = [junk + sse(begin(), *text_block("."), *end(reason)) for reason in ("pause_turn", "x")]
    answer = await model(SequentialExchange(*parts)).complete(REQUEST)
    assert (answer.text, answer.damaged_lines) == ("..", 2)


async def test_pause_with_tool_calls_awaits_results() -> None:
    exchange = SequentialExchange(sse(begin(), *call_block("{}"), *end("pause_turn")))
    answer = await model(exchange).complete(REQUEST)
    assert [block.type for block in answer.blocks] == ["tool_use"]


async def test_failure_during_continuation_is_raised() -> None:
    paused = sse(begin(), *text_block("."), *end("pause_turn"))
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ProviderInBandError, match="Overloaded"):
        await model(SequentialExchange(paused, sse(busy))).complete(REQUEST)


# --- token counts ---------------------------------------------------------------------------------


@pytest.mark.feature("ASDK-024")
async def test_tokens_are_counted_without_a_response() -> None:
    exchange = FakeExchange([b'{"input_', b'tokens": 12}'])
    assert await model(exchange, f"{BASE}/v1").count_tokens(REQUEST) == 12
    assert exchange.requests[0].url == f"{BASE}/v1/messages/count_tokens"
    assert json.loads(exchange.requests[0].body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello?"}],
    }


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"nonsense", b"{}", b'{"input_tokens": "x"}', b'{"input_tokens": true}']
)
async def test_missing_count_is_an_error(body: bytes) -> None:
    with pytest.raises(ProviderProtocolError, match="expected a token count"):
        await model(FakeExchange([body])).count_tokens(REQUEST)


async def test_count_failures_raise_like_responses() -> None:
    with pytest.raises(ProviderStatusError, match="HTTP 404: no such path"):
        await model(FakeExchange([b"no such path"], status=404)).count_tokens(REQUEST)
    with pytest.raises(ProviderInBandError, match="busy"):
        await model(FakeExchange([b'{"error": {"message": "busy"}}'])).count_tokens(REQUEST)
    with pytest.raises(ProviderProtocolError, match="without a response"):
        await model(FakeExchange(status=0)).count_tokens(REQUEST)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}',
            "model: x",
        ),
        (b"<html><title>502 Bad Gateway</title></html>", "502 Bad Gateway"),
        (b"", ""),
    ],
)
async def test_error_status_carries_body_message(body: bytes, message: str) -> None:
    exchange = FakeExchange([body], status=529, headers={"retry-after": "2"})
    with pytest.raises(ProviderStatusError) as caught:
        await model(exchange).complete(REQUEST)
    assert (caught.value.status, caught.value.body_message) == (529, message)
    assert caught.value.headers == {"retry-after": "2"}


async def test_long_error_body_is_truncated() -> None:
    exchange = FakeExchange([b"x" * 10_000] * 100, status=500)
    with pytest.raises(ProviderStatusError):
        await model(exchange).complete(REQUEST)
    assert exchange.taken == 7


async def test_redirects_are_not_followed() -> None:
    exchange = FakeExchange(status=307, headers={"location": "https://other"})
    with pytest.raises(ProviderStatusError, match="redirects to https://other"):
        await model(exchange).complete(REQUEST)
    with pytest.raises(ProviderStatusError, match="gone"):
        await model(FakeExchange([b"gone"], status=304)).complete(REQUEST)


async def test_html_page_at_200_is_an_error() -> None:
    exchange = FakeExchange([b"<html><title>Log in</title>"], headers={"content-type": "text/html"})
    with pytest.raises(ProviderProtocolError, match=r"content type 'text/html'\): Log in"):
        await model(exchange).complete(REQUEST)


async def test_exchange_without_head_is_no_response() -> None:
    with pytest.raises(ProviderProtocolError, match="ended without a response"):
        await model(FakeExchange(status=0)).complete(REQUEST)


# --- a real endpoint ------------------------------------------------------------------------------


async def test_caller_keeps_ownership_of_its_exchange() -> None:
    exchange = FakeExchange()
    await model(exchange).aclose()
    assert exchange.closed == 0
    async with ScriptedEndpoint(["Hello"]) as endpoint:
        asked = AnthropicMessages(base_url=endpoint.base_url)
        assert (await asked.complete(REQUEST)).text == "Hello"
        assert await asked.count_tokens(REQUEST) > 0
        await asked.aclose()
        await endpoint.wait_closed()
        with pytest.raises(ProviderConnectError, match="closed"):
            await asked.complete(REQUEST)


async def test_agent_survives_every_endpoint_failure() -> None:
    turn = reply(say("Let me look.", chunks=3), call("find", {"q": "é"}), split=[1, 7, 2])
    async with ScriptedEndpoint([status(429), html(), turn]) as endpoint:
        asked = AnthropicMessages(base_url=endpoint.base_url)
        with pytest.raises(ProviderStatusError):
            await asked.complete(REQUEST)
        with pytest.raises(ProviderProtocolError):
            await asked.complete(REQUEST)
        answer = await asked.complete(REQUEST)
        await asked.aclose()
    assert answer.text == "Let me look."
    assert [b.input for b in answer.blocks if isinstance(b, ToolUseBlock)] == [{"q": "é"}]
    assert endpoint.connections == 1


@pytest.mark.feature("ASDK-023")
async def test_signed_thinking_is_sent_back() -> None:
    @tool
    async def find(q: str) -> str:
        """Find it."""
        return f"found {q}"

    script = [
        reply(think("Hm", signature="seal"), call("find", {"q": "x"}), call("find", {"q": "y"})),
        reply(say("Done."), usage(30, 2, cache_read_tokens=20)),
    ]
    async with ScriptedEndpoint(script) as endpoint:
        provider = AnthropicMessages(base_url=endpoint.base_url)
        options = AgentOptions(
            model="m", provider=provider, tools=[find], system_prompt="Be brief."
        )
        async with open_runtime() as runtime:
            result = await runtime.run("Look", options)
        await provider.aclose()
    assert result.text == "Done."
    last = endpoint.requests[-1]
    assert [one["content"] for one in last.new_results] == ["found x", "found y"]
    assert last.body["system"] == "Be brief."
    _, said, results = last.messages
    content: Any = said["content"]
    assert content[0] == {"type": "thinking", "thinking": "Hm", "signature": "seal"}
    assert [part["type"] for part in content] == ["thinking", "tool_use", "tool_use"]
    assert results["role"] == "user"
