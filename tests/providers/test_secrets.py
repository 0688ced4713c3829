"""Endpoints that repeat the credentials of a request in their errors."""

import base64
import json
import traceback
from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors import AgentOptions, open_runtime
from agent_actors.domain.events import ErrorEvent, StreamNotice
from agent_actors.domain.model import NoticeDelta
from agent_actors.errors import ProviderConnectError, ProviderError, ProviderStatusError
from agent_actors.model import AnthropicMessages, OpenAIChat
from agent_actors.providers.secrets import REDACTED, Secrets
from agent_actors.testing import EndpointRequest, Reply, ScriptedEndpoint, body, status
from agent_actors.transport.backends.httpx_exchange import HttpxExchange
from tests.providers.openai_chat.answers import REQUEST
from tests.providers.openai_chat.fake_exchange import FakeExchange
from tests.providers.sinks import CollectingSink

KEY = 'sk-proj-a"b/c\\defghijklmnopqrstuvwxyz'
BASE = "http://h/v1"
NO_BASE = urlsplit(BASE)
SIGV4 = (
    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20240101/us-east-1, "
    "SignedHeaders=content-type;x-amz-date"
)
DIGEST = (
    'Digest username="someone@example", realm="realm-of-users", uri="/v1/chat/completions", '
    "algorithm=SHA-256-sess, nc=00000001, qop=auth"
)

Make = Callable[..., OpenAIChat | AnthropicMessages]
both = pytest.mark.parametrize("make", [OpenAIChat, AnthropicMessages])

ECHOES: list[tuple[int, bytes]] = [
    (401, json.dumps({"error": {"message": f"bad key {KEY}!"}}).encode()),
    (401, f"<html><body>bad key {KEY}</body></html>".encode()),
    (401, b"x" * 480 + KEY.encode()),
    (401, json.dumps({"headers": {"authorization": f"Bearer {KEY}"}}).encode()),
    (302, b""),
    (200, json.dumps({"error": {"message": f"bad key {KEY}", "code": KEY}}).encode()),
    (200, b"data: " + json.dumps({"error": f"bad key {KEY}"}).encode() + b"\n\n"),
    (200, f"event: error\ndata: bad key {KEY}\n\n".encode()),
    (200, f"<html>bad key {KEY}</html>".encode()),
    (200, f"data: {KEY}\n\n".encode()),
    (200, f"data: {KEY}".encode() + b"x" * 10_000),
]


def hidden(text: str) -> bool:
    """Return whether a text contains no recognizable part of the key."""
    forms = (KEY, json.dumps(KEY), repr(KEY), quote(KEY))
    return not any(form.strip("'\"")[:13] in text for form in forms)


@both
@pytest.mark.parametrize(("code", "echo"), ECHOES)
async def test_echoed_key_is_not_in_errors(make: Make, code: int, echo: bytes) -> None:
    exchange = FakeExchange(
        [echo], status=code, headers={"location": f"http://h/?key={KEY}", "x-echo": KEY}
    )
    provider = make(base_url=BASE, api_key=KEY, exchange=exchange, max_line_bytes=9000)
    with pytest.raises(ProviderError) as caught:
        await provider.complete(REQUEST)
    error = caught.value
    assert REDACTED in str(error)
    assert hidden("".join(traceback.format_exception(error)))
    assert hidden(repr(vars(error)))


async def test_echoed_key_is_not_in_counting_errors() -> None:
    exchange = FakeExchange([KEY.encode()], status=401)
    with pytest.raises(ProviderStatusError) as caught:
        await AnthropicMessages(base_url=BASE, api_key=KEY, exchange=exchange).count_tokens(REQUEST)
    assert caught.value.body_message == REDACTED


@both
async def test_causes_and_notes_are_redacted_too(make: Make) -> None:
    error = ProviderConnectError("broke", endpoint="e")
    group = ExceptionGroup("several", [ValueError(KEY), error])
    error.__cause__ = OSError(KEY)
    error.__cause__.__context__ = group
    error.add_note(f"sent {KEY}")
    exchange = FakeExchange([error])
    with pytest.raises(ProviderConnectError) as caught:
        await make(base_url=BASE, api_key=KEY, exchange=exchange).complete(REQUEST)
    assert caught.value is error
    assert caught.value.__notes__ == [f"sent {REDACTED}"]
    assert hidden("".join(traceback.format_exception(error)))


class Mine(Exception):
    """A caller's own exception, with a value."""

    values: list[str]


async def test_exceptions_of_callers_keep_their_values() -> None:
    values = [KEY[:5]]
    mine = Mine()
    mine.values = values
    error = ProviderConnectError("broke", endpoint="e")
    error.__context__ = mine
    Secrets(KEY, {}, NO_BASE).hide(error)
    assert mine.values is values


