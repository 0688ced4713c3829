"""Images and files: their bytes, media types and `data:` URLs.

This module decides from the first bytes whether content is an image, text or a PDF. It also decides
which sources are valid and how large they may be. It does no I/O. Endpoints reject an image whose
declared type does not match its bytes, and would reject it again on every later turn of the
session. All content is therefore checked before it becomes part of a history.
"""

import base64
import re
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

import attrs

from agent_actors.errors import MediaError

MAX_MEDIA_BYTES: Final = 20 * 2**20
"""Default maximum size of one image or file in bytes, before base64 encoding. Hosted endpoints
accept requests of about 32 MB, which is 24 MB before base64 encoding if the request contains
nothing else.
"""

UNKNOWN_TYPE: Final = "application/octet-stream"

_DATA: Final = "data:"
_BASE64: Final = "base64"
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_ALIASES: Final = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg"}
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_NOT_IN_URL: Final = re.compile(r"[\s\x00-\x1f\x7f]")
_LONGEST_HEAD: Final = 1024
"""Maximum number of characters in a web URL, and before the content of a `data:` URL. Longer ones
are suspicious.
"""

_SHOWN: Final = 60
"""Maximum number of characters of an invalid value in an error message."""

_PDF: Final = "application/pdf"
_PDF_MAGIC: Final = b"%PDF-"
# How formats begin: magic bytes, their offset, and the media type.
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"II*\x00", 0, "image/tiff"),
    (b"MM\x00*", 0, "image/tiff"),
    (b"ftypavif", 4, "image/avif"),
    (b"ftypheic", 4, "image/heic"),
    (_PDF_MAGIC, 0, _PDF),
)
_TOLD_BY_BYTES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", _PDF})
"""Types whose content always begins with magic bytes from the table. Other types have further
variants.
"""

_PDF_HEAD: Final = 1024
"""PDF readers accept a header anywhere in the first kilobyte."""

# The platform's own table of file extensions is not used, because it differs between machines.
_BY_ENDING: Final = {
    "csv": "text/csv",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "html": "text/html",
    "json": "application/json",
    "md": "text/markdown",
    "mp3": "audio/mpeg",
    "pdf": "application/pdf",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "svg": "image/svg+xml",
    "toml": "application/toml",
    "txt": "text/plain",
    "wav": "audio/wav",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}
_TEXTUAL: Final = frozenset(
    f"application/{name}" for name in ("javascript", "json", "toml", "xml", "yaml", "x-yaml")
)


@attrs.frozen
class DataUrl:
    """A parsed `data:` URL.

    Attributes:
        media_type: The canonical name of the media type, in lower case; empty if the URL has none.
        body: The text after the comma.
        is_base64: True if `body` is base64; otherwise it is percent-encoded.
    """

    media_type: str
    body: str = attrs.field(repr=False)
    is_base64: bool

    @property
    def base64(self) -> str:
        """The bytes in base64, without whitespace; not validated."""
        if not self.is_base64:
            return base64.b64encode(unquote_to_bytes(self.body)).decode()
        body = self.body
        if "%" in body:
            body = unquote_to_bytes(body).decode("latin-1")
        # Search for whitespace first: for a large image, a copy takes longer than the search.
        return "".join(body.split()) if any(blank in body for blank in " \n\r\t") else body

    def decode(self) -> bytes:
        """Return the bytes.

        Raises:
            ValueError: The body is not base64.
        """
        if not self.is_base64:
            return unquote_to_bytes(self.body)
        return base64.b64decode(self.base64)


def split_data_url(source: str) -> DataUrl | None:
    """Parse a `data:` URL; return None if the source is not a `data:` URL."""
    if source[: len(_DATA)].lower() != _DATA:
        return None
    head, _, body = source[len(_DATA) :].partition(",")
    told, *options = (part.strip().lower() for part in head.split(";"))
    return DataUrl(usual_name(told), body, _BASE64 in options)


def data_url(data: bytes, media_type: str) -> str:
    """Return the bytes as a `data:` URL in base64."""
    return f"{_DATA}{media_type};{_BASE64},{base64.b64encode(data).decode()}"


def usual_name(media_type: str) -> str:
    """Return the canonical name of a media type, in lower case and without parameters."""
    bare = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(bare, bare)


def sniff(data: bytes) -> str:
    """Determine the media type of an image or a PDF from its first bytes; empty if unknown."""
    for magic, start, media_type in _MAGIC:
        if data.startswith(magic, start):
            return media_type
    return ""


def is_text(media_type: str) -> bool:
    """Return whether content of this media type is text."""
    if media_type.startswith("text/") or media_type in _TEXTUAL:
        return True
    # An image in XML (SVG) is still an image.
    return media_type.endswith(("+json", "+xml")) and not is_image(media_type)


def is_image(media_type: str) -> bool:
    """Return whether this is the media type of an image."""
    return media_type.startswith("image/")


def checked_type(declared: str) -> str:
    """Return the canonical name of a declared media type; empty if none is declared.

    Raises:
        MediaError: The value is not a media type.
    """
    name = usual_name(declared)
    if name and not _MEDIA_TYPE.fullmatch(name):
        raise MediaError(
            f"{declared[:_SHOWN]!r} is not a media type; expected, for example, image/png"
        )
    return name


