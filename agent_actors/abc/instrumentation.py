"""The port through which a runtime reports its operations, for traces and metrics."""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from agent_actors.abc.operations import Operation, Outcome
from agent_actors.domain.usage import TokenStats


class Observation(Protocol):
    """One operation that is being observed; a context manager around it.

    The runtime enters and leaves the observation exactly once, in the task that performs the
    operation. The exception that ends the operation is passed to `__exit__`: an error, or
    `trio.Cancelled`.
    """

    @property
    def request_headers(self) -> Mapping[str, str]:
        """Headers to add to the request of a model call; they never replace the caller's."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

    def note_first_token(self) -> None:
        """Handle the first content of a model's response; called at most once."""
        ...

    def note_outcome(self, outcome: Outcome) -> None:
        """Handle the outcome of a run, a model call or a tool call.

        Called at most once, before `__exit__`. An error that is passed here ended the call, and is
        not passed to `__exit__`.
        """
        ...


class Instrumentation(Protocol):
    """Observes the operations of a runtime; passed to `open_runtime(instrumentation=...)`.

    All methods are synchronous, and are called in the runtime's thread. They must be fast. An
    exception that they raise is logged, and does not affect the run.
    """

    def observe(self, operation: Operation) -> Observation:
        """Return an observation of an operation that is about to begin."""
        ...

    def count_tokens(self, stats: TokenStats) -> None:
        """Handle the tokens of a model call, which are about to be recorded.

        The sum of all calls is the usage in the session logs. It includes estimates for failed and
        cancelled attempts that had streamed a part of their response.
        """
        ...
