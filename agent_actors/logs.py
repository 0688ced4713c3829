"""Public API for logging: a filter that adds the run's ids to log records.

Example:
    ```python
    from agent_actors.logs import RunIds

    handler = logging.StreamHandler()
    handler.addFilter(RunIds())
    ```
"""

from agent_actors.runs.log_ids import RunIds as RunIds
