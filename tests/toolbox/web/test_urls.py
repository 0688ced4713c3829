"""URLs that a model, a page or a redirect names."""

from pathlib import Path

import pytest

from agent_actors.toolbox.web.client import WebClient
from agent_actors.toolbox.web.urls import (
    LONGEST_URL,
    WebError,
    read_url,
    refuse_host,
    refuse_private_host,
)
from tests.transport.wire_helpers import WireServer

TABLE = [
    (url, reason)
    for url, _, reason in (
        line.partition("\t")
        for line in Path(__file__).with_name("ssrf.tsv").read_text("utf-8").splitlines()
    )
]


@pytest.mark.feature("OAGS-031", "OAGS-032")
@pytest.mark.parametrize(("url", "reason"), TABLE)
async def test_private_spelling_is_refused(url: str, reason: str) -> None:
    with pytest.raises(WebError, match=reason):
        await WebClient().get(url)


@pytest.mark.feature("OAGS-031", "OAGS-032")
async def test_refused_spelling_reaches_no_server() -> None:
    async with WireServer() as server:  # a connection would be an error
        for host in ("localhost", "127.1", "0x7f000001", "[::ffff:127.0.0.1]", "0", "a.localhost"):
            with pytest.raises(WebError):
                await WebClient().get(f"http://{host}:{server.port}/")
        assert server.connections == 0


@pytest.mark.parametrize(
    ("text", "normal", "host"),
    [
        ("HTTPS://Example.COM:443/a/../b#part", "https://example.com/b", "example.com"),
        ("http://münchen.de/ä", "http://xn--mnchen-3ya.de/%C3%A4", "xn--mnchen-3ya.de"),
        ("http://[2606:4700::1]:81/", "http://[2606:4700::1]:81/", "2606:4700::1"),
    ],
)
def test_url_has_one_normal_form(text: str, normal: str, host: str) -> None:
    url = read_url(text)
    assert (url.text, url.host) == (normal, host)
    refuse_private_host(url)


def test_long_url_is_refused() -> None:
    with pytest.raises(WebError, match="characters"):
        read_url("http://example.com/" + "a" * LONGEST_URL)


@pytest.mark.parametrize(
    ("network", "allowed"),
    [
        (True, True),
        (False, False),
        ((), False),
        (("example.com",), True),
        (("EXAMPLE.com",), True),
        (("*.example.com",), False),
        (("example.org", "ex*.com"), True),
        (("http://example.com",), False),
    ],
)
def test_workspace_decides_about_hosts(network: bool | tuple[str, ...], allowed: bool) -> None:
    url = read_url("http://example.com/x")
    if allowed:
        refuse_host(url, network)
        return
    with pytest.raises(WebError, match="workspace"):
        refuse_host(url, network)
