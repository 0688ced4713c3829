"""The runtime around the current code: the innermost that was opened in this task or above it.

Only the small faces look here, so that `query()` can do without a runtime to be named. Whoever
starts a task hands it on, as every context variable is.
"""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent_actors.runtime.runtime import Runtime

current_runtime: Final[ContextVar["Runtime | None"]] = ContextVar(
    "agent_actors_runtime", default=None
)


def runtime_around() -> "Runtime | None":
    """The innermost runtime around the current code that takes work; None if there is none."""
    runtime = current_runtime.get()
    return runtime if runtime is not None and runtime.is_open else None
