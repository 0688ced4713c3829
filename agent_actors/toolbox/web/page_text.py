"""Convert the body of a web page to text for a model. Independent of the network."""

import re
from html.parser import HTMLParser
from typing import Final

from agent_actors.toolbox.web.urls import WebError

MAX_HTML: Final = 1_000_000
"""Characters of HTML that are converted; the rest is cut off."""

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset(
    {
        "application/json",
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/x-ndjson",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/sql",
        "application/x-sh",
    }
)
_SUFFIXES: Final = ("+json", "+xml", "+yaml")
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE | re.ASCII)
# The beginning of a page in which HTML may declare its encoding (HTML Standard, 13.2.3.2).
_PRESCAN: Final = 1_024
_INVISIBLE: Final = (
    "title",
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "head",
)
_BLANK_LINES: Final = re.compile(r"\n\s*\n\s*")


def page_text(body: bytes, content_type: str) -> str:
    """Return the text of a page: HTML as Markdown, other text unchanged.

    Args:
        body: The decoded body.
        content_type: The value of the header `content-type`; empty if there is none.

    Raises:
        WebError: The body is not text.
    """
    kind = content_type.partition(";")[0].strip().lower() or _guess(body)
    is_html = kind in _HTML
    if not (is_html or kind.startswith("text/") or kind in _TEXT or kind.endswith(_SUFFIXES)):
        raise WebError(
            f"the page is {kind!r:.80} ({len(body)} bytes), which cannot be read as text"
        )
    text = _decoded(body, content_type, is_html=is_html)
    return _markdown(text[:MAX_HTML]) if is_html else text


def _guess(body: bytes) -> str:
    if b"\0" in body[:_PRESCAN]:
        return "application/octet-stream"
    start = body[:_PRESCAN].lstrip().lower()
    return "text/html" if start.startswith((b"<!doctype html", b"<html")) else "text/plain"


def _decoded(body: bytes, content_type: str, *, is_html: bool) -> str:
    named = _CHARSET.search(content_type)
    if named is None and is_html:
        named = _CHARSET.search(body[:_PRESCAN].decode("ascii", "replace"))
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        names = ["utf-16"]
    else:
        names = ["utf-8-sig" if named is None else named[1]]
    for name in (*names, "utf-8-sig"):
        try:
            return body.decode(name)
        except (LookupError, UnicodeDecodeError, ValueError):
            continue
    return body.decode("cp1252", "replace")


def _markdown(html: str) -> str:
    from bs4 import BeautifulSoup  # noqa: PLC0415 - from the extra `tools`
    from markdownify import MarkdownConverter  # noqa: PLC0415

    try:
        soup = BeautifulSoup(html, "html.parser")
        title = soup.title.get_text(" ", strip=True) if soup.title is not None else ""
        for element in soup(list(_INVISIBLE)):
            element.decompose()
        text = str(MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup))
    except RecursionError:  # the elements are nested too deeply for the libraries
        title, text = "", _plain(html)
    text = _BLANK_LINES.sub("\n\n", text).strip()
    return f"# {title}\n\n{text}" if title and title not in text[:200] else text


def _plain(html: str) -> str:
    parser = _TextParser()
    parser.feed(html)
    parser.close()
    return "\n".join(parser.pieces)


class _TextParser(HTMLParser):
    """Collects the visible text of a page, however deeply its elements are nested."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _INVISIBLE

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in _INVISIBLE))

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.pieces.append(data.strip())
