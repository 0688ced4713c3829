import json
from typing import TypedDict, Unpack

import pytest
import trio
import trio.testing

from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    ModelDelta,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import (
    ConfigError,
    ProviderConnectError,
    ProviderInBandError,
    ProviderProtocolError,
    ProviderStatusError,
)
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.providers.openai_chat import OpenAIChat
from agent_actors.testing import ScriptedEndpoint, call, html, reply, say, status
from tests.providers.openai_chat.answers import DONE, REQUEST, calls, chunk, entry, sse, text
from tests.providers.openai_chat.fake_exchange import FakeExchange
from tests.providers.sinks import CollectingSink

BASE = "http://localhost:1234/v1"
HELLO = sse(text("Hel"), text("lo"), chunk({}, "stop"))


def model(exchange: FakeExchange, base_url: str = BASE, api_key: str = "k") -> OpenAIChat:
    return OpenAIChat(base_url=base_url, exchange=exchange, api_key=api_key)


@pytest.mark.feature("WICK-080", "ASDK-018", "OAGS-041", "OAS-074")
async def test_stream_shows_deltas_and_returns_response() -> None:
    body = sse(
        text("Look"),
        calls(entry(0, "a", "find", '{"q":1}')),
        chunk({}, "tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
    )
    sink = CollectingSink.roomy()
    answer = await model(FakeExchange([body])).stream(REQUEST, sink)
    assert sink.deltas == [
        TextDelta("Look"),
        ToolCallDelta(0, "a", "find", '{"q":1}'),
        UsageDelta(Usage(3, 4)),
    ]
    assert answer.blocks == (TextBlock("Look"), ToolUseBlock("a", "find", {"q": 1}, '{"q":1}'))
    assert (answer.usage, answer.finish_reason) == (Usage(3, 4), "tool_calls")


async def test_each_read_shows_its_deltas() -> None:
    reads = [sse(text("a"), text("b"), done=False), b": ping\n\n", sse(text(""), text("c"))]
    sink = CollectingSink.roomy()
    await model(FakeExchange(reads)).stream(REQUEST, sink)
    assert sink.batches == [[TextDelta("a"), TextDelta("b")], [TextDelta("c")]]


async def test_withheld_text_is_shown_before_return() -> None:
    sink = CollectingSink.roomy()
    await model(FakeExchange([sse(text("so"), text("so on"), chunk({}, "stop"))])).stream(
        REQUEST, sink
    )
    assert sink.batches == [[TextDelta("so")], [TextDelta("so on")]]


@pytest.mark.feature("WICK-079", "ASDK-018")
async def test_complete_returns_the_full_response() -> None:
    answer = await model(FakeExchange([HELLO])).complete(REQUEST)
    assert answer.text == "Hello"


async def test_a_full_sink_stops_the_reading() -> None:
    exchange = FakeExchange([sse(text("a"), done=False), DONE])
    sink = CollectingSink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(model(exchange).stream, REQUEST, sink)
        await trio.testing.wait_all_tasks_blocked()
        assert (exchange.taken, sink.waited) == (0, 1)
        sink.room.set()
    assert exchange.taken == 2


async def test_sink_error_ends_the_stream() -> None:
    class Full(Exception):
        pass

    class Raising(CollectingSink):
        def feed(self, deltas: object) -> None:
            raise Full

    sink = Raising()
    sink.room.set()
    with pytest.raises(Full):
        await model(FakeExchange([HELLO])).stream(REQUEST, sink)


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.feature("OAGS-042", "OAS-075")
@pytest.mark.parametrize(
    ("base_url", "url", "name"),
    [
        (BASE, f"{BASE}/chat/completions", BASE),
        (f"{BASE}/", f"{BASE}/chat/completions", BASE),
        (f" {BASE}// ", f"{BASE}/chat/completions", BASE),
        (f"{BASE}/chat/completions", f"{BASE}/chat/completions", f"{BASE}/chat/completions"),
        ("HTTP://host", "http://host/chat/completions", "http://host"),
        (
            "https://gw.example/openai/deployments/d?api-version=1",
            "https://gw.example/openai/deployments/d/chat/completions?api-version=1",
            "https://gw.example/openai/deployments/d",
        ),
        (
            "https://me:secret@gw.example/v1",
            "https://me:secret@gw.example/v1/chat/completions",
            "https://gw.example/v1",
        ),
    ],
)
async def test_url_joins_base_url_and_path(base_url: str, url: str, name: str) -> None:
    exchange = FakeExchange([HELLO])
    chat = model(exchange, base_url)
    await chat.complete(REQUEST)
    assert exchange.requests[0].url == url
    assert chat.name == name


@pytest.mark.parametrize(
    "base_url", ["", "localhost:1234/v1", "ftp://x/v1", "http://", "http://h:99999/", "http://[x"]
)
def test_non_http_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIChat(base_url=base_url)


class Options(TypedDict, total=False):
    api_key: str
    api_key_header: str
    headers: dict[str, str]


async def headers_of(**options: Unpack[Options]) -> dict[str, str]:
    exchange = FakeExchange([HELLO])
    await OpenAIChat(base_url=BASE, exchange=exchange, **options).complete(REQUEST)
    return dict(exchange.requests[0].headers)


@pytest.mark.feature("OAS-011")
async def test_without_a_key_a_placeholder_is_sent() -> None:
    assert await headers_of() == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "authorization": "Bearer not-needed",
    }