def image_type(data: bytes, declared: str, *, max_bytes: int) -> str:
    """Determine the media type of an image from its bytes.

    Raises:
        MediaError: The image is empty or too large, its bytes do not match the declared type, or it
            cannot be recognized as an image.
    """
    _check_size(len(data), "the image", max_bytes)
    told, found = checked_type(declared), sniff(data)
    _check_declared(told, found)
    media_type = found or told
    if not media_type:
        raise MediaError("unknown image format; pass its media_type, for example image/png")
    if not is_image(media_type):
        raise MediaError(f"expected an image, but this is {media_type}; send it as a FileBlock")
    return media_type


def file_type(data: bytes, declared: str, name: str, *, max_bytes: int) -> str:
    """Return a file's media type: the declared one, or one determined from its bytes or name.

    Raises:
        MediaError: The file is empty or too large, its bytes do not match the declared type, or it
            is declared as text but is not UTF-8.
    """
    _check_size(len(data), f"the file {name!r}" if name else "the file", max_bytes)
    told, found = checked_type(declared), sniff(data)
    if told == _PDF and _PDF_MAGIC in data[:_PDF_HEAD]:
        found = told
    _check_declared(told, found)
    media_type = told or found or _BY_ENDING.get(name.rpartition(".")[2].lower(), "")
    if media_type and not is_text(media_type):
        return media_type
    # The type is still unknown, or is text. In both cases, check that the bytes are text.
    if _reads_as_text(data):
        return media_type or "text/plain"
    if media_type:
        raise MediaError(
            f"expected {media_type} in UTF-8, but the bytes are not UTF-8; decode them and use "
            "FileBlock.from_text, or pass their media_type"
        )
    return UNKNOWN_TYPE


def check_source(source: str) -> None:
    """Check the source of an image or a file.

    Raises:
        MediaError: The source is neither an http(s) URL nor a `data:` URL with content, or its
            base64 is invalid.
    """
    data = split_data_url(source)
    if data is None:
        _check_web_url(source)
        return
    checked_type(data.media_type)
    if not data.body.strip():
        raise MediaError("the data: URL contains no bytes")
    if data.is_base64:
        _check_base64(data.base64)


def url_content(source: str, *, max_bytes: int) -> tuple[str, bytes] | None:
    """Return the media type and the bytes of a `data:` URL; None for a web URL.

    Raises:
        MediaError: The source is invalid (see `check_source`) or far too long.
    """
    # Content that must be too large is not parsed. Percent-encoding takes three characters per
    # byte.
    if len(source) > 3 * max_bytes + _LONGEST_HEAD:
        raise MediaError(
            f"the URL has {len(source)} characters; at most {max_bytes} bytes may be sent "
            "(max_bytes)"
        )
    check_source(source)
    data = split_data_url(source)
    return None if data is None else (data.media_type, data.decode())


def decoded_text(source: str) -> str:
    """Return the text in a `data:` URL; empty if its base64 is invalid.

    Bytes that are not UTF-8 are replaced, and a byte order mark is removed.
    """
    data = split_data_url(source)
    try:
        content = b"" if data is None else data.decode()
    except ValueError:
        return ""
    return content.decode("utf-8-sig", "replace")


def clean_name(name: str) -> str:
    """Return a file's name without its directories, with unprintable characters replaced."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(char if char.isprintable() else "_" for char in last)


def _check_declared(told: str, found: str) -> None:
    odd = found and not (is_image(told) and is_image(found))
    if told and told != found and (odd or told in _TOLD_BY_BYTES):
        raise MediaError(
            f"media_type is {told}, but the bytes are {found or 'of another type'}; "
            "endpoints reject that, so omit media_type to have it determined from the bytes"
        )


def _check_size(size: int, what: str, max_bytes: int) -> None:
    if not size:
        raise MediaError(f"{what} is empty")
    if size > max_bytes:
        raise MediaError(
            f"{what} has {size} bytes; at most {max_bytes} may be sent (max_bytes); make it "
            "smaller, or pass its URL"
        )


def _check_web_url(source: str) -> None:
    shown = source[:_SHOWN]
    if source[:8].lower().startswith(("http://", "https://")):
        try:
            host = urlsplit(source).hostname
        except ValueError:
            host = None
        if host and not _NOT_IN_URL.search(source):
            return
        raise MediaError(f"{shown!r} is not a URL that an endpoint can fetch")
    raise MediaError(
        f"expected an http(s) URL or a data: URL, but got {shown!r}; to send a local "
        "file, use agent_actors.media.read_image or read_file"
    )


def _check_base64(body: str) -> None:
    # The body is not decoded, because deleting the alphabet takes only a fifth of the time.
    rest = body.rstrip("=")
    sound = len(body) % 4 == 0 and len(body) - len(rest) <= 2 and body.isascii()
    if not sound or rest.encode("ascii").translate(None, _ALPHABET):
        raise MediaError("the data: URL declares base64, but its content is not valid base64")


def _reads_as_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
