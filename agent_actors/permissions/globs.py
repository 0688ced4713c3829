"""Glob patterns, and the normalization of texts for comparison.

`*` matches any number of characters, `?` one character, `[abc]` one of a set, and `[*]` a literal
star. The standard library's `fnmatch` compiles the patterns to regular expressions that do not
backtrack excessively on hostile text.
"""

import fnmatch
import re
import unicodedata
from typing import TypeAlias

Glob: TypeAlias = re.Pattern[str]

_MAGIC = re.compile(r"([*?[])")


def glob(pattern: str) -> Glob:
    """Compile a case-sensitive pattern, to be used with `fullmatch`."""
    return re.compile(fnmatch.translate(pattern))


def wide_glob(pattern: str) -> Glob:
    """Compile a pattern for texts normalized by `folded`."""
    return glob(folded(pattern))


def folded(text: str) -> str:
    """Normalize a text by removing differences that some file systems, shells and hosts ignore.

    The ignored differences are case, the kind and number of blanks, and different Unicode
    representations of a character.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def escaped(text: str) -> str:
    """Return a pattern that matches only this text."""
    return _MAGIC.sub(r"[\1]", text)
