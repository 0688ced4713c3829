"""URLs, read in one strict form, and as the most lenient parser would read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import ConfigError
from agent_actors.permissions.urls import DomainPattern, UrlPattern

URLS = st.text(alphabet="htps:/\\@.?#%2eExample.com evil-[]\u00e9\t", max_size=40).map(
    lambda rest: f"https://{rest}"
)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("example.com", "https://example.com"),
        ("example.com", "http://example.com/a?b#c"),
        ("example.com", "HTTPS://EXAMPLE.com:8443/x"),
        ("Example.COM.", "https://example.com./"),
        ("*.example.com", "https://docs.example.com/"),
        ("[::1]", "http://[::1]:80/"),
    ],
)
def test_url_of_host_is_allowed_and_restricted(pattern: str, url: str) -> None:
    made = DomainPattern.parse(pattern)
    assert made.permits(url)
    assert made.restricts(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.example.com/",
        "https://example.com.evil.com/",
        "https://evil.com/example.com",
        "https://evil.com?example.com",
        "https://evil.com#example.com",
        "https://example.com@evil.com/",
        "https://example.com:pw@evil.com/",
        "https://evil.com\\@example.com/",
        "https://example.com\\.evil.com/",
        "https://example.com%2eevil.com/",
        "https://example.com /",
        "https://example.com/\n",
        "https:example.com",
        "https:///example.com",
        "//example.com/",
        "example.com",
        "ftp://example.com/",
        "javascript://example.com/%0aalert(1)",
        "https://ex\u00e4mple.com/",
        "",
    ],
)
def test_any_other_url_is_not_permitted(url: str) -> None:
    assert not DomainPattern.parse("example.com").permits(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.example.com/",
        "https://a:b@example.com/",
        "https://example.com\\@evil.com/",
        "https://evil.com\\@example.com/",
        "https:example.com",
        "https:\\\\example.com",
        "https:////example.com",
        "//example.com/x",
        "example.com",
        "example.com:80/x",
        "ftp://example.com/x",
        "ht\ntps://exa\tmple.com/",
        "https://EXAMPLE.com./",
        "https://example%2ecom/",
        "https://\uff45xample.com/",
        "https://example\u3002com/",
        "https://example.com\u3002/",
    ],
)
def test_possible_url_of_host_is_restricted(url: str) -> None:
    assert DomainPattern.parse("example.com").restricts(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/",
        "https://notexample.com/",
        "https://example.org/example.com",
        "https://" + "a" * 300 + ".org",
    ],
)
def test_url_of_other_host_is_unrestricted(url: str) -> None:
    assert not DomainPattern.parse("example.com").restricts(url)


def test_host_matches_in_either_spelling() -> None:
    assert DomainPattern.parse("b\u00fccher.de").restricts("https://xn--bcher-kva.de/")
    assert DomainPattern.parse("xn--bcher-kva.de").restricts("https://b\u00fccher.de/")


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://example.com/*", "https://example.com/"),
        ("https://example.com/*", "https://example.com"),
        ("https://example.com/docs/*", "https://example.com/docs/a/b?c=d"),
        ("https://example.com", "https://example.com/"),
        ("*://*.example.com/*", "http://a.b.example.com/x"),
        ("http://localhost:8080/*", "http://localhost:8080/x"),
        ("https://example.com:443/*", "https://example.com/x"),
        ("https://example.com/?q=*", "https://example.com/?q=a"),
    ],
)
def test_matching_url_is_allowed_and_restricted(pattern: str, url: str) -> None:
    made = UrlPattern.parse(pattern)
    assert made.permits(url)
    assert made.restricts(url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://example.com/*", "http://example.com/"),
        ("https://example.com/*", "https://example.com:8443/"),
        ("https://example.com/*", "https://example.com.evil.com/"),
        ("https://example.com/docs/*", "https://example.com/docs/../admin"),
        ("https://example.com/docs/*", "https://example.com/docs/%2E%2e/admin"),
        ("https://example.com/docs/*", "https://example.com/docs/..%2fadmin"),
        ("https://example.com/docs/*", "https://example.com/docs/%5cadmin"),
        ("https://*.example.com/*", "https://evil.com/x.example.com/"),
        ("https://*.example.com/*", "https://evil.com?x.example.com/"),
        ("https://*.example.com/*", "https://evil.com\\x.example.com/"),
        ("http://localhost:8080/*", "http://localhost/x"),
        ("https://example.com", "https://example.com/x"),
    ],
)
def test_url_differing_in_part_is_not_allowed(pattern: str, url: str) -> None:
    assert not UrlPattern.parse(pattern).permits(url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://example.com/admin*", "https://example.com/%61dmin"),
        ("https://example.com/admin*", "https://user@EXAMPLE.com/Admin/x"),
        ("https://example.com/*", "https://example.com:443/"),
        ("https://example.com/*", "https://example.com:8443/"),
        ("http://localhost:8080/*", "localhost:8080/x"),
    ],
)
def test_equivalent_url_is_restricted(pattern: str, url: str) -> None:
    assert UrlPattern.parse(pattern).restricts(url)


def test_url_of_other_path_is_unrestricted() -> None:
    assert not UrlPattern.parse("https://example.com/admin*").restricts("https://example.com/docs")


@pytest.mark.parametrize("text", ["https://x", "example.com/x", "a b", "example.com:80", "a@b"])
def test_domain_must_be_only_a_host(text: str) -> None:
    with pytest.raises(ConfigError, match="expected only a host"):
        DomainPattern.parse(text)


@pytest.mark.parametrize("text", [".example.com", "a..b", "256.1.1.1", "0x7f.*", "10.010.*", "a%b"])
def test_impossible_host_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be the host of a valid URL|in decimal"):
        DomainPattern.parse(text)


@pytest.mark.parametrize(
    "text", ["example.com", "https*", "ftp://x/", "https://", "https://a b/", "http://a:0/"]
)
def test_non_url_pattern_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected https://host/path"):
        UrlPattern.parse(text)


@given(URLS, st.sampled_from(["example.com", "*.com", "*"]))
def test_allowed_domain_is_also_restricted(url: str, pattern: str) -> None:
    made = DomainPattern.parse(pattern)
    if made.permits(url):
        assert made.restricts(url)


@given(URLS, st.sampled_from(["https://example.com/*", "*://*/*", "https://*.com/e*"]))
def test_allowed_pattern_is_also_restricted(url: str, pattern: str) -> None:
    made = UrlPattern.parse(pattern)
    if made.permits(url):
        assert made.restricts(url)
