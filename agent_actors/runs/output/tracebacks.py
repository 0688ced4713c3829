"""Short tracebacks for failed model requests.

A failed request passes through twenty functions of this package before it reaches the caller. These
functions are irrelevant to the failure: the message names the endpoint and the cause.
"""

from types import TracebackType
from typing import Final, TypeVar

from agent_actors.errors import ProviderError

ErrorT = TypeVar("ErrorT", bound=BaseException)

_PACKAGE: Final = __name__.partition(".")[0]


def without_own_frames(error: ErrorT) -> ErrorT:
    """Remove the frames of this package from the traceback of a `ProviderError`.

    The frames of other code stay: a user's provider or hook may have raised the error. Other
    exceptions keep all frames, because they may be caused by a bug in this package.

    Returns:
        The error itself.
    """
    if isinstance(error, ProviderError):
        error.__traceback__ = _foreign_frames(error.__traceback__)
    return error


def _foreign_frames(traceback: TracebackType | None) -> TracebackType | None:
    frames: list[TracebackType] = []
    while traceback is not None:
        module: object = traceback.tb_frame.f_globals.get("__name__", "")
        if str(module).partition(".")[0] != _PACKAGE:
            frames.append(traceback)
        traceback = traceback.tb_next
    for kept in reversed(frames):
        traceback = TracebackType(traceback, kept.tb_frame, kept.tb_lasti, kept.tb_lineno)
    return traceback