async def test_an_empty_key_is_not_sent() -> None:
    assert "authorization" not in await headers_of(api_key="")


@pytest.mark.feature("OAGS-043")
async def test_custom_key_header_is_bare() -> None:
    headers = await headers_of(api_key="secret", api_key_header="X-Api-Key")
    assert headers["x-api-key"] == "secret"
    assert "authorization" not in headers


async def test_own_headers_win_in_any_case() -> None:
    headers = await headers_of(headers={"X-Team": "a", "Authorization": "Basic x"})
    assert (headers["x-team"], headers["authorization"]) == ("a", "Basic x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_key": "secret\n"}, "the API key must be printable ASCII"),
        ({"api_key": "s\u00e9cret"}, "the API key must be printable ASCII"),
        ({"headers": {"x-team": "a\r\nb"}}, "header 'x-team': its value"),
        ({"headers": {"x team": "a"}}, "'x team' is not a valid HTTP header name"),
        ({"headers": {"": "a"}}, "'' is not a valid HTTP header name"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused(options: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        OpenAIChat(base_url=BASE, **options)
    assert "secret" not in str(caught.value)


async def test_usage_is_requested_by_default() -> None:
    for include in (True, False):
        exchange = FakeExchange([HELLO])
        chat = OpenAIChat(
            base_url=BASE, exchange=exchange, dialect=ChatDialect(include_usage=include)
        )
        await chat.complete(REQUEST)
        assert ("stream_options" in json.loads(exchange.requests[0].body)) is include


async def test_reasoning_is_echoed_on_request() -> None:
    messages = Messages().user("x").assistant([ThinkingBlock("Hm"), TextBlock("y")]).user("z")
    exchange = FakeExchange([HELLO])
    chat = OpenAIChat(
        base_url=BASE, exchange=exchange, dialect=ChatDialect(echo_reasoning="reasoning_content")
    )
    await chat.complete(ModelRequest(messages, ModelSettings("m")))
    sent = json.loads(exchange.requests[0].body)["messages"][1]
    assert sent["reasoning_content"] == "Hm"


async def test_an_endpoint_can_be_declared_cumulative() -> None:
    body = sse(text("a"), text("ab"), text("ab"), chunk({}, "stop"))
    chat = OpenAIChat(
        base_url=BASE, exchange=FakeExchange([body]), dialect=ChatDialect(cumulative=True)
    )
    assert (await chat.complete(REQUEST)).text == "ab"


# --- errors ---------------------------------------------------------------------------------------


async def status_error(body: bytes, code: int = 400, **headers: str) -> ProviderStatusError:
    reads = [body[at : at + 1000] for at in range(0, len(body), 1000)]
    with pytest.raises(ProviderStatusError) as caught:
        await model(FakeExchange(reads, status=code, headers=headers)).complete(REQUEST)
    assert caught.value.endpoint == BASE
    return caught.value


@pytest.mark.feature("OAS-073")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "no such model", "code": "x"}}', "no such model"),
        (b'{"error": "no such model"}', "no such model"),
        (b'{"message": "no such model"}', "no such model"),
        (
            b'{"detail": [{"msg": "field required"}, {"msg": "too long"}]}',
            "field required; too long",
        ),
        (b'[{"error": {"message": "no such model"}}]', "no such model"),
        (b'{"unknown": 1}', '{"unknown": 1}'),
        (b'{"broken', '{"broken'),
        (b'"no such model"', "no such model"),
        (b" plain text \n", "plain text"),
        (b"<html><head><title>502 Bad\nGateway</title></head></html>", "502 Bad Gateway"),
        (b"<html><body><h1>Oops</h1></body></html>", "Oops"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", ""),
    ],
)
async def test_error_status_carries_body_message(body: bytes, message: str) -> None:
    error = await status_error(body, 404, **{"retry-after": "2"})
    assert (error.status, error.body_message) == (404, message)
    assert error.headers == {"retry-after": "2"}


