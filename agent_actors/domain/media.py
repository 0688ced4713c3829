"""What images and files are made of: bytes, media types, and `data:` URLs that carry both.

Owns what counts as an image, a text or a PDF by its first bytes, what a sound source is, and how
large one may be. It reads no file and asks no network: bytes come in, URLs come out. Endpoints
refuse an image whose declared type is not that of its bytes, and refuse it again on each later turn
of the session; so everything is checked here, before it is in a history.
"""

import base64
import re
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

import attrs

from agent_actors.errors import MediaError

MAX_MEDIA_BYTES: Final = 20 * 2**20
"""Bytes of one image or file, before base64, unless the caller says otherwise. Hosted endpoints
take requests of about 32 MB, which is 24 MB before base64 with nothing beside it."""

UNKNOWN_TYPE: Final = "application/octet-stream"

_DATA: Final = "data:"
_BASE64: Final = "base64"
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_ALIASES: Final = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg"}
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_NOT_IN_URL: Final = re.compile(r"[\s\x00-\x1f\x7f]")
_LONGEST_HEAD: Final = 1024
"""Characters before the content of a `data:` URL, and of a URL of the web, that are nothing odd."""

_SHOWN: Final = 60
"""Characters of a bad value that a message repeats."""

_PDF: Final = "application/pdf"
_PDF_MAGIC: Final = b"%PDF-"
# First bytes, where they begin, and what they tell.
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
"""Of these types all bytes begin as the table says; of the others there are more forms."""

_PDF_HEAD: Final = 1024
"""Readers of PDF take a header that begins anywhere in the first kilobyte."""

# Of the platform's own table nothing is used: it differs from machine to machine.
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
    """A `data:` URL, taken apart.

    Attributes:
        media_type: In lower case, by its usual name; empty if the URL tells none.
        body: What stands behind the comma.
        is_base64: Whether `body` is base64, else percent-encoded.
    """

    media_type: str
    body: str = attrs.field(repr=False)
    is_base64: bool

    @property
    def base64(self) -> str:
        """The bytes in base64, without blanks; it is not checked."""
        if not self.is_base64:
            return base64.b64encode(unquote_to_bytes(self.body)).decode()
        body = self.body
        if "%" in body:
            body = unquote_to_bytes(body).decode("latin-1")
        # Looked for first: of a large image, each copy takes longer than the look.
        return "".join(body.split()) if any(blank in body for blank in " \n\r\t") else body

    def decode(self) -> bytes:
        """The bytes.

        Raises:
            ValueError: They are no base64.
        """
        if not self.is_base64:
            return unquote_to_bytes(self.body)
        return base64.b64decode(self.base64)


def split_data_url(source: str) -> DataUrl | None:
    """The parts of a `data:` URL; None if it is something else."""
    if source[: len(_DATA)].lower() != _DATA:
        return None
    head, _, body = source[len(_DATA) :].partition(",")
    told, *options = (part.strip().lower() for part in head.split(";"))
    return DataUrl(usual_name(told), body, _BASE64 in options)


def data_url(data: bytes, media_type: str) -> str:
    """The bytes as a `data:` URL in base64."""
    return f"{_DATA}{media_type};{_BASE64},{base64.b64encode(data).decode()}"


def usual_name(media_type: str) -> str:
    """A media type in lower case, without parameters, and by its usual name."""
    bare = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(bare, bare)


def sniff(data: bytes) -> str:
    """The media type that the first bytes tell: an image's or a PDF's; empty if they tell none."""
    for magic, start, media_type in _MAGIC:
        if data.startswith(magic, start):
            return media_type
    return ""


def is_text(media_type: str) -> bool:
    """True for media types whose content is text."""
    if media_type.startswith("text/") or media_type in _TEXTUAL:
        return True
    # An image that is written in XML is an image all the same.
    return media_type.endswith(("+json", "+xml")) and not is_image(media_type)


def is_image(media_type: str) -> bool:
    """True for the media types of images."""
    return media_type.startswith("image/")


def checked_type(declared: str) -> str:
    """A media type that somebody declared, by its usual name; empty if there is none.

    Raises:
        MediaError: It is no media type.
    """
    name = usual_name(declared)
    if name and not _MEDIA_TYPE.fullmatch(name):
        raise MediaError(f"{declared[:_SHOWN]!r} is no media type; expected one like image/png")
    return name


