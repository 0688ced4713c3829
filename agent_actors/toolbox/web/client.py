"""The HTTP client of the web tools: limits on size and time, and no way to a private network.

Without a client of the caller, each request uses the runtime's own HTTP engine, which resolves a
host once, checks all of its addresses and connects to a checked address. A host name that changes
its address in between (DNS rebinding) therefore gains nothing. A caller's client connects by
itself; then only the URL is checked.
"""

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import attrs
import trio

from agent_actors.abc import ByteExchange, HttpRequest
from agent_actors.codec.json_text import NotJsonError, read_json
from agent_actors.domain.json import JsonValue
from agent_actors.domain.workspace.report import Network
from agent_actors.errors import ConfigError, ProviderError
from agent_actors.toolbox.web.urls import (
    WebError,
    WebUrl,
    read_url,
    refuse_host,
    refuse_private_host,
)
from agent_actors.transport.addresses import find_address_error
from agent_actors.transport.backends.httpx_exchange import HttpxExchange
from agent_actors.transport.backends.native import HttpExchange

if TYPE_CHECKING:
    import httpx

WebTransport: TypeAlias = "HttpExchange | HttpxExchange | httpx.AsyncClient"
"""A caller's own HTTP client."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_HEAD: Final = 64 * 1024


@attrs.frozen(kw_only=True)
class WebLimits:
    """The limits of one request, including its redirects.

    Attributes:
        timeout: Maximum duration in seconds.
        max_bytes: Maximum size of the decoded body; the rest is discarded.
        max_redirects: Maximum number of redirects that are followed.
    """

    timeout: float = 30.0
    max_bytes: int = 5_000_000
    max_redirects: int = 5

    def __attrs_post_init__(self) -> None:
        if self.timeout <= 0 or self.max_bytes < 1 or self.max_redirects < 0:
            raise ConfigError(
                "WebLimits: timeout and max_bytes must be positive, and max_redirects must not be "
                f"negative; got {self.timeout!r}, {self.max_bytes!r} and {self.max_redirects!r}"
            )


@attrs.frozen
class WebResponse:
    """A response.

    Attributes:
        url: The URL of the response, after redirects.
        status: The HTTP status.
        headers: The headers; names in lower case.
        body: The decoded body, at most `WebLimits.max_bytes`.
        truncated: True if the body was longer.
        hosts: All hosts that were requested, in order.
    """

    url: WebUrl
    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool
    hosts: tuple[str, ...] = ()

    def json(self) -> JsonValue:
        """Return the value of a JSON body; None if the body is not JSON."""
        try:
            return read_json(self.body)
        except NotJsonError:
            return None


class WebClient:
    """Sends requests of web tools.

    Args:
        allow_private_networks: True to allow hosts that are not public.
        limits: The limits of each request.
        transport: The caller's own client; by default, the runtime's HTTP engine.
    """

    def __init__(
        self,
        *,
        allow_private_networks: bool = False,
        limits: WebLimits | None = None,
        transport: "WebTransport | None" = None,
    ) -> None:
        self._private = allow_private_networks
        self._limits = limits or WebLimits()
        self._transport = transport

    async def get(self, url: str, *, network: Network = True) -> WebResponse:
        """Request a page.

        A redirect to another host is returned and not followed, because the agent's permissions
        may differ for that host. `www.` does not make a host another one.

        Raises:
            WebError: The URL is not allowed, or the request failed.

        Cancellation: closes the connection.
        """
        return await self._send(_Message("GET", {"accept": _ACCEPT}, b"", network), url)

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, network: Network = True
    ) -> WebResponse:
        """Send a body to a URL; redirects are not followed.

        Raises:
            WebError: The URL is not allowed, or the request failed.

        Cancellation: closes the connection.
        """
        return await self._send(_Message("POST", headers, body, network), url)

    async def _send(self, message: "_Message", url: str) -> WebResponse:
        first = self._allowed(read_url(url), message)
        exchange, owned = self._exchange()
        try:
            with trio.move_on_after(self._limits.timeout):
                return await self._follow(exchange, message, first)
        except ProviderError as error:
            raise WebError(str(error)) from error
        finally:
            if owned:
                with trio.CancelScope(shield=True):
                    await exchange.aclose()
        raise WebError(f"{first.host} did not respond completely within {self._limits.timeout:g} s")

    async def _follow(
        self, exchange: ByteExchange, message: "_Message", url: WebUrl
    ) -> WebResponse:
        hosts = [url.host]
        for _ in range(self._limits.max_redirects + 1):
            collector = _Collector(self._limits.max_bytes, decode=self._transport is None)
            request = HttpRequest(url.text, message.headers, message.body, message.method)
            await exchange.exchange(request, collector)
            response = collector.response(url, tuple(hosts))
            target = redirect_of(response)
            if message.method != "GET" or target is None:
                return response
            self._allowed(target, message)
            if _site(target) != _site(url) or (url.secure and not target.secure):
                return response
            url = target
            hosts.append(url.host)
        raise WebError(
            f"more than {self._limits.max_redirects} redirects, the last of them to {url.text!r}"
        )

    def _allowed(self, url: WebUrl, message: "_Message") -> WebUrl:
        refuse_host(url, message.network)
        if not self._private:
            refuse_private_host(url)
        return url

    def _exchange(self) -> tuple[ByteExchange, bool]:
        """Return the exchange for one call, and whether it must be closed afterwards."""
        if self._transport is None:
            check = None if self._private else find_address_error
            return HttpExchange(check_address=check, decode=False, max_head=_MAX_HEAD), True
        if isinstance(self._transport, HttpExchange | HttpxExchange):
            return self._transport, False
        return HttpxExchange(client=self._transport), False


def redirect_of(response: WebResponse) -> WebUrl | None:
    """Return the URL that a response redirects to; None if it is not a redirect.

    Raises:
        WebError: The redirect does not lead to a URL that can be requested.
    """
    target = response.headers.get("location", "")
    if response.status not in _REDIRECTS or not target:
        return None
    return read_url(target, base=response.url.text)


@attrs.frozen
class _Message:
    """A request without its URL, which changes with each redirect."""

    method: str
    headers: Mapping[str, str]
    body: bytes
    network: Network


# Servers that distinguish clients by this header send HTML to a client without preferences.
_ACCEPT: Final = "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1"


def _site(url: WebUrl) -> str:
    return url.host.removeprefix("www.")


class _Inflate(Protocol):
    """The decompressor of `zlib`."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Collector:
    """Receives a response, and stops when the body is complete or too long."""

    def __init__(self, max_bytes: int, *, decode: bool) -> None:
        self._left = max_bytes
        self._decode = decode
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._pieces: list[bytes] = []
        self._truncated = False
        self._inflate: _Inflate | None = None

    @property
    def full(self) -> bool:
        """Never: the body is collected in memory."""
        return False

    @property
    def done(self) -> bool:
        """True once the body is longer than allowed."""
        return self._truncated

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Receive the status and headers.

        Raises:
            WebError: The body is compressed in a way that was not requested.
        """
        self._status, self._headers = status, headers
        coding = headers.get("content-encoding", "identity").strip().lower()
        if not self._decode or coding in ("", "identity"):
            return
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise WebError(
                f"the response is compressed with {coding!r:.40}, which was not requested"
            )
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def feed(self, data: bytes) -> bool | None:
        """Receive a part of the body.

        Raises:
            WebError: The body cannot be decompressed.
        """
        if self._inflate is not None:
            try:
                # The limit keeps a small response from expanding to gigabytes.
                data = self._inflate.decompress(data, self._left + 1)
            except zlib.error as error:
                raise WebError(f"the response cannot be decompressed: {error}") from None
        if len(data) > self._left:
            data, self._truncated = data[: self._left], True
        self._left -= len(data)
        self._pieces.append(data)
        return not self._truncated

    async def wait_room(self) -> None:
        """Return immediately: there is always room."""
        await trio.lowlevel.checkpoint()

    def response(self, url: WebUrl, hosts: tuple[str, ...]) -> WebResponse:
        """Return the collected response."""
        body = b"".join(self._pieces)
        return WebResponse(url, self._status, self._headers, body, self._truncated, hosts)