@both
async def test_notices_hide_keys_and_deltas_do_not(make: Make) -> None:
    lines = [f"data: {KEY}\n\n", "data: {"]
    text = {"choices": [{"delta": {"content": KEY}, "finish_reason": "stop"}]}
    lines.insert(1, f"data: {json.dumps(text)}\n\n")
    sink = CollectingSink.roomy()
    provider = make(base_url=BASE, api_key=KEY, exchange=FakeExchange(["".join(lines).encode()]))
    if make is OpenAIChat:
        answer = await provider.stream(REQUEST, sink)
        assert answer.text == KEY
    else:
        with pytest.raises(ProviderError):
            await provider.stream(REQUEST, sink)
    notices = [delta.text for delta in sink.deltas if isinstance(delta, NoticeDelta)]
    assert any(REDACTED in notice for notice in notices)
    assert all(hidden(notice) for notice in notices)


@pytest.mark.parametrize(
    ("headers", "base", "secret"),
    [
        ({"authorization": "Basic dXNlcjpwYXNzd29yZA=="}, BASE, "dXNlcjpwYXNzd29yZA"),
        ({"authorization": "Basic dXNlcjpwYXNzd29yZA=="}, BASE, "password"),
        ({"authorization": "Basic dXNlcjpwYTo0"}, BASE, "pa:4"),
        ({"authorization": 'Token token="abcdefghij"'}, BASE, "abcdefghij"),
        ({"authorization": "abcdefghij"}, BASE, "abcdefghij"),
        ({"authorization": "Basic @@@ abcdefghij"}, BASE, "abcdefghij"),
        ({"authorization": f"{SIGV4}, Signature=abcdefghij"}, BASE, "abcdefghij"),
        ({"authorization": f'{DIGEST}, response="abcdefghij"'}, BASE, "abcdefghij"),
        ({"set-cookie": "session=abcdefghij; Path=/v1/chat/"}, BASE, "abcdefghij"),
        ({"x-gateway-token": "gw-1234567890"}, BASE, "gw-1234567890"),
        ({"cookie": "a=1; session=abcdefghij"}, BASE, "abcdefghij"),
        ({}, f"{BASE}?api-version=2024-10-21&key=AIzaSy1234567", "AIzaSy1234567"),
        ({}, "http://me:p%40ssword@h/v1", "p@ssword"),
    ],
)
def test_configured_credentials_are_secrets(
    headers: dict[str, str], base: str, secret: str
) -> None:
    secrets = Secrets("", headers, urlsplit(base))
    assert secrets.redact(f"me: Bearer {secret}. 2024-10-21") == (
        f"me: Bearer {REDACTED}. 2024-10-21"
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"{SIGV4}, Signature=zyxwvutsrq"},
        {"authorization": f'{DIGEST}, response="zyxwvutsrq"'},
        {"authorization": "Basic dXNlcjp4"},
        {"cookie": "long_cookie_name=1"},
        {"set-cookie": "session=zyxwvutsrq; Path=/v1/chat/completions; SameSite=Strict-Mode"},
        {"idempotency-key": "0199-abcdefghij"},
    ],
)
def test_public_parts_of_headers_are_shown(headers: dict[str, str]) -> None:
    """An error message may contain these words and names for other reasons."""
    text = (
        "AWS4-HMAC-SHA256 Credential SignedHeaders x-amz-date;content-type Signature algorithm "
        "SHA-256-sess someone@example username response opaque /v1/chat/completions realm-of-users "
        "long_cookie_name Strict-Mode 0199-abcdefghij x: dXNlcjp"
    )
    assert Secrets("", headers, NO_BASE).redact(text) == text


