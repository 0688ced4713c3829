"""Media types from bytes, sources, and blocks made of foreign data."""

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import FileBlock, ImageBlock, ToolResultBlock
from agent_actors.domain.json import JsonValue
from agent_actors.domain.media import (
    check_source,
    clean_name,
    data_url,
    decoded_text,
    is_text,
    sniff,
    split_data_url,
)
from agent_actors.domain.messages import Message, user
from agent_actors.errors import ConfigError, MediaError

PNG = b"\x89PNG\r\n\x1a\n" + b"rest"
HEADS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
    "image/tiff": b"MM\x00*",
    "image/avif": b"\0\0\0\x20ftypavif",
    "image/heic": b"\0\0\0\x20ftypheic",
    "application/pdf": b"%PDF-1.7",
}
PDF = HEADS["application/pdf"]


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("media_type", HEADS)
def test_first_bytes_determine_the_type(media_type: str) -> None:
    assert sniff(HEADS[media_type]) == media_type


@pytest.mark.parametrize("data", [b"", b"\x89PN", b"RIFF", b"hello", b" %PDF-", b"\xff\xd8"])
def test_other_bytes_have_no_type(data: bytes) -> None:
    assert sniff(data) == ""


@pytest.mark.parametrize(
    ("media_type", "text"),
    [
        ("text/x-odd", True),
        ("application/json", True),
        ("application/ld+json", True),
        ("application/atom+xml", True),
        ("image/svg+xml", False),
        ("application/pdf", False),
        ("", False),
    ],
)
def test_text_media_types(media_type: str, text: bool) -> None:
    assert is_text(media_type) is text


# --- data URLs ------------------------------------------------------------------------------------


@given(st.binary(), st.sampled_from(["image/png", "text/plain", ""]))
def test_bytes_come_back_from_their_data_url(data: bytes, media_type: str) -> None:
    found = split_data_url(data_url(data, media_type))
    assert found is not None
    assert (found.media_type, found.decode()) == (media_type, data)
    assert found.base64 == base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("source", "media_type", "content"),
    [
        ("data:,h%C3%A9", "", "hé".encode()),
        ("DATA:Image/JPG ; x=y;BASE64,aG\r\n k=", "image/jpeg", b"hi"),
        ("data:text/plain;base64,aGk%3D", "text/plain", b"hi"),
        ("data:text/plain", "text/plain", b""),
    ],
)
def test_data_urls_come_in_many_forms(source: str, media_type: str, content: bytes) -> None:
    found = split_data_url(source)
    assert found is not None
    assert (found.media_type, found.decode()) == (media_type, content)
    assert base64.b64decode(found.base64) == content


def test_invalid_data_url_has_no_parts() -> None:
    assert split_data_url("https://x/data:,") is None
    assert decoded_text("https://x/a.txt") == ""
    assert decoded_text("data:text/plain;base64,a") == ""
    assert decoded_text("data:;base64," + base64.b64encode(b"\xef\xbb\xbfa\xff").decode()) == "a�"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "expected an http"),
        ("cat.png", "read_image or read_file"),
        ("file:///etc/passwd", "expected an http"),
        ("ftp://x/y", "expected an http"),
        ("https://", "not a URL that an endpoint can fetch"),
        ("https://[x/y", "not a URL that an endpoint can fetch"),
        ("https://x/a b", "not a URL that an endpoint can fetch"),
        ("https://x/\x00", "not a URL that an endpoint can fetch"),
        ("data:", "contains no bytes"),
        ("data:image/png;base64,", "contains no bytes"),
        ("data:image/png;base64, \n", "contains no bytes"),
        ("data:image/png;base64,a", "its content is not valid base64"),
        ("data:image/png;base64,====", "its content is not valid base64"),
        ("data:image/png;base64,aGk=aGk=", "its content is not valid base64"),
        ("data:image/png;base64,aG-_", "its content is not valid base64"),
        ("data:image/png;base64,aGké", "its content is not valid base64"),
        ("data:pn\ng;base64,aGk=", "not a media type"),
    ],
)
def test_unreadable_sources_are_refused(source: str, said: str) -> None:
    with pytest.raises(MediaError, match=said):
        check_source(source)
    for block in (ImageBlock, FileBlock):
        with pytest.raises(MediaError, match=said):
            block.from_url(source)


@pytest.mark.parametrize("source", ["http://x", "HTTPS://x/y?z#a", "data:,x", "data:;base64,aGk="])
def test_other_sources_are_valid(source: str) -> None:
    check_source(source)


