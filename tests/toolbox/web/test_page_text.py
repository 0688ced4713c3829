"""The text of pages."""

import pytest

from agent_actors.toolbox.web.page_text import MAX_HTML, page_text
from agent_actors.toolbox.web.urls import WebError


@pytest.mark.feature("OAGS-033")
def test_html_becomes_markdown() -> None:
    html = (
        b"<html><head><title>Prices</title><style>x{}</style></head><body>"
        b"<h2>List</h2><p>See <a href='/a'>this</a>.</p><ul><li>one<li>two</ul>"
        b"<script>steal()</script><noscript>no</noscript></body></html>"
    )
    text = page_text(html, "text/html")
    assert text.startswith("# Prices\n\n## List\n\nSee [this](/a).")
    assert "- one" in text
    assert "steal" not in text
    assert "x{}" not in text


def test_title_is_not_repeated() -> None:
    html = b"<title>Prices</title><h1>Prices</h1>x"
    assert page_text(html, "text/html").count("Prices") == 1


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/json", "application/ld+json", "image/svg+xml", "text/csv"]
)
def test_other_text_is_unchanged(kind: str) -> None:
    assert page_text(b'{"a": "<b>"}\n\n\n', kind) == '{"a": "<b>"}\n\n\n'


@pytest.mark.parametrize("kind", ["image/png", "application/pdf", "application/octet-stream"])
def test_binary_page_is_refused_by_type(kind: str) -> None:
    with pytest.raises(WebError, match=kind):
        page_text(b"\x89PNG", f"{kind}; x=y")


def test_missing_type_is_guessed() -> None:
    assert page_text(b"plain <b>", "") == "plain <b>"
    assert page_text(b"\n<!DOCTYPE HTML><b>bold</b>", "") == "**bold**"
    with pytest.raises(WebError, match="octet-stream"):
        page_text(b"a\0b", "")


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("ä".encode(), "text/plain", "ä"),
        ("ä".encode("latin-1"), "text/plain; charset=ISO-8859-1", "ä"),
        ("ä".encode("latin-1"), "text/plain", "ä"),
        (b"\xef\xbb\xbfa", "text/plain", "a"),
        ("ä".encode("utf-16"), "text/plain", "ä"),
        ("ä".encode(), "text/plain; charset=nonsense", "ä"),
        ("ä".encode(), "text/plain; charset=base64", "ä"),
        ("ä".encode("cp1252"), "text/plain; charset=utf-8", "ä"),
        ("<meta charset='cp1251'>я".encode("cp1251"), "text/html", "я"),
        (b"\x81", "text/plain", "�"),
    ],
)
def test_encoding_is_found(body: bytes, kind: str, text: str) -> None:
    assert page_text(body, kind) == text


def test_deeply_nested_html_is_read() -> None:
    html = "<title>t</title><script>no</script>" + "<div>" * 5_000 + "core" + "</div>" * 5_000
    assert page_text(html.encode(), "text/html").endswith("core")
    assert "no" not in page_text(html.encode(), "text/html")


def test_long_html_is_cut() -> None:
    html = b"<p>" + b"x" * (MAX_HTML + 10)
    assert len(page_text(html, "text/html")) == MAX_HTML - 3
