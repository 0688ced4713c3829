"""Observed operations: how actors and runs report to an `Instrumentation`.

The runtime wraps the user's instrumentation in a `SafeInstrumentation`, so that an error in it is
logged and never affects a run.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Final, Self, TypeVar

import attrs

from agent_actors.abc import Instrumentation, Observation
from agent_actors.abc.operations import Operation, Outcome, WaitOperation
from agent_actors.domain.usage import TokenStats

_LOG: Final = logging.getLogger(__name__)

_UNOBSERVED: Final = nullcontext()
_NO_HEADERS: Final[Mapping[str, str]] = {}

WAIT_FOR_SESSION: Final = WaitOperation("session")
WAIT_FOR_ENDPOINT: Final = WaitOperation("endpoint")
WAIT_FOR_TOOL: Final = WaitOperation("tool")

T = TypeVar("T")


def observed(
    instrumentation: Instrumentation | None, operation: Operation
) -> AbstractContextManager[object]:
    """Return a context manager that observes an operation without an outcome."""
    return _UNOBSERVED if instrumentation is None else instrumentation.observe(operation)


@attrs.define(eq=False)
class SafeInstrumentation:
    """An `Instrumentation` that logs the exceptions of another one.

    Args:
        instrumentation: The other instrumentation.
    """

    _instrumentation: Instrumentation

    def observe(self, operation: Operation) -> "SafeObservation":
        """Return an observation of an operation; it does nothing if the other one failed."""
        begin = self._instrumentation.observe
        return SafeObservation(_attempt(lambda: begin(operation), None))

    def count_tokens(self, stats: TokenStats) -> None:
        """Pass token counts on."""
        _attempt(lambda: self._instrumentation.count_tokens(stats), None)


@attrs.define(eq=False)
class SafeObservation:
    """An `Observation` that logs the exceptions of another one.

    Args:
        observation: The other observation; None if it could not be created.
    """

    _observation: Observation | None

    @property
    def request_headers(self) -> Mapping[str, str]:
        """The headers to add to a request; empty if the other observation failed."""
        inner = self._observation
        return _NO_HEADERS if inner is None else _attempt(lambda: inner.request_headers, {})

    def __enter__(self) -> Self:
        inner = self._observation
        if inner is not None:
            self._observation = _attempt(lambda: (inner.__enter__(), inner)[1], None)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        inner, self._observation = self._observation, None
        if inner is not None:
            _attempt(lambda: inner.__exit__(exc_type, exc, traceback), None)

    def note_first_token(self) -> None:
        """Pass the call on."""
        inner = self._observation
        if inner is not None:
            _attempt(inner.note_first_token, None)

    def note_outcome(self, outcome: Outcome) -> None:
        """Pass the outcome on."""
        inner = self._observation
        if inner is not None:
            _attempt(lambda: inner.note_outcome(outcome), None)


def _attempt(step: Callable[[], T], otherwise: T) -> T:
    try:
        return step()
    except Exception:  # noqa: BLE001 - user code
        _LOG.warning("the instrumentation failed; the run is not affected", exc_info=True)
        return otherwise