@given(st.text(max_size=30) | st.text("data:;,base64=aGk \n%", max_size=30).map("data:{}".format))
def test_any_source_is_valid_or_refused(source: str) -> None:
    said = ""
    try:
        check_source(FileBlock.from_url(source).source)
    except MediaError as error:
        said = str(error)
    assert len(said) < 400


# --- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("media_type", [name for name in HEADS if name.startswith("image/")])
def test_image_bytes_keep_their_media_type(media_type: str) -> None:
    data = HEADS[media_type]
    for declared in ("", media_type, f" {media_type.upper()}; a=b"):
        image = ImageBlock.from_bytes(data, declared, detail="low")
        assert image == ImageBlock(data_url(data, media_type), media_type, detail="low")
        assert ImageBlock.from_url(image.source, detail="low") == image


def test_common_media_type_aliases_are_accepted() -> None:
    assert ImageBlock.from_bytes(HEADS["image/jpeg"], "image/jpg").media_type == "image/jpeg"


def test_unknown_image_type_must_be_named() -> None:
    assert ImageBlock.from_bytes(b"odd", "image/x-odd").media_type == "image/x-odd"
    assert ImageBlock.from_bytes(PNG, "image/apng").media_type == "image/png"
    with pytest.raises(MediaError, match="pass its media_type"):
        ImageBlock.from_bytes(b"odd")


@pytest.mark.parametrize(
    ("data", "declared", "said"),
    [
        (b"", "image/png", "the image is empty"),
        (PNG * 2, "", "at most 12 may be sent"),
        (PNG, "image/jpeg", "media_type is image/jpeg, but the bytes are image/png"),
        (b"hello", "image/png", "media_type is image/png, but the bytes are of another type"),
        (PNG, "text/plain", "media_type is text/plain, but the bytes are image/png"),
        (PDF, "", "this is application/pdf; send it as a FileBlock"),
        (b"hello", "text/plain", "expected an image, but this is text/plain"),
        (PNG, "png", "'png' is not a media type"),
        (PNG, "image/png,x", "not a media type"),
        (PNG, "a" * 999 + "/b", re.escape("'" + "a" * 60 + "' is not a media type")),
    ],
)
def test_mismatched_image_bytes_are_refused(data: bytes, declared: str, said: str) -> None:
    with pytest.raises(MediaError, match=said) as caught:
        ImageBlock.from_bytes(data, declared, max_bytes=len(PNG))
    assert isinstance(caught.value, ConfigError)


def test_image_url_is_left_to_endpoint() -> None:
    image = ImageBlock.from_url("https://x/y.jpg", "image/jpg")
    assert image == ImageBlock("https://x/y.jpg", "image/jpeg")


def test_data_url_image_is_checked_by_bytes() -> None:
    bare = data_url(PNG, "")
    assert ImageBlock.from_url(bare).source == data_url(PNG, "image/png")
    with pytest.raises(MediaError, match="media_type is image/gif"):
        ImageBlock.from_url(data_url(PNG, "image/gif"))
    with pytest.raises(MediaError, match="has 12 bytes; at most 11"):
        ImageBlock.from_url(bare, max_bytes=11)


def test_oversized_url_is_not_inspected() -> None:
    with pytest.raises(MediaError, match="the URL has 2013 characters; at most 9 bytes"):
        ImageBlock.from_url("data:,".ljust(2013, "x"), max_bytes=9)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "declared", "name", "media_type"),
    [
        (PDF, "", "", "application/pdf"),
        (b"\n\n" + PDF, "application/pdf", "", "application/pdf"),
        (PNG, "", "x", "image/png"),
        (b"a,b", "", "x.CSV", "text/csv"),
        (b"a,b", "", "csv", "text/csv"),
        (b"a,b", "", "x.odd", "text/plain"),
        (b"a,b", "text/x-odd", "x.csv", "text/x-odd"),
        (b"PK\x03\x04", "", "x.xlsx", None),
        (b"a\0b", "", "", "application/octet-stream"),
        (b"\xff\xfe", "", "", "application/octet-stream"),
        (b"<svg/>", "", "x.svg", "image/svg+xml"),
    ],
)
def test_a_file_has_a_type(data: bytes, declared: str, name: str, media_type: str | None) -> None:
    file = FileBlock.from_bytes(data, declared, name=name)
    assert file == FileBlock(data_url(data, file.media_type), file.media_type, name)
    if media_type is None:
        assert file.media_type.startswith("application/vnd.")
    else:
        assert file.media_type == media_type


