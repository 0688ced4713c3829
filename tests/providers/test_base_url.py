"""Failures that are probably caused by a wrong base URL."""

from collections.abc import Callable

import pytest

from agent_actors.abc import ModelProvider
from agent_actors.errors import ConfigError, ProviderError
from agent_actors.model import AnthropicMessages, OpenAIChat
from tests.providers.openai_chat.answers import REQUEST
from tests.providers.openai_chat.fake_exchange import FakeExchange

PAGE = b"<html><title>Chats</title></html>"
LM_STUDIO = b'{"error": "Unexpected endpoint or method. (POST /chat/completions)"}'


async def message(provider: ModelProvider) -> str:
    with pytest.raises(ProviderError) as caught:
        await provider.complete(REQUEST)
    return str(caught.value)


@pytest.mark.parametrize("path", ["", "/", "/api", "/chat/completions"])
@pytest.mark.parametrize(
    ("body", "status"), [(b"404 page not found", 404), (b"", 405), (LM_STUDIO, 200), (PAGE, 200)]
)
async def test_missing_version_is_suggested(body: bytes, status: int, path: str) -> None:
    exchange = FakeExchange([body], status=status)
    url = f"http://me:pass@h:1{path}?key=secret"
    text = await message(OpenAIChat(base_url=url, exchange=exchange))
    asked = "/api/chat/completions" if path == "/api" else "/chat/completions"
    root = "http://h:1/api" if path == "/api" else "http://h:1"
    assert text.endswith(
        f"(the request was POST http://h:1{asked}; base_url may lack a version: try {root}/v1)"
    )


@pytest.mark.parametrize("path", ["/v1", "/api/v2/", "/v1beta/openai", "/v1/chat/completions"])
async def test_known_version_is_not_doubled(path: str) -> None:
    exchange = FakeExchange([b"no such path"], status=404)
    text = await message(OpenAIChat(base_url=f"http://h{path}", exchange=exchange))
    whole = path.rstrip("/").removesuffix("/chat/completions") + "/chat/completions"
    assert text.endswith(f"HTTP 404: no such path (the request was POST http://h{whole})")


async def test_other_protocol_names_its_url() -> None:
    def provider(body: bytes, status: int = 404) -> AnthropicMessages:
        return AnthropicMessages(base_url="http://h", exchange=FakeExchange([body], status=status))

    hint = "(the request was POST http://h/v1/messages)"
    assert (await message(provider(b"no such path"))).endswith(hint)
    assert (await message(provider(PAGE, 200))).endswith(hint)
    with pytest.raises(ProviderError, match="POST http://h/v1/messages/count_tokens"):
        await provider(b"no such path").count_tokens(REQUEST)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"error": {"message": "The model `m` does not exist"}}', 404),
        (b"no such path", 500),
        (b'{"error": {"message": "overloaded"}}', 200),
        (b"data: x\n\n", 200),
    ],
)
async def test_other_failures_get_no_hint(body: bytes, status: int) -> None:
    exchange = FakeExchange([body], status=status)
    assert "POST" not in await message(OpenAIChat(base_url="http://h", exchange=exchange))


# --- limits on a stream ---------------------------------------------------------------------------

Make = Callable[..., ModelProvider]


@pytest.mark.parametrize("make", [OpenAIChat, AnthropicMessages])
@pytest.mark.parametrize("option", ["max_line_bytes", "max_event_bytes"])
async def test_stream_limits_name_their_option(make: Make, option: str) -> None:
    exchange = FakeExchange([b"data: 1234567890\n\n"])
    provider = make(base_url="http://h/v1", exchange=exchange, **{option: 8})
    text = await message(provider)
    assert text.endswith(f"raise {option}, which is an option of {make.__name__}")
    with pytest.raises(ProviderError, match="contained no response"):
        await make(base_url="http://h/v1", exchange=exchange).complete(REQUEST)
    with pytest.raises(ConfigError, match=f"{make.__name__}: {option} must be at least 1 byte"):
        make(base_url="http://h/v1", **{option: 0})
