"""Exceptions that are internal to the transport.

They never leave this package. Each backend translates them: `native` into the errors of
`agent_actors.errors`, `httpx_transport` into those of httpx.
"""

import errno
import sys
from collections.abc import Iterator
from typing import Final, cast

import trio

if sys.platform != "win32":
    import resource

_NETWORK_ERRORS: Final = (OSError, trio.BrokenResourceError)


class ConnectFailed(Exception):
    """The connection could not be made."""


class AddressRefused(ConnectFailed):
    """The host has an address that must not be connected to."""


class ConnectTimeout(Exception):
    """The connection was not made in time."""


class SendTimeout(Exception):
    """The peer accepted no data for too long."""


class ConnectionLost(Exception):
    """The connection was lost.

    Args:
        reason: A description of the cause.
        answered: True if any byte of a response had arrived.
    """

    def __init__(self, reason: str, *, answered: bool = False) -> None:
        super().__init__(reason)
        self.answered: bool = answered


class BadResponse(Exception):
    """The received data is not valid HTTP or exceeds a limit."""


class BadContent(Exception):
    """The content of a response could not be decoded."""


class ContentCut(BadContent):
    """The compressed content of a response ended too early, although its HTTP framing was complete.

    Usually the server or a proxy failed while it was compressing the response.
    """


class BadRequest(Exception):
    """The request cannot be sent in this form."""


def reason_of(error: BaseException) -> str:
    """Return the message of the innermost cause; wrapping libraries often add only a class name."""
    text = ""
    for cause in _chain(error):
        text = _worded(cause) or text
    return text or type(error).__name__


def root_of(error: BaseException) -> BaseException:
    """Return the exception to show as the only cause of an error of this package.

    If the innermost cause is a network failure, it is returned without its traceback and without
    causes of its own. The intermediate exceptions would repeat the same failure up to four times.
    For a host name with several addresses, there is also a group with one traceback per address.
    Other causes may come from the caller's code. They keep their traceback and the intermediate
    exceptions.
    """
    *_, root = _chain(error)
    if not isinstance(root, _NETWORK_ERRORS):
        return error
    root.__cause__ = None  # also suppresses the context, an intermediate exception
    return root.with_traceback(None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first; for a group, only its first member."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):  # each member is one address that was tried
            cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
        yield cause
        # httpcore suppresses the causes of its errors. Any other context may be an unrelated
        # exception of the caller.
        hidden = cause.__context__
        cause = cause.__cause__ or (hidden if isinstance(hidden, _NETWORK_ERRORS) else None)


def _worded(error: BaseException) -> str:
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EMFILE:
        return (
            f"too many open files: this process may have {_open_files_limit()} (RLIMIT_NOFILE, "
            "`ulimit -n`); raise the limit, or make fewer requests at the same time"
        )
    if code == errno.ENFILE:
        return "too many open files in the whole system (`sysctl fs.file-max`)"
    return str(error)


def _open_files_limit() -> str:
    if sys.platform == "win32":  # pragma: no cover
        return "no more"
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