class Rotating(httpx.Auth):
    """Authentication that first requests a token, and then sends it."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        token = yield httpx.Request(
            "POST", request.url.join("/token"), headers={"authorization": "Basic aWQ6Y2xpZW50LXB3"}
        )
        again = httpx.Request(request.method, request.url, content=b"{}")
        again.headers["authorization"] = f"Bearer token-{token.status_code}-of-the-flow"
        yield again


async def sign(request: httpx.Request) -> None:
    """Add a credential to a request; an event hook."""
    request.headers["x-signature"] = "signed-by-the-hook"


def echo_credentials(request: EndpointRequest) -> Reply:
    """Grant a cookie, and repeat all credentials that the endpoint has ever seen."""
    granted = {"set-cookie": "granted=cookie-of-the-endpoint; Path=/"}
    if request.path == "/token":
        return status(200, "", headers=granted)
    kind, _, encoded = request.headers.get("authorization", "").partition(" ")
    read = base64.b64decode(encoded).decode() if kind == "Basic" else ""
    text = f"refused: {dict(request.headers)} {read} {request.path} client-pw {granted}"
    return status(401, {"error": {"message": text}}, headers=granted)


@both
@pytest.mark.parametrize(
    ("settings", "secrets"),
    [
        ({"auth": ("me", "my-password")}, ["my-password", "bWU6bXktcGFzc3dvcmQ"]),
        ({"auth": Rotating()}, ["token-200-of-the-flow", "client-pw", "cookie-of-the-endpoint"]),
        ({"cookies": {"session": "cookie-of-the-client"}}, ["cookie-of-the-client"]),
        ({"params": {"key": "key-in-the-query"}}, ["key-in-the-query"]),
        ({"event_hooks": {"request": [sign]}}, ["signed-by-the-hook"]),
    ],
)
async def test_credentials_that_clients_add_are_secrets(
    make: Make, settings: dict[str, Any], secrets: list[str]
) -> None:
    async with (
        ScriptedEndpoint(echo_credentials) as endpoint,
        httpx.AsyncClient(**settings) as client,
    ):
        provider = make(base_url=endpoint.base_url, exchange=HttpxExchange(client=client))
        with pytest.raises(ProviderError) as caught:
            await provider.complete(REQUEST)
    error = caught.value
    shown = "".join(traceback.format_exception(error)) + repr(vars(error))
    assert "refused: " in shown
    assert REDACTED in shown
    assert [secret for secret in secrets if secret in shown] == []


async def test_credentials_of_failed_requests_are_secrets() -> None:
    """The client's transport may repeat a credential in the reason of its failure."""

    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"no route for {request.headers['authorization']}")

    transport = httpx.MockTransport(fail)
    async with httpx.AsyncClient(transport=transport, auth=("me", "my-password")) as client:
        chat = OpenAIChat(base_url=BASE, exchange=HttpxExchange(client=client))
        with pytest.raises(ProviderConnectError, match="no route for") as caught:
            await chat.complete(REQUEST)
    assert "bWU6bXktcGFzc3dvcmQ" not in "".join(traceback.format_exception(caught.value))


def test_latest_learned_credentials_are_kept() -> None:
    """A client that replaces its token for each request does not fill the memory."""
    secrets = Secrets("", {}, NO_BASE)
    tokens = [f"{number:04}-token-of-a-client" for number in range(1000)]
    for token in tokens:
        secrets.learn(BASE, {"authorization": f"Bearer {token}", "x-token": tokens[0]})
    text = secrets.redact(" ".join(tokens[number] for number in (0, 1, 998, 999)))
    assert text == f"{REDACTED} {tokens[1]} {REDACTED} {REDACTED}"


def test_placeholder_in_headers_is_not_learned() -> None:
    secrets = Secrets("not-needed", {}, NO_BASE)
    secrets.learn(BASE, {"authorization": "Bearer not-needed"})
    assert secrets.redact("a key is not-needed") == "a key is not-needed"


async def test_headers_of_a_client_are_secrets() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(401, text=request.headers["x-api-key"])

    async with httpx.AsyncClient(
        transport=httpx.MockTransport(refuse), headers={"x-api-key": KEY}
    ) as client:
        chat = OpenAIChat(base_url=BASE, exchange=HttpxExchange(client=client))
        with pytest.raises(ProviderStatusError) as caught:
            await chat.complete(REQUEST)
    assert caught.value.body_message == REDACTED


@pytest.mark.parametrize("key", ["", "x", "not-needed"])
def test_placeholders_are_not_secrets(key: str) -> None:
    text = "x is not-needed: the key is empty"
    assert Secrets(key, {"authorization": f"Bearer {key}"}, NO_BASE).redact(text) == text


def test_short_keys_are_replaced_as_words() -> None:
    secrets = Secrets("test", {}, NO_BASE)
    assert secrets.redact("test: tests with_test test") == (
        f"{REDACTED}: tests with_{REDACTED} {REDACTED}"
    )


@given(before=st.text(), cut=st.integers(12, 40), after=st.text(), times=st.integers(1, 3))
def test_cut_keys_are_replaced(before: str, cut: int, after: str, times: int) -> None:
    key = "0123456789-a-long-key-of-forty-letters-x"
    text = Secrets(key, {}, NO_BASE).redact((before + key[:cut]) * times + after)
    assert key[:12] not in text
    assert text.startswith(before + REDACTED)


async def test_echoed_key_stays_out_of_the_session() -> None:
    seen: list[object] = []

    async def note(event: object) -> None:
        seen.append(event)

    damaged = body(f"data: {KEY}\n\ndata: [DONE]\n\n".encode())
    async with (
        ScriptedEndpoint([status(500, KEY.encode()), damaged]) as endpoint,
        open_runtime() as runtime,
    ):
        agent = AgentOptions(model="m", base_url=endpoint.base_url, api_key=KEY, max_retries=1)
        runtime.subscribe(note)
        with pytest.raises(ProviderError):
            await runtime.run("Go.", agent, session_id="s")
        records = await runtime.sessions.records("s")
    assert any(isinstance(event, StreamNotice) and REDACTED in event.text for event in seen)
    assert isinstance(records[-1], ErrorEvent)
    assert hidden(repr((seen, records)))
