"""The tool for an agent's task list."""

from functools import partial
from typing import Final

import attrs

from agent_actors.domain.events import TODO_STATUSES, Todo, TodosChanged, TodoStatus
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.toolbox.failure import ToolFailure
from agent_actors.tools import ToolContext

_DONE: Final = "done"


@attrs.frozen
class TodoItem:
    """A task.

    Attributes:
        id: A short id, unique in the list.
        title: The task.
        status: The status of the task.
    """

    id: str
    title: str
    status: str


@attrs.frozen
class TodoList:
    """Replaces the task list of a session.

    Attributes:
        completed: The name of the status of finished tasks in this vocabulary: `completed` or
            `done`. Both are accepted; `completed` is stored.
    """

    completed: str = "completed"

    @property
    def statuses(self) -> tuple[str, str, str]:
        """The three statuses in this vocabulary."""
        pending, in_progress, _ = TODO_STATUSES
        return pending, in_progress, self.completed

    def replace(self, ctx: ToolContext, items: list[TodoItem]) -> JsonObject:
        """Record a new list and return it in this vocabulary.

        Raises:
            ToolFailure: A status is not one of the three, or two tasks have the same id. The list
                stays as it was.
        """
        taken: set[str] = set()
        for item in items:
            if item.status not in (*TODO_STATUSES, _DONE):
                raise ToolFailure(
                    f"the status of the task {item.id!r:.40} must be one of "
                    f"{', '.join(self.statuses)}; got {item.status!r:.40}; the list is unchanged"
                )
            if item.id in taken:
                raise ToolFailure(
                    f"two tasks have the id {item.id!r:.40}; give each task its own id; the list "
                    "is unchanged"
                )
            taken.add(item.id)
        todos = tuple(Todo(item.id, item.title, _stored(item.status)) for item in items)
        ctx.record(partial(TodosChanged, todos=todos))
        shown: list[JsonValue] = [
            {"id": todo.id, "title": todo.title, "status": self._shown(todo.status)}
            for todo in todos
        ]
        return {"todos": shown}

    def _shown(self, status: str) -> str:
        return self.completed if status == "completed" else status


def _stored(status: str) -> TodoStatus:
    match status:
        case "pending" | "in_progress":
            return status
        case _:
            return "completed"
