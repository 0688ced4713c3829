"""Read the requests that programs send to a proxy (RFC 9110, section 7.6, and RFC 9112, section 3).

A program sends `CONNECT host:port` to reach a host with TLS, and a request with a complete URL to
reach a host without TLS. `RequestReader` is independent of the network. A request of the second
kind is written anew for its server: with the host of the URL, without the headers that concern only
the proxy, and with `connection: close`, so that the connection carries no second request for
another host.
"""

import re
from typing import Final

import attrs
import httptools

from agent_actors.toolbox.web.urls import WebError, WebUrl, read_url

MAX_HEAD: Final = 64 * 1024
"""The maximum size of a request line and its headers, in bytes."""

_AUTHORITY: Final = re.compile(r"(?:[a-z0-9._-]+|\[[0-9a-f:.]+\]):\d{1,5}", re.IGNORECASE)
# Headers that concern one connection only (RFC 9110, section 7.6.1), and those that are set anew.
_DROPPED: Final = frozenset(
    {
        b"connection",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


class BadRequest(Exception):
    """The bytes are not a request that the proxy can serve; the message is for the program."""


@attrs.frozen
class ProxyRequest:
    """The beginning of a request.

    Attributes:
        url: The URL; for a tunnel, one with the host and the port.
        head: The request line and headers for the server; empty for a tunnel.
        is_tunnel: True for `CONNECT`: all further bytes are passed on as they are.
    """

    url: WebUrl
    head: bytes
    is_tunnel: bool


class RequestReader:
    """Reads one request: the beginning, and then the body in the form in which it is sent on."""

    def __init__(self) -> None:
        self.complete: bool = False
        self.request: ProxyRequest | None = None
        self._parser: httptools.HttpRequestParser = httptools.HttpRequestParser(self)
        self._size = 0
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunked = False
        self._body: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Read bytes, and return the bytes that follow the head, as they are sent on.

        Bytes after a complete request are discarded. `CONNECT` has no body: the bytes after it are
        returned, and are the first ones of the tunnel.

        Raises:
            BadRequest: The bytes are not a valid request, or the head is too long.
        """
        was_complete = self.complete
        if was_complete:
            return b""
        if self.request is None:
            self._size += len(data)
        rest = b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            context = error.__context__
            if isinstance(context, BadRequest | WebError):
                raise BadRequest(str(context)) from None
            if not self.complete:  # otherwise the error is in a second request
                raise BadRequest(f"the request is not valid HTTP: {error}") from None
        if self.request is None and self._size > MAX_HEAD:
            raise BadRequest(f"the head of the request exceeds {MAX_HEAD} bytes")
        if self.request is not None and self.request.is_tunnel:
            return rest
        body = b"".join(self._body)
        self._body.clear()
        return body

    def on_url(self, url: bytes) -> None:
        """Receive a part of the target; called by the parser."""
        if not self.complete:  # otherwise it is the target of a second request
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receive a header; called by the parser."""
        if self.request is None:  # otherwise it is a trailer, or part of a second request
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Read the request; called by the parser."""
        if self.complete:
            return
        target = self._target.decode("ascii", "replace")
        method = self._parser.get_method()
        if method == b"CONNECT":
            if not _AUTHORITY.fullmatch(target):
                raise BadRequest(f"CONNECT expects host:port; got {target!r:.200}")
            self.request = ProxyRequest(read_url(f"https://{target}/"), b"", is_tunnel=True)
            return
        if not target.lower().startswith("http://"):
            raise BadRequest(f"a proxy expects a URL that begins with http://; got {target!r:.200}")
        url = read_url(target)
        self.request = ProxyRequest(url, self._head(method, url), is_tunnel=False)

    def on_body(self, data: bytes) -> None:
        """Receive a part of the body; called by the parser."""
        if not self.complete:
            self._body.append(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def on_message_complete(self) -> None:
        """Note the end of the request; called by the parser."""
        if self._chunked and not self.complete:
            self._body.append(b"0\r\n\r\n")
        self.complete = True

    def _head(self, method: bytes, url: WebUrl) -> bytes:
        named = b",".join(value for name, value in self._headers if name == b"connection")
        dropped = _DROPPED | {item.strip().lower() for item in named.split(b",")}
        self._chunked = any(name == b"transfer-encoding" for name, _ in self._headers)
        authority, _, path = url.text.removeprefix("http://").partition("/")
        version = self._parser.get_http_version().encode()
        lines = [
            b"%b /%b HTTP/%b" % (method, path.encode(), version),
            b"host: " + authority.encode(),
            *(b"%b: %b" % item for item in self._headers if item[0] not in dropped),
            b"connection: close",
        ]
        if self._chunked:
            lines.append(b"transfer-encoding: chunked")
        return b"\r\n".join([*lines, b"", b""])
