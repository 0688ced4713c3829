"""Ids of calls for endpoints whose template takes nine letters and digits only, as Mistral's does.

An id that is such already goes as it is. Any other becomes nine characters that depend on nothing
but the id, so that a call and its result agree, in every request and in every process. What comes
back from the endpoint is never one of these: the endpoint makes ids of its own for its calls.
"""

import hashlib
import string
from typing import Final

_LETTERS: Final = string.digits + string.ascii_letters
_LENGTH: Final = 9


def short_call_id(call_id: str) -> str:
    """The id as nine letters and digits; two different ids give the same once in 10^16."""
    if len(call_id) == _LENGTH and call_id.isascii() and call_id.isalnum():
        return call_id
    digest = hashlib.blake2b(call_id.encode("utf-8", "replace"), digest_size=8).digest()
    number = int.from_bytes(digest)
    letters: list[str] = []
    for _ in range(_LENGTH):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)
