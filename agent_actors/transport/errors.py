"""Exceptions of the transport.

They do not leave the package. Each backend translates them: `native` into the errors of
`agent_actors.errors`, `httpx_transport` into those of httpx.
"""

from typing import Final, cast

import trio

_NETWORK_ERRORS: Final = (OSError, trio.BrokenResourceError)


class ConnectFailed(Exception):
    """No connection could be made."""


class ConnectTimeout(Exception):
    """No connection could be made in time."""


class SendTimeout(Exception):
    """The peer accepted no data for too long."""


class ConnectionLost(Exception):
    """The connection broke.

    Args:
        reason: A description.
        answered: True if a byte of a response had arrived before.
    """

    def __init__(self, reason: str, *, answered: bool = False) -> None:
        super().__init__(reason)
        self.answered: bool = answered


class BadResponse(Exception):
    """The data is not valid HTTP or exceeds a limit."""


class BadContent(Exception):
    """The content of a response could not be decoded."""


class ContentCut(BadContent):
    """The compressed content of a response ended too early, although its HTTP framing was complete.

    Usually the server or a proxy failed while it compressed the response.
    """


class BadRequest(Exception):
    """The request cannot be sent in this form."""


def reason_of(error: BaseException) -> str:
    """Return the innermost cause of an error; wrapping libraries often add only a class name."""
    text = ""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):  # each member is one address that was tried
            cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
        text = str(cause) or text
        # httpcore hides its causes. Any other context may belong to an unrelated exception of the
        # caller.
        hidden = cause.__context__
        cause = cause.__cause__ or (hidden if isinstance(hidden, _NETWORK_ERRORS) else None)
    return text or type(error).__name__
