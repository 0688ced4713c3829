"""Choose the default exchange: the native engine, or httpx if a proxy is used."""

from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agent_actors.abc import ByteExchange
from agent_actors.transport.backends.native import HttpExchange
from agent_actors.transport.pool import DEFAULT_CONNECT_TIMEOUT, DEFAULT_MAX_CONNECTIONS


def make_exchange(
    url: str,
    *,
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
    max_connections: float = DEFAULT_MAX_CONNECTIONS,
) -> ByteExchange:
    """Create an exchange for an endpoint.

    Args:
        url: The destination. If the environment names a proxy for it (`HTTP_PROXY`, `HTTPS_PROXY`
            or `ALL_PROXY`, and `NO_PROXY` does not exclude it), httpx connects to that proxy.
        connect_timeout: The time limit for connecting, in seconds; `math.inf` for no limit.
        max_connections: The maximum number of concurrent requests; with a proxy, there is no limit.
    """
    if uses_proxy(url):
        # Importing httpx takes longer than importing trio, and few programs use a proxy.
        from agent_actors.transport.backends.httpx_exchange import HttpxExchange  # noqa: PLC0415

        return HttpxExchange(connect_timeout=connect_timeout)
    return HttpExchange(connect_timeout=connect_timeout, max_connections=max_connections)


def client_headers(exchange: ByteExchange | None) -> Mapping[str, str]:
    """Return the headers that a caller's own client adds to each request, if there is one."""
    if exchange is None or isinstance(exchange, HttpExchange):
        return {}
    from agent_actors.transport.backends.httpx_exchange import HttpxExchange  # noqa: PLC0415

    return exchange.client_headers if isinstance(exchange, HttpxExchange) else {}


def uses_proxy(url: str) -> bool:
    """Return whether the environment names a proxy for this URL."""
    parts = urlsplit(url)
    proxies = getproxies()
    named = parts.scheme in proxies or "all" in proxies
    return named and not proxy_bypass(parts.hostname or "")