async def test_long_error_body_is_truncated() -> None:
    exchange = FakeExchange([b"x" * 10_000] * 100, status=500)
    with pytest.raises(ProviderStatusError) as caught:
        await model(exchange).complete(REQUEST)
    assert exchange.taken == 7
    assert caught.value.body_message == "x" * 500


async def test_redirects_are_not_followed() -> None:
    error = await status_error(b"", 307, location="https://other/v1")
    assert "redirects to https://other/v1" in error.body_message
    assert (await status_error(b"gone", 304)).body_message == "gone"


@pytest.mark.feature("OAS-073")
async def test_in_stream_error_names_endpoint() -> None:
    chat = model(FakeExchange([sse({"error": {"message": "overloaded", "code": 529}})]))
    with pytest.raises(ProviderInBandError, match=f"^{BASE}: overloaded$"):
        await chat.complete(REQUEST)


async def test_broken_connection_error_is_unchanged() -> None:
    broken = ProviderConnectError("the connection broke", endpoint=BASE)
    sink = CollectingSink.roomy()
    with pytest.raises(ProviderConnectError) as caught:
        await model(FakeExchange([sse(text("a"), done=False), broken])).stream(REQUEST, sink)
    assert caught.value is broken
    deltas: list[ModelDelta] = [TextDelta("a")]
    assert sink.deltas == deltas


async def test_html_page_at_200_is_an_error() -> None:
    exchange = FakeExchange([b"<html><title>Log in</title>"], headers={"content-type": "text/html"})
    with pytest.raises(ProviderProtocolError, match=r"content type 'text/html'\): Log in"):
        await model(exchange).complete(REQUEST)


async def test_exchange_without_head_is_no_response() -> None:
    with pytest.raises(ProviderProtocolError, match="ended without a response"):
        await model(FakeExchange(status=0)).complete(REQUEST)


# --- connections ----------------------------------------------------------------------------------


async def test_the_callers_exchange_is_not_closed() -> None:
    exchange = FakeExchange()
    await model(exchange).aclose()
    assert exchange.closed == 0


async def test_its_own_exchange_is_closed() -> None:
    async with ScriptedEndpoint(["Hello", "Hello"]) as endpoint:
        chat = OpenAIChat(base_url=endpoint.base_url)
        assert (await chat.complete(REQUEST)).text == "Hello"
        statistics = chat.statistics()
        assert (statistics.live, statistics.begun) == (0, 1)
        assert statistics.connections is not None
        assert statistics.connections.opened == 1
        await chat.aclose()
        await chat.aclose()
        await endpoint.wait_closed()
        with pytest.raises(ProviderConnectError, match="closed"):
            await chat.complete(REQUEST)


@pytest.mark.feature("OAGS-042")
async def test_agent_survives_every_endpoint_failure() -> None:
    turn = reply(say("Let me look.", chunks=3), call("find", {"q": "é"}), split=[1, 7, 2])
    async with ScriptedEndpoint([status(429), html(), turn]) as endpoint:
        chat = OpenAIChat(base_url=endpoint.base_url)
        with pytest.raises(ProviderStatusError):
            await chat.complete(REQUEST)
        with pytest.raises(ProviderProtocolError):
            await chat.complete(REQUEST)
        answer = await chat.complete(REQUEST)
        await chat.aclose()
    assert answer.text == "Let me look."
    assert [b.input for b in answer.blocks if isinstance(b, ToolUseBlock)] == [{"q": "é"}]
    assert not answer.usage.estimated
    assert endpoint.connections == 1
