"""All other state of a session is also the fold of its records."""

from typing import Any, cast

import pytest

from agent_actors.codec.events import dumps_event, loads_event
from agent_actors.domain.events import FileChanged, SkillActivated, Todo, TodosChanged
from agent_actors.sessions import fold
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
