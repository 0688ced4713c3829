"""tiktoken's encodings, where it is installed and their data is on this disk.

Owns the one use of tiktoken, and that it never asks the network: tiktoken downloads what its cache
lacks, and what there does not match its checksum, so both are looked at here before it is asked.
Knows where that cache is as tiktoken itself finds it: `TIKTOKEN_CACHE_DIR`, else
`DATA_GYM_CACHE_DIR`, else `data-gym-cache` among the system's temporary files; an empty variable
means no cache. Only the encodings of chat models are known here.
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
"""For models that tiktoken does not know: of those here, it takes the most tokens for a text."""

# The name of the file in the cache, which is the SHA-1 of where tiktoken gets it, and its SHA-256.
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
"""By encoding, the file that it is made of and the checksum of that."""

# Characters that are encoded at once. A million spaces in a row overflow the stack of tiktoken's
# regular expressions, and it panics, which is no `Exception`. A cut adds a token or two at most.
_PIECE: Final = 4096


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


class _Tiktoken(Protocol):
    """As much of tiktoken as is used here."""

    def encoding_name_for_model(self, model_name: str) -> str: ...
    def get_encoding(self, encoding_name: str) -> _Encoding: ...


def tiktoken_counter(model: str = "gpt-3.5-turbo") -> TokenCounter | None:
    """A counter by tiktoken; None where it, or its data, is not on this machine.

    The first call for an encoding reads and unpacks its data, which takes about half a second: make
    the counter before you serve. Nothing is ever downloaded; to have the data, let tiktoken load
    it where the network may be used, such as in the build of an image.

    Args:
        model: The model's name; one that tiktoken does not know counts as `gpt-3.5-turbo`.
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
        # What looks like a special token is text: it comes from a user, or from a tool.
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    return count


class _NotHereError(Exception):
    """The data of an encoding is not on this disk."""


@functools.cache
def _loaded(name: str) -> _Encoding:
    # That it is not there is not kept: somebody may put it there.
    if name not in DATA or not _is_on_disk(*DATA[name]):
        raise _NotHereError
    try:
        return cast(_Tiktoken, import_module("tiktoken")).get_encoding(name)
    except (ValueError, OSError):  # a version that knows no such encoding, or a file just gone
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
