"""All other state of a session is also the fold of its records."""

from typing import Any, cast

import pytest

from agent_actors.codec.events import dumps_event, loads_event
from agent_actors.domain.events import (
    BackgroundEnded,
    BackgroundLost,
    BackgroundStarted,
    FileChanged,
    SkillActivated,
    SubagentStarted,
    Todo,
    TodosChanged,
)
from agent_actors.domain.workspace.processes import ProcessEnd
from agent_actors.sessions import fold
from agent_actors.sessions.state import KEPT_ENDED_COMMANDS
from tests.sessions.test_rewind import back
from tests.sessions.test_state import SCOPE, numbered, said

FIRST = Todo("1", "Look.")
DONE = Todo("1", "Look.", "completed")


def todos(*items: Todo) -> TodosChanged:
    return TodosChanged(SCOPE, "id", 1.0, items)


def file(path: str, content: str | None) -> FileChanged:
    return FileChanged(SCOPE, "id", 1.0, path, content)


def skill(name: str) -> SkillActivated:
    return SkillActivated(SCOPE, "id", 1.0, name)


def test_a_session_without_any_has_none() -> None:
    state = fold(numbered(said("hi")))
    assert (state.todos, state.files, state.skills) == ((), {}, ())


def test_last_list_and_newest_entries_count() -> None:
    state = fold(
        numbered(
            todos(FIRST, Todo("2", "Leap.", "in_progress")),
            file("a", "one"),
            skill("x"),
            file("b", "two"),
            skill("y"),
            todos(DONE),
            file("a", "three"),
            file("b", None),
            file("never", None),
            skill("x"),
        )
    )
    assert state.todos == (DONE,)
    assert state.files == {"a": "three"}
    assert state.skills == ("x", "y")
    assert len(state.history()) == 0


@pytest.mark.feature("WICK-007")
def test_status_done_is_stored_as_completed() -> None:
    assert Todo("1", "Look.", cast(Any, "done")) == DONE
    line = dumps_event(todos(DONE)).replace('"completed"', '"done"')
    assert loads_event(line) == todos(DONE)


def test_rewind_restores_extras() -> None:
    log = numbered(todos(FIRST), file("a", "one"), todos(DONE), file("a", None), skill("x"))
    state = fold([*log, *numbered(*log, back(2))[-1:]])
    assert (state.todos, state.files, state.skills) == ((FIRST,), {"a": "one"}, ())
    state = fold([*log, *numbered(*log, back(0))[-1:]])
    assert (state.todos, state.files, state.skills) == ((), {}, ())


def started(task_id: str) -> BackgroundStarted:
    return BackgroundStarted(SCOPE, "id", 1.0, task_id, "serve")


def ended(task_id: str, *, killed: bool = False) -> BackgroundEnded:
    end = ProcessEnd(exit_code=3)
    return BackgroundEnded(SCOPE, "id", 2.0, task_id, "serve", end, killed, dropped_bytes=7)


def lost(task_id: str) -> BackgroundLost:
    return BackgroundLost(SCOPE, "id", 2.0, task_id, "serve")


def test_background_commands_end_only_once_recorded() -> None:
    records = [started("a"), started("b"), started("c"), started("d")]
    state = fold(numbered(*records, ended("a"), ended("b", killed=True), lost("c")))
    found = {task_id: task.status for task_id, task in state.background.items()}
    assert found == {"a": "ended", "b": "killed", "c": "lost", "d": "running"}
    assert (state.background["a"].end, state.background["a"].dropped_bytes) == (
        ProcessEnd(exit_code=3),
        7,
    )
    assert (state.background["d"].started_at, state.background["d"].command) == (1.0, "serve")


def test_rewind_keeps_agents() -> None:
    agents = [SubagentStarted(SCOPE, "id", 1.0, "cook", child, child) for child in ("a", "b")]
    state = fold(numbered(said("hi"), *agents, back(0)))
    assert [one.child_session_id for one in state.subagents.values()] == ["a", "b"]


def test_rewind_keeps_background_commands() -> None:
    state = fold(numbered(said("hi"), started("a"), back(0)))
    assert state.background["a"].status == "running"


def test_only_newest_ended_commands_are_listed() -> None:
    many = [ended(str(number)) for number in range(KEPT_ENDED_COMMANDS + 2)]
    state = fold(numbered(started("first"), *many))
    expected = ["first", *map(str, range(2, KEPT_ENDED_COMMANDS + 2))]
    assert list(state.background) == expected
