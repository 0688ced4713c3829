"""Requests are encoded correctly, and invalid requests are rejected before anything is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import ProviderConnectError
from agent_actors.transport.connect import Origin
from agent_actors.transport.errors import BadRequest
from agent_actors.transport.request import build_request, parse_url
from tests.transport.asking import HELLO, opened, post
from tests.transport.sinks import ByteCollector
from tests.transport.wire_helpers import WireServer, ask

URL = "http://host:1/path"


def head(*headers: tuple[bytes, bytes], method: str = "POST", url: str = URL) -> bytes:
    return build_request(method, parse_url(url), headers).head


# --- URLs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "origin", "host", "path"),
    [
        ("http://a/", Origin(False, "a", 80), b"a", b"/"),
        ("https://a", Origin(True, "a", 443), b"a", b"/"),
        ("http://a:80/x", Origin(False, "a", 80), b"a", b"/x"),
        ("https://a:8443/x?y=z#w", Origin(True, "a", 8443), b"a:8443", b"/x?y=z"),
        ("http://u:p@A.B/x", Origin(False, "a.b", 80), b"a.b", b"/x"),
        ("http://[::1]:9/x", Origin(False, "::1", 9), b"[::1]:9", b"/x"),
        ("http://bücher/ä", Origin(False, "xn--bcher-kva", 80), b"xn--bcher-kva", b"/%C3%A4"),
    ],
)
def test_url_determines_origin_and_path(url: str, origin: Origin, host: bytes, path: bytes) -> None:
    target = parse_url(url)
    assert (target.origin, target.host, target.path) == (origin, host, path)


@pytest.mark.parametrize(
    "url",
    ["", "a", "/a", "ftp://a/", "file:///a", "http://", "http:///a", "http://a:0/"],
)
def test_unusable_target_is_refused(url: str) -> None:
    with pytest.raises(BadRequest):
        parse_url(url)


# --- headers --------------------------------------------------------------------------------------


def test_head_is_line_and_headers() -> None:
    assert head((b"A", b"1"), (b"b", b""), (b"A", b"2")) == (
        b"POST /path HTTP/1.1\r\nhost: host:1\r\nA: 1\r\nb: \r\nA: 2\r\n\r\n"
    )


def test_custom_host_replaces_url_host() -> None:
    assert head((b"a", b"1"), (b"Host", b"other")) == (
        b"POST /path HTTP/1.1\r\na: 1\r\nHost: other\r\n\r\n"
    )


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb", b"a\rb", b"a\x00b", b"\x7f", b"\x1b[0m"])
def test_multiline_header_value_is_refused(value: bytes) -> None:
    with pytest.raises(BadRequest, match="control characters"):
        head((b"x", value))


@pytest.mark.parametrize("name", [b"", b"a b", b"a:", b"a\r\nb", b"a\n", b"\xe9", b"a\x00", b"(a)"])
def test_invalid_header_name_is_refused(name: bytes) -> None:
    with pytest.raises(BadRequest, match="not a valid header name"):
        head((name, b"x"))


@pytest.mark.parametrize("method", ["", "GET /x HTTP/1.1\r\nx:", "G T", "GÉT", "GET\n"])
def test_invalid_method_is_refused(method: str) -> None:
    with pytest.raises(BadRequest, match="or the path"):
        head(method=method)


@given(
    st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=8)), max_size=4),
    st.text(max_size=8),
)
def test_sent_lines_equal_header_count(headers: list[tuple[bytes, bytes]], method: str) -> None:
    try:
        sent = head(*headers, method=method)
    except BadRequest:
        return
    assert sent.endswith(b"\r\n\r\n")
    named = any(name.lower() == b"host" for name, _ in headers)
    assert sent.count(b"\r") == sent.count(b"\n") == len(headers) + 2 + (not named)


@pytest.mark.parametrize(
    ("method", "idempotent", "head_only"),
    [
        ("GET", True, False),
        ("HEAD", True, True),
        ("PUT", True, False),
        ("DELETE", True, False),
        ("OPTIONS", True, False),
        ("TRACE", True, False),
        ("POST", False, False),
        ("PATCH", False, False),
        ("get", False, False),
    ],
)
def test_method_determines_repeatability(method: str, idempotent: bool, head_only: bool) -> None:
    request = build_request(method, parse_url(URL), [])
    assert (request.idempotent, request.head_only) == (idempotent, head_only)


# --- requests through the exchange ----------------------------------------------------------------


async def test_length_follows_the_body() -> None:
    headers = {"Content-Length": "99", "Transfer-Encoding": "chunked", "Accept-Encoding": "gzip"}
    async with WireServer([ask, HELLO]) as server, opened() as exchange:
        await exchange.exchange(post(server, b"abc", **headers), ByteCollector())
        sent = server.requests[0].lower()
        assert sent.count(b"content-length") == 1
        assert b"\r\ncontent-length: 3\r\n" in sent
        assert b"transfer-encoding" not in sent
        assert b"\r\naccept-encoding: gzip\r\n" in sent
        assert b"identity" not in sent


@pytest.mark.parametrize("headers", [{"é": "x"}, {"x": "☃"}, {"x": "a\r\nb: c"}, {"a b": "c"}])
async def test_unsendable_header_is_connect_error(headers: dict[str, str]) -> None:
    async with WireServer() as server, opened() as exchange:
        with pytest.raises(ProviderConnectError, match="the request cannot be sent"):
            await exchange.exchange(post(server, b"{}", **headers), ByteCollector())
        assert server.connections == 0
