"""Adds the ids of a run to log records.

The loggers in this package do not know the current run, but context variables do. A filter
therefore adds the ids when a handler receives a record. Records that are not logged cost nothing.
"""

import logging
from typing import Final

from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.runs.context import current_context

_NAMES: Final = ("session_id", "run_id", "request_id")


class RunIds(logging.Filter):
    """Adds `session_id`, `run_id` and `request_id` to each log record that a handler receives.

    A record that is logged outside of a run has empty ids. A record about a run other than the
    current one, for example about a lease, keeps the ids that it already has. The filter also works
    for your own loggers in tools, hooks and providers, including tools that run in threads.

    Example:
        ```python
        handler = logging.StreamHandler()
        handler.addFilter(RunIds())
        handler.setFormatter(logging.Formatter("%(levelname)s %(run_id)s %(message)s"))
        logging.getLogger("agent_actors").addHandler(handler)
        ```
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids to a record, and accept the record."""
        fields = vars(record)
        context = current_context.get()
        ids = ("", "", "")
        if context is not None and "session_id" not in fields:
            ids = context.ids
        for name, value in zip(_NAMES, ids, strict=True):
            fields.setdefault(name, value)
        return True


protect_loaded_modules()
