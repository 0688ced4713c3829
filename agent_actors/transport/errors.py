"""What can go wrong between two ends of a connection, in the transport's own words.

Owns its exceptions, which the faces of the transport translate: `exchange` into the house's errors,
`httpx_transport` into httpx's. They never leave this room.
"""

from typing import Final, cast

import trio

_NETWORK_ERRORS: Final = (OSError, trio.BrokenResourceError)


class ConnectFailed(Exception):
    """No connection came about."""


class ConnectTimeout(Exception):
    """No connection came about in time."""


class SendTimeout(Exception):
    """The peer took nothing for too long."""


class ConnectionLost(Exception):
    """The connection broke.

    Args:
        reason: In words.
        answered: True if a byte of an answer had come before.
    """

    def __init__(self, reason: str, *, answered: bool = False) -> None:
        super().__init__(reason)
        self.answered: bool = answered


class BadResponse(Exception):
    """What came is not HTTP as it must be, or over a limit."""


class BadContent(Exception):
    """The content of an answer could not be decoded."""


class BadRequest(Exception):
    """The request cannot be sent as it is."""


def reason_of(error: BaseException) -> str:
    """What lies at the bottom of an error: the libraries between tell no more than their names."""
    text = ""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):  # one member an address that was tried
            cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
        text = str(cause) or text
        # httpcore hides its causes. What else stands as context may be the caller's own business.
        hidden = cause.__context__
        cause = cause.__cause__ or (hidden if isinstance(hidden, _NETWORK_ERRORS) else None)
    return text or type(error).__name__