@pytest.mark.parametrize(
    ("data", "declared", "name", "said"),
    [
        (b"", "", "a.txt", "the file 'a.txt' is empty"),
        (b"", "", "", "the file is empty"),
        (b"x" * 10, "", "", "the file has 10 bytes; at most 9"),
        (b"hello", "application/pdf", "", "media_type is application/pdf"),
        (PDF, "text/plain", "", "media_type is text/plain, but the bytes are application/pdf"),
        (b"\xff", "text/plain", "", "expected text/plain in UTF-8"),
        (b"a\0", "", "x.json", "expected application/json in UTF-8"),
        (b"x", "plain", "", "not a media type"),
    ],
)
def test_mismatched_file_bytes_are_refused(
    data: bytes, declared: str, name: str, said: str
) -> None:
    with pytest.raises(MediaError, match=said):
        FileBlock.from_bytes(data, declared, name=name, max_bytes=9)


def test_text_file_reads_as_written() -> None:
    file = FileBlock.from_text("hé\ud83d", "text/markdown", name="n.md")
    assert (file.text, file.media_type, file.label) == ("hé?", "text/markdown", "[file n.md]")
    assert FileBlock("data:text/plain,hi").text == "hi"
    assert FileBlock("data:application/pdf,hi", "text/plain").text == "hi"
    for other in ("https://x/a.txt", "data:application/pdf;base64,aGk="):
        assert FileBlock(other, name="a.txt").text is None
    assert FileBlock("https://x/a.txt", "text/plain").text is None


def test_file_url_is_left_to_endpoint() -> None:
    file = FileBlock.from_url("https://x/y", "Text/CSV", name="a/b.csv")
    assert file == FileBlock("https://x/y", "text/csv", "b.csv")
    assert FileBlock.from_url("data:text/csv,a", name="b.csv").text == "a"


@pytest.mark.parametrize(
    ("name", "clean"),
    [("a.txt", "a.txt"), ("/x/y\\z.txt", "z.txt"), ("a\n]\x1b.txt", "a_]_.txt"), ("", "")],
)
def test_name_is_one_printable_line(name: str, clean: str) -> None:
    assert clean_name(name) == clean


# --- text form ------------------------------------------------------------------------------------


def test_large_source_keeps_repr_short() -> None:
    for block in (ImageBlock("data:," + "x" * 999), FileBlock("data:," + "x" * 999)):
        assert "<1005 characters: 'data:,xxx" in repr(block)
        assert len(repr(block)) < 250
    assert "'https://x'" in repr(ImageBlock("https://x"))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            [{"type": "text", "text": "A "}, {"type": "image", "source": "data:,x"}],
            "A [image]",
        ),
        ([{"type": "file", "source": "x"}], "[file]"),
        ([{"type": "file", "source": "x", "name": "a.pdf"}], "[file a.pdf]"),
        ([1, {"type": "image", "source": "data:,x"}], '[1, "[image]"]'),
        ([{"type": "image"}], '[{"type": "image"}]'),
        ([{"type": "file", "name": "x"}], '[{"type": "file", "name": "x"}]'),
        ([], "[]"),
        ({"type": "image", "source": "x"}, '{"type": "image", "source": "x"}'),
    ],
)
def test_result_describes_images_by_labels(
    content: dict[str, JsonValue] | list[JsonValue], text: str
) -> None:
    assert ToolResultBlock("a", content).text == text


def test_media_counts_about_a_thousand_tokens() -> None:
    image, pdf = ImageBlock.from_bytes(PNG), FileBlock.from_bytes(PDF)
    assert user([image, pdf]).estimate_tokens() == 2000
    assert user([FileBlock.from_text("x" * 400)]).estimate_tokens() == 100
    shown: list[JsonValue] = [1, {"type": "image", "source": "x"}, {"type": "text", "text": "x"}]
    counted = Message("tool", (ToolResultBlock("a", shown, name="n"),)).estimate_tokens()
    assert 1000 < counted < 1050


def test_message_with_media_shows_labels() -> None:
    message = user([FileBlock("https://x/y", name="a.pdf"), ImageBlock("https://x/y")])
    message.validate()
    assert message.pretty() == "[Human] [file a.pdf] [image]"
