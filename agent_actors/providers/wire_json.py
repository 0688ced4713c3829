"""Read the fields of JSON whose types may differ from the protocol's, for all protocols.

If a line does not have the types that the protocol documents, a `FieldReader` reads its fields one
by one, so that only the invalid fields are lost.
"""

import json
from typing import Final, TypeAlias, TypeVar, cast

T = TypeVar("T")

# A JSON object. Its type is not recursive, because msgspec cannot decode a recursive type.
WireObject: TypeAlias = dict[str, object]

_MAX_DIGITS: Final = 9
"""The maximum number of digits of an index that is sent as text; longer numbers are not indexes."""

_SAYS_NOTHING: Final[tuple[object, ...]] = (None, False, "", [], {})
"""Values that some endpoints send in place of null."""


class FieldReader:
    """Reads the fields of a line one by one.

    Args:
        lost: Receives the names of the fields whose values are dropped, because a part of the
            response is lost with them. Empty values (null, blanks) are not reported.
    """

    def __init__(self, lost: list[str]) -> None:
        self.lost: list[str] = lost

    def objects(self, value: object, name: str) -> list[WireObject]:
        """Return the objects in a list, or a single object in its place."""
        if isinstance(value, dict):
            return [cast(WireObject, value)]
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        if any(item is not None and not isinstance(item, dict) for item in items):
            self.lost.append(name)
        return [cast(WireObject, item) for item in items if isinstance(item, dict)]

    def object(self, raw: WireObject, key: str) -> WireObject | None:
        """Return the object under this key."""
        return self.checked(raw, key, object_in(raw, key))

    def number(self, raw: WireObject, key: str) -> int | None:
        """Return the index under this key."""
        return self.checked(raw, key, number_in(raw, key))

    def checked(self, raw: WireObject, key: str, found: T | None) -> T | None:
        """Return the value that was found under this key, and report it as lost if it is None."""
        if found is None and raw.get(key) not in _SAYS_NOTHING:
            self.lost.append(key)
        return found


def object_in(raw: WireObject, key: str) -> WireObject | None:
    """Return the object under this key; None if there is none."""
    value = raw.get(key)
    return cast(WireObject, value) if isinstance(value, dict) else None


def number_in(raw: WireObject, key: str) -> int | None:
    """Return the integer under this key, which may be sent as text; None if there is none."""
    value = raw.get(key)
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) <= _MAX_DIGITS else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_in(raw: WireObject, key: str) -> str:
    """Return the text or integer under this key as text; empty if there is none."""
    value = raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def json_in(raw: WireObject, key: str) -> str | WireObject | None:
    """Return the arguments under this key: an object, or JSON text of any other value.

    The text of a value that cannot be arguments appears in the resulting error.
    """
    value = raw.get(key)
    if value is None or isinstance(value, str):
        return value
    return cast(WireObject, value) if isinstance(value, dict) else json.dumps(value)
