"""Images, documents and tool results in Anthropic's protocol."""

import base64
import json
from collections.abc import Sequence
from typing import Final

import pytest

from agent_actors.domain.blocks import FileBlock, ImageBlock, TextBlock, ToolResultBlock
from agent_actors.domain.json import JsonObject, JsonValue
from tests.providers.anthropic.test_encode import parts


@pytest.mark.parametrize(
    ("block", "kind", "source"),
    [
        (ImageBlock("https://x/y.png"), "image", {"type": "url", "url": "https://x/y.png"}),
        (
            ImageBlock("https://x/y.pdf", "application/pdf"),
            "document",
            {"type": "url", "url": "https://x/y.pdf"},
        ),
        (
            ImageBlock("data:image/jpg;base64,aG\nk="),
            "image",
            {"type": "base64", "media_type": "image/jpeg", "data": "aGk="},
        ),
        (
            ImageBlock("data:;base64,aGk=", "image/WEBP"),
            "image",
            {"type": "base64", "media_type": "image/webp", "data": "aGk="},
        ),
        (
            ImageBlock("data:,hi"),
            "image",
            {"type": "base64", "media_type": "image/png", "data": "aGk="},
        ),
        (
            ImageBlock("data:application/pdf;base64,aGk="),
            "document",
            {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
        ),
        (
            ImageBlock("data:text/markdown;charset=utf-8;base64,aMOp"),
            "document",
            {"type": "text", "media_type": "text/plain", "data": "hé"},
        ),
        (
            ImageBlock("data:text/plain,h%C3%A9%ff"),
            "document",
            {"type": "text", "media_type": "text/plain", "data": "hé\ufffd"},
        ),
        (
            ImageBlock("data:text/plain;base64,a"),
            "document",
            {"type": "text", "media_type": "text/plain", "data": ""},
        ),
        (FileBlock("https://x/y"), "document", {"type": "url", "url": "https://x/y"}),
        (
            FileBlock("https://x/y", "Image/PNG; q=1"),
            "image",
            {"type": "url", "url": "https://x/y"},
        ),
        (
            FileBlock("data:;base64,aG%6B="),
            "document",
            {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
        ),
        (
            FileBlock("DATA:application/json;BASE64,e30="),
            "document",
            {"type": "text", "media_type": "text/plain", "data": "{}"},
        ),
        (
            FileBlock("data:image/svg+xml,<svg/>"),
            "image",
            {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zy8+"},
        ),
    ],
)
def test_images_and_documents(block: ImageBlock | FileBlock, kind: str, source: JsonObject) -> None:
    assert parts(block) == [{"type": kind, "source": source}]


def test_document_keeps_title_and_extras() -> None:
    extra: JsonObject = {"citations": {"enabled": True}}
    block = FileBlock("https://x/y.pdf", "application/pdf", "report.pdf", extra=extra)
    assert parts(block) == [
        {
            "type": "document",
            "source": {"type": "url", "url": "https://x/y.pdf"},
            "title": "report.pdf",
            **extra,
        }
    ]


def test_image_of_response_becomes_label() -> None:
    """The protocol accepts images only from the user."""
    image = ImageBlock("https://x/y.png", "image/png")
    assert parts(TextBlock("Look"), image, role="assistant") == [
        {"type": "text", "text": "Look"},
        {"type": "text", "text": "[image]"},
    ]


def test_image_file_has_no_title() -> None:
    (part,) = parts(FileBlock("https://x/y.png", "image/png", "y.png"))
    assert part == {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}


RESULTS: Final[Sequence[tuple[str | JsonObject | list[JsonValue], bool, JsonValue]]] = [
    ("x", False, "x"),
    ("", False, None),
    ("", True, "the tool failed without a message"),
    ({"a": 1}, False, '{"a": 1}'),
    ([], False, None),
    ([1], False, "[1]"),
    ([{"type": "text", "text": "a"}, {"type": "odd"}], False, None),
    ([{"type": "text", "text": ""}], True, "the tool failed without a message"),
    (
        [
            {"type": "text", "text": "a", "extra": {"citations": []}},
            {"type": "text", "text": ""},
            {"type": "image", "source": "https://x"},
            {"type": "opaque", "data": {"type": "search_result"}, "provider": "anthropic"},
        ],
        False,
        [
            {"type": "text", "text": "a", "citations": []},
            {"type": "image", "source": {"type": "url", "url": "https://x"}},
            {"type": "search_result"},
        ],
    ),
    ([{"type": "opaque", "data": {}, "provider": "other"}], False, None),
    ([{"type": "text", "text": "a"}], True, [{"type": "text", "text": "a"}]),
    ([{"type": "image", "source": "https://x"}], True, "[image]"),
    (
        [{"type": "file", "source": "data:text/csv,a", "name": "a.csv"}],
        False,
        [
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a"},
                "title": "a.csv",
            }
        ],
    ),
]


@pytest.mark.parametrize(("content", "is_error", "wire"), RESULTS)
def test_results(content: str | list[JsonValue], is_error: bool, wire: JsonValue) -> None:
    (part,) = parts(ToolResultBlock("a", content, is_error))
    if wire is None and content:
        wire = json.dumps(content)  # a value without another form is sent as JSON text
    assert part.get("content") == wire
    assert part.get("is_error") is (True if is_error else None)


def test_no_image_is_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> bytes:
        raise AssertionError

    image = ImageBlock.from_bytes(b"\x89PNG\r\n\x1a\n")
    for name in ("b64encode", "b64decode"):
        monkeypatch.setattr(base64, name, never)
    (part,) = parts(image)
    assert part["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": image.source.partition(",")[2],
    }
