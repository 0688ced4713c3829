"""Listings: what a page asks for, checked, and the places where pages begin.

Pure. A session's place is its time and its id, both descending: ids tell apart what began in the
same moment, in the order of their UTF-8. What a page's `next` holds is the place of its last
session, so that pages need no snapshot and no session of the store needs to stand still.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs
import msgspec

from agent_actors.domain.json import JsonValue
from agent_actors.domain.session import JsonScalar, SessionInfo, SessionOrder, SessionPage
from agent_actors.errors import ConfigError

# A page is decoded at once, in one go.
MAX_PAGE: Final = 1_000

Place: TypeAlias = tuple[float, str]

_PLACE: Final = msgspec.json.Decoder(tuple[float, str])


@attrs.frozen
class Query:
    """A listing that was asked for, checked.

    Attributes:
        where: Keys of the metadata, and the JSON of the value of each.
        order: By which time.
        limit: The most on a page.
        after: The place after which the page begins; None: with the newest.
    """

    where: Mapping[str, bytes]
    order: SessionOrder
    limit: int
    after: Place | None

    def takes(self, info: SessionInfo) -> bool:
        """Whether a session is on this page or a later one."""
        if self.after is not None and self.place(info) >= self.after:
            return False
        return all(encoded(info.metadata.get(key)) == value for key, value in self.where.items())

    def place(self, info: SessionInfo) -> Place:
        """Where a session stands."""
        return (info.updated_at if self.order == "updated" else info.created_at, info.session_id)

    def page(self, infos: Iterable[SessionInfo]) -> SessionPage:
        """The page, from sessions that it takes, in order; one more than fit tells of a next."""
        found = tuple(infos)
        shown = found[: self.limit]
        more = len(found) > self.limit
        after = msgspec.json.encode(self.place(shown[-1])).decode() if more else None
        return SessionPage(shown, after)

    def page_of_all(self, infos: Iterable[SessionInfo]) -> SessionPage:
        """The page, from all sessions in any order."""
        taken = sorted(filter(self.takes, infos), key=self.place, reverse=True)
        return self.page(taken[: self.limit + 1])


def asked(
    where: Mapping[str, JsonScalar] | None,
    order: SessionOrder,
    limit: int,
    after: str | None,
) -> Query:
    """What `list_sessions` was asked for.

    Raises:
        ConfigError: A bound, an order, a value or an `after` that is none.
    """
    if order not in ("created", "updated"):
        raise ConfigError(f"sessions are listed by 'created' or 'updated'; got {order!r}")
    if not 1 <= limit <= MAX_PAGE:
        raise ConfigError(f"a page holds 1 to {MAX_PAGE} sessions; got limit={limit}")
    wanted: dict[str, bytes] = {}
    values: Mapping[str, object] = where or {}
    for key, value in values.items():
        if not isinstance(value, str | int | float | bool | None):
            raise ConfigError(
                f"sessions are found by text, numbers, bools and None; got "
                f"{type(value).__name__} for {key!r}"
            )
        wanted[key] = encoded(value)
    return Query(wanted, order, limit, None if after is None else _place(after))


def _place(after: str) -> Place:
    try:
        return _PLACE.decode(after)
    except ValueError:
        raise ConfigError(f"after={after[:80]!r} is the `next` of no page") from None


def encoded(value: JsonValue) -> bytes:
    """The JSON of a value of the metadata; values are the same if this is."""
    return msgspec.json.encode(value, order="sorted")
