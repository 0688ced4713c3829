"""Validate the token counts that endpoints send, for all protocols.

A value is not a valid count if it is text, a boolean, negative, not a number, or larger than any
model's limit. Such a value is treated as missing: the next field name is tried, and if there is
none, the count is estimated. Invalid counts therefore never reach usage totals and prices.
"""

from collections.abc import Mapping
from typing import Final

MOST: Final = 1_000_000_000_000
"""The largest valid number of tokens, a million times the size of the largest context windows."""


def count_in(raw: Mapping[str, object], *names: str) -> int:
    """Return the first positive count under one of these names; 0 if there is none."""
    return next(filter(None, (_count(raw.get(name)) for name in names)), 0)


def has_count(raw: Mapping[str, object], *names: str) -> bool:
    """Return whether there is a valid count, possibly 0, under one of these names."""
    return any(_count(raw.get(name)) is not None for name in names)


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Some endpoints write Infinity and NaN in JSON, and `1e400` is parsed as infinity.
    return int(value) if 0 <= value <= MOST else None
