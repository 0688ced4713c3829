"""The default exchange for each endpoint."""

import pytest

from agent_actors.transport.backends.httpx_exchange import HttpxExchange
from agent_actors.transport.backends.native import HttpExchange
from agent_actors.transport.backends.select import make_exchange, uses_proxy

PROXY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({}, "http://host/v1", False),
        ({"HTTP_PROXY": PROXY}, "http://host/v1", True),
        ({"http_proxy": PROXY}, "http://host/v1", True),
        ({"HTTP_PROXY": PROXY}, "https://host/v1", False),
        ({"HTTPS_PROXY": PROXY}, "https://host/v1", True),
        ({"ALL_PROXY": PROXY}, "http://host/v1", True),
        ({"ALL_PROXY": PROXY}, "https://host/v1", True),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "host"}, "http://host/v1", False),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "host"}, "http://other/v1", True),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": ".example"}, "http://a.example:8/v1", False),
        ({"ALL_PROXY": PROXY, "NO_PROXY": "*"}, "http://host/v1", False),
        ({"HTTP_PROXY": ""}, "http://host/v1", False),
        ({"HTTP_PROXY": PROXY}, "not a url", False),
    ],
)
async def test_environment_proxy_selects_httpx(
    environment: dict[str, str], url: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert uses_proxy(url) is expected
    exchange = make_exchange(url, connect_timeout=1.0, max_connections=2)
    assert isinstance(exchange, HttpxExchange if expected else HttpExchange)
    await exchange.aclose()
