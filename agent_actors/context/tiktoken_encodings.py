"""tiktoken's encodings, if tiktoken is installed and their data is on this disk.

Only this module uses tiktoken. tiktoken downloads data that is missing from its cache or has a
wrong checksum. To prevent any network access, this module checks both before it calls tiktoken. The
cache is located in the same way as in tiktoken: `TIKTOKEN_CACHE_DIR`, else `DATA_GYM_CACHE_DIR`,
else `data-gym-cache` in the system's directory for temporary files. An empty variable means no
cache. Only the encodings used by chat models are supported.
"""

import functools
import hashlib
import os
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from agent_actors.protocol.token_estimate import TokenCounter

DEFAULT_ENCODING: Final = "cl100k_base"
"""The encoding for models that tiktoken does not know: of these encodings, it yields the most
tokens.
"""

# The name of the file in the cache (the SHA-1 of its URL), and the SHA-256 of its content.
_CL100K: Final = (
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
)
_O200K: Final = (
    "fb374d419588a4632f3f557e76b4b70aebbca790",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
)
DATA: Final[Mapping[str, tuple[str, str]]] = {
    "cl100k_base": _CL100K,
    "o200k_base": _O200K,
    "o200k_harmony": _O200K,
}
"""The file name and the checksum for each encoding."""

# Number of characters to encode at once. A million spaces in a row overflow the stack of tiktoken's
# regular expressions, and the resulting panic is not an `Exception`. Each split adds at most one or
# two tokens.
_PIECE: Final = 4096


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


class _Tiktoken(Protocol):
    """The part of tiktoken that is used here."""

    def encoding_name_for_model(self, model_name: str) -> str: ...
    def get_encoding(self, encoding_name: str) -> _Encoding: ...


def tiktoken_counter(model: str = "gpt-3.5-turbo") -> TokenCounter | None:
    """Return a counter that uses tiktoken; None if tiktoken or its data is not on this machine.

    The first call for an encoding reads and unpacks its data, which takes about half a second, so
    create the counter at startup. Nothing is ever downloaded. To install the data, let tiktoken
    load it where network access is allowed, for example when an image is built.

    Args:
        model: The model's name; a model that tiktoken does not know is counted as `gpt-3.5-turbo`.
    """
    try:
        tiktoken = cast(_Tiktoken, import_module("tiktoken"))
    except ImportError:
        return None
    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        name = DEFAULT_ENCODING
    try:
        encoding = _loaded(name)
    except _NotHereError:
        return None

    def count(text: str, /) -> int:
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        # Text that looks like a special token is ordinary text, because it comes from a user or a
        # tool.
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    return count


class _NotHereError(Exception):
    """The data of an encoding is not on this disk."""


@functools.cache
def _loaded(name: str) -> _Encoding:
    # The absence of data is not cached, because the data may be installed later.
    if name not in DATA or not _is_on_disk(*DATA[name]):
        raise _NotHereError
    try:
        return cast(_Tiktoken, import_module("tiktoken")).get_encoding(name)
    except (ValueError, OSError):
        # This version does not know the encoding, or the file was deleted.
        raise _NotHereError from None


def _is_on_disk(file: str, checksum: str) -> bool:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder == "":
        return False
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    try:
        with (Path(folder) / file).open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == checksum
    except OSError:
        return False
