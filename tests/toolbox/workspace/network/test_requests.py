"""Requests to a proxy, as they are read and written anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.toolbox.workspace.network.requests import (
    MAX_HEAD,
    BadRequest,
    ProxyRequest,
    RequestReader,
)


def read(data: bytes) -> tuple[ProxyRequest, bytes]:
    reader = RequestReader()
    body = reader.feed(data)
    assert reader.request is not None
    return reader.request, body


def test_tunnel_has_host_and_port() -> None:
    request, rest = read(b"CONNECT Example.COM:8443 HTTP/1.1\r\nhost: other\r\n\r\n\x16\x03")
    assert request.is_tunnel
    assert (request.url.host, request.url.port, rest) == ("example.com", 8443, b"\x16\x03")


def test_head_is_written_for_the_server() -> None:
    request, body = read(
        b"POST HTTP://example.com:81/a/../b?q=1#part HTTP/1.1\r\n"
        b"Host: fronted.example\r\nAccept: */*\r\nX-Hop: 1\r\nConnection: keep-alive, x-hop\r\n"
        b"Proxy-Authorization: Basic c2VjcmV0\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\nbody"
    )
    assert request.head == (
        b"POST /b?q=1 HTTP/1.1\r\nhost: example.com:81\r\naccept: */*\r\ncontent-length: 4\r\n"
        b"connection: close\r\n\r\n"
    )
    assert body == b"body"


def test_second_request_is_discarded() -> None:
    first = b"POST http://a.example/ HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi"
    for second in (
        b"GET http://b.example/ HTTP/1.1\r\n\r\n",
        b"CONNECT b.example:1 HTTP/1.1\r\n\r\n",
        b"?",
    ):
        reader = RequestReader()
        assert reader.feed(first + second) == b"hi"
        assert reader.request is not None
        assert reader.request.url.host == "a.example"
        assert reader.complete
        assert reader.feed(second) == b""


CHUNKED = (
    b"POST http://a.example/ HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\ntrailer: x\r\n\r\n"
)


@given(st.lists(st.integers(0, len(CHUNKED)), max_size=8))
def test_reading_is_independent_of_splits(cuts: list[int]) -> None:
    reader, body, start = RequestReader(), b"", 0
    for end in [*sorted(cuts), len(CHUNKED)]:
        body += reader.feed(CHUNKED[start:end])
        start = end
    assert reader.complete
    assert reader.request is not None
    assert reader.request.head.endswith(b"transfer-encoding: chunked\r\n\r\n")
    assert b"".join(body.split(b"\r\n")[1::2]) == b"abcde"
    assert body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n", "begins with http://; got '/'"),
        (b"GET https://a.example/ HTTP/1.1\r\n\r\n", "begins with http://"),
        (b"CONNECT a.example HTTP/1.1\r\n\r\n", "CONNECT expects host:port"),
        (b"CONNECT a.example:443/@b.example HTTP/1.1\r\n\r\n", "CONNECT expects host:port"),
        (b"CONNECT u@b.example:443 HTTP/1.1\r\n\r\n", "CONNECT expects host:port"),
        (b"CONNECT a.example:99999 HTTP/1.1\r\n\r\n", "is not a URL"),
        (b"GET http://user:pw@a.example/ HTTP/1.1\r\n\r\n", "user name or a password"),
        (b"GET http:// HTTP/1.1\r\n\r\n", "is not a URL"),
        (b"GET http://a.example/ HTTP/1.1\r\nb\r\n\r\n", "not valid HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not valid HTTP|begins with"),
        (
            b"POST http://a.example/ HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "not valid HTTP",
        ),
        (
            b"PUT http://a.b/ HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "not valid HTTP",
        ),
        (b"GET http://a.example/ HTTP/1.1\r\nx: " + b"x" * MAX_HEAD, "exceeds 65536 bytes"),
    ],
)
def test_bad_request_has_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        RequestReader().feed(data)
