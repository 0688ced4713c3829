"""Listings of sessions: validated queries, and the positions at which pages begin.

Pure. A session's position in a listing is its time and its id, both in descending order. The id,
compared as UTF-8, orders sessions with the same time. The `next` of a page is the position of the
page's last session. Pages therefore need no snapshot, and the store may change between them.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs
import msgspec

from agent_actors.domain.json import JsonValue
from agent_actors.domain.session import JsonScalar, SessionInfo, SessionOrder, SessionPage
from agent_actors.errors import ConfigError

# Maximum number of sessions on a page. A page is decoded in one step that blocks.
MAX_PAGE: Final = 1_000

Place: TypeAlias = tuple[float, str]

_PLACE: Final = msgspec.json.Decoder(tuple[float, str])


@attrs.frozen
class Query:
    """A validated listing request.

    Attributes:
        where: Metadata keys, each with the JSON of its required value.
        order: The time to order by.
        limit: The maximum number of sessions on a page.
        after: The position after which the page begins; None to begin with the newest session.
    """

    where: Mapping[str, bytes]
    order: SessionOrder
    limit: int
    after: Place | None

    def takes(self, info: SessionInfo) -> bool:
        """Return whether a session belongs on this page or a later one."""
        if self.after is not None and self.place(info) >= self.after:
            return False
        return all(encoded(info.metadata.get(key)) == value for key, value in self.where.items())

    def place(self, info: SessionInfo) -> Place:
        """Return the position of a session in this order."""
        return (info.updated_at if self.order == "updated" else info.created_at, info.session_id)

    def page(self, infos: Iterable[SessionInfo]) -> SessionPage:
        """Return a page, given matching sessions in order.

        Args:
            infos: Up to `limit + 1` sessions. The additional one only shows that there is another
                page.
        """
        found = tuple(infos)
        shown = found[: self.limit]
        more = len(found) > self.limit
        after = msgspec.json.encode(self.place(shown[-1])).decode() if more else None
        return SessionPage(shown, after)

    def page_of_all(self, infos: Iterable[SessionInfo]) -> SessionPage:
        """Return a page, given all sessions in any order."""
        taken = sorted(filter(self.takes, infos), key=self.place, reverse=True)
        return self.page(taken[: self.limit + 1])


def asked(
    where: Mapping[str, JsonScalar] | None,
    order: SessionOrder,
    limit: int,
    after: str | None,
) -> Query:
    """Validate the arguments of `list_sessions`.

    Raises:
        ConfigError: An argument is invalid.
    """
    if order not in ("created", "updated"):
        raise ConfigError(f"order must be 'created' or 'updated'; got {order!r}")
    if not 1 <= limit <= MAX_PAGE:
        raise ConfigError(f"limit must be between 1 and {MAX_PAGE}; got {limit}")
    conditions: dict[str, bytes] = {}
    values: Mapping[str, object] = where or {}
    for key, value in values.items():
        if not isinstance(value, str | int | float | bool | None):
            raise ConfigError(
                f"values of `where` must be str, int, float, bool or None; got "
                f"{type(value).__name__} for {key!r}"
            )
        conditions[key] = encoded(value)
    return Query(conditions, order, limit, None if after is None else _place(after))


def _place(after: str) -> Place:
    try:
        return _PLACE.decode(after)
    except ValueError:
        raise ConfigError(
            f"after must be the `next` of an earlier page; got {after[:80]!r}"
        ) from None


def encoded(value: JsonValue) -> bytes:
    """Return the canonical JSON of a metadata value, which is the same for equal values."""
    return msgspec.json.encode(value, order="sorted")
