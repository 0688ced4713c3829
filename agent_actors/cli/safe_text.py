"""Text from models, tools and endpoints, made safe for terminals and pipes. Pure.

Control characters move the cursor and change the terminal. Characters that change the direction of
text can make one command look like another. Even piped output often ends up on a terminal, so these
characters are never written unchanged, except for newline and tab.
"""

from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_REPLACED: Final = (
    *range(0x09),
    *range(0x0B, 0x20),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),  # embeddings and overrides
    *range(0x2066, 0x2070),  # isolates, and deprecated switches
)
# A carriage return, and marks that only move the punctuation next to them.
_REMOVED: Final = (0x0D, 0x061C, 0x200E, 0x200F)
_SAFE: Final = {**dict.fromkeys(_REPLACED, REPLACEMENT), **dict.fromkeys(_REMOVED)}
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _SAFE}


def clean(text: str) -> str:
    """Replace or remove unsafe characters; newlines and tabs are kept."""
    return text.translate(_SAFE)


def visible(text: str) -> str:
    """Return a text as one line without unsafe characters."""
    return " ".join(clean(text).split())


def safe_json(text: str) -> str:
    """Escape the unsafe characters in a JSON text; its value stays the same."""
    return text.translate(_ESCAPES)
