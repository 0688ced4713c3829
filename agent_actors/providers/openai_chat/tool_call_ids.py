"""Call ids for endpoints whose template accepts only nine letters and digits, such as Mistral's.

An id of this form is sent unchanged. Any other id is converted to nine characters that depend only
on the id, so that a call and its result match in every request and in every process. Responses
never contain the converted ids, because the endpoint creates its own ids for its calls.
"""

import hashlib
import string
from typing import Final

_LETTERS: Final = string.digits + string.ascii_letters
_LENGTH: Final = 9


def short_call_id(call_id: str) -> str:
    """Return the id as nine letters and digits. Two ids collide with a probability of 10^-16."""
    if len(call_id) == _LENGTH and call_id.isascii() and call_id.isalnum():
        return call_id
    digest = hashlib.blake2b(call_id.encode("utf-8", "replace"), digest_size=8).digest()
    number = int.from_bytes(digest)
    letters: list[str] = []
    for _ in range(_LENGTH):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)
