"""Token counts as endpoints tell them: which of what stands there is a count at all.

Owns one question, for both protocols. What is no count (a text, a truth value, less than nothing,
no number, more than any model takes) was not told: then the next name is looked at, and in the end
the count is estimated. So no nonsense reaches the accounts, which add it up and price it.
"""

from collections.abc import Mapping
from typing import Final

MOST: Final = 1_000_000_000_000
"""Tokens. A million times what the largest contexts hold; what is above is garbage."""


def count_in(raw: Mapping[str, object], *names: str) -> int:
    """The first count above zero under one of these names; 0 if there is none."""
    return next(filter(None, (_count(raw.get(name)) for name in names)), 0)


def is_told(raw: Mapping[str, object], *names: str) -> bool:
    """True if there is a count, be it zero, under one of these names."""
    return any(_count(raw.get(name)) is not None for name in names)


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # JSON as some write it has Infinity and NaN, and `1e400` is read as the former.
    return int(value) if 0 <= value <= MOST else None
