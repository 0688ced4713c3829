"""What an agent means to do, as its session keeps it."""

from typing import Final, Literal, TypeAlias, get_args

import attrs

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed"]

TODO_STATUSES: Final[tuple[TodoStatus, ...]] = get_args(TodoStatus)


@attrs.frozen
class Todo:
    """One thing to do.

    Attributes:
        id: Tells it apart within its list.
        title: What is to be done.
        status: `pending`, `in_progress` or `completed`.
    """

    id: str
    title: str
    status: TodoStatus = "pending"
