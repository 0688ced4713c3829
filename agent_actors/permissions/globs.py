"""Globs, compiled, and texts made comparable.

`*` is any number of characters, `?` one, `[abc]` one of them; `[*]` is a star itself. Compiled by
the standard library's `fnmatch`, whose expressions do not backtrack into a hang on hostile text.
"""

import fnmatch
import re
import unicodedata
from typing import TypeAlias

Glob: TypeAlias = re.Pattern[str]

_MAGIC = re.compile(r"([*?[])")


def glob(pattern: str) -> Glob:
    """The pattern, to be used with `fullmatch`; case counts."""
    return re.compile(fnmatch.translate(pattern))


def wide_glob(pattern: str) -> Glob:
    """The pattern for texts that `folded` made comparable."""
    return glob(folded(pattern))


def folded(text: str) -> str:
    """The text without what some file systems, shells and hosts do not tell apart.

    Case, kinds of blanks and their number, and the several spellings of one character in Unicode.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def escaped(text: str) -> str:
    """The text as a pattern that means only itself."""
    return _MAGIC.sub(r"[\1]", text)