def image_type(data: bytes, declared: str, *, max_bytes: int) -> str:
    """The media type of an image, from its bytes.

    Raises:
        MediaError: It is empty or too large; the bytes are of another type than declared; or
            neither they nor `declared` tell that this is an image.
    """
    _check_size(len(data), "the image", max_bytes)
    told, found = checked_type(declared), sniff(data)
    _check_told(told, found)
    media_type = found or told
    if not media_type:
        raise MediaError(
            "the first bytes are of no image known here; pass its media_type, such as image/png"
        )
    if not is_image(media_type):
        raise MediaError(f"expected an image, and this is {media_type}; send it as a FileBlock")
    return media_type


def file_type(data: bytes, declared: str, name: str, *, max_bytes: int) -> str:
    """The media type of a file: as declared, else by its bytes, its name, or as it reads.

    Raises:
        MediaError: It is empty or too large; the bytes are of another type than declared; or it
            is said to be text and is no UTF-8.
    """
    _check_size(len(data), f"the file {name!r}" if name else "the file", max_bytes)
    told, found = checked_type(declared), sniff(data)
    if told == _PDF and _PDF_MAGIC in data[:_PDF_HEAD]:
        found = told
    _check_told(told, found)
    media_type = told or found or _BY_ENDING.get(name.rpartition(".")[2].lower(), "")
    if media_type and not is_text(media_type):
        return media_type
    # Unknown so far, or text: both hang on whether it reads as text.
    if _reads_as_text(data):
        return media_type or "text/plain"
    if media_type:
        raise MediaError(
            f"expected {media_type} in UTF-8, and the bytes are not; decode them and use "
            "FileBlock.from_text, or pass the media_type that they have"
        )
    return UNKNOWN_TYPE


def check_source(source: str) -> None:
    """Check what an endpoint could be given as the source of an image or a file.

    Raises:
        MediaError: It is neither an http(s) URL nor a `data:` URL with content, or its base64 is
            none.
    """
    data = split_data_url(source)
    if data is None:
        _check_web_url(source)
        return
    checked_type(data.media_type)
    if not data.body.strip():
        raise MediaError("the data: URL holds no bytes")
    if data.is_base64:
        _check_base64(data.base64)


def url_content(source: str, *, max_bytes: int) -> tuple[str, bytes] | None:
    """The media type and the bytes that a `data:` URL carries; None for a URL of the web.

    Raises:
        MediaError: As `check_source` tells, or it is far too long.
    """
    # No need to look into what cannot fit; percent-encoding takes three characters a byte.
    if len(source) > 3 * max_bytes + _LONGEST_HEAD:
        raise MediaError(
            f"the URL has {len(source)} characters; at most {max_bytes} bytes may be sent "
            "(max_bytes)"
        )
    check_source(source)
    data = split_data_url(source)
    return None if data is None else (data.media_type, data.decode())


def decoded_text(source: str) -> str:
    """What a `data:` URL of text reads; nothing if its base64 is none.

    Bytes that are no UTF-8 are replaced, and a mark of byte order is left out.
    """
    data = split_data_url(source)
    try:
        content = b"" if data is None else data.decode()
    except ValueError:
        return ""
    return content.decode("utf-8-sig", "replace")


def clean_name(name: str) -> str:
    """A file's name with what is not printable replaced, and without a path before it."""
    last = re.split(r"[/\\]", name)[-1]
    return "".join(char if char.isprintable() else "_" for char in last)


def _check_told(told: str, found: str) -> None:
    odd = found and not (is_image(told) and is_image(found))
    if told and told != found and (odd or told in _TOLD_BY_BYTES):
        raise MediaError(
            f"declared as {told}, but the bytes are {found or 'of another type'}; endpoints "
            "refuse that: leave media_type out to have it told by the bytes"
        )


def _check_size(size: int, what: str, max_bytes: int) -> None:
    if not size:
        raise MediaError(f"{what} is empty")
    if size > max_bytes:
        raise MediaError(
            f"{what} has {size} bytes; at most {max_bytes} may be sent (max_bytes): make it "
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
        raise MediaError(f"{shown!r} is no URL that an endpoint could fetch")
    raise MediaError(
        f"expected an http(s) URL or a data: URL, and got {shown!r}; a file of this machine is "
        "read by agent_actors.media.read_image or read_file"
    )


def _check_base64(body: str) -> None:
    # Not decoded: deleting the alphabet takes a fifth of the time.
    rest = body.rstrip("=")
    sound = len(body) % 4 == 0 and len(body) - len(rest) <= 2 and body.isascii()
    if not sound or rest.encode("ascii").translate(None, _ALPHABET):
        raise MediaError("the data: URL says base64, and its content is none")


def _reads_as_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
