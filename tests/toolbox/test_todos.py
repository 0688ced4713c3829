"""The task list in both vocabularies."""

import pytest

from agent_actors import AgentOptions, open_runtime
from agent_actors.domain.events import Todo, TodosChanged
from agent_actors.domain.json import JsonValue
from agent_actors.testing import ScriptedModel, call
from agent_actors.toolbox.presets import select
from tests.toolbox.helpers import Context, Tools


def item(id: str, status: str) -> JsonValue:  # noqa: A002 - the name of the field
    return {"id": id, "title": f"Task {id}", "status": status}


def tools() -> Tools:
    return Tools(select(["TodoWrite", "write_todos"]), Context())


@pytest.mark.feature("WICK-072", "WICK-008")
@pytest.mark.parametrize(("name", "shown"), [("write_todos", "done"), ("TodoWrite", "completed")])
async def test_todos_replace_the_list(name: str, shown: str) -> None:
    box = tools()
    statuses = ("pending", "in_progress", "done", "completed")
    result = await box.object(name, todos=[item(status, status) for status in statuses])
    (changed,) = box.context.recorded(TodosChanged)
    stored = ("pending", "in_progress", "completed", "completed")
    assert [todo.status for todo in changed.todos] == list(stored)
    shown_as = ("pending", "in_progress", shown, shown)
    assert result == {"todos": list(map(item, statuses, shown_as))}
    await box.object(name, todos=[item("a", "pending")])
    assert box.context.recorded(TodosChanged)[-1].todos == (Todo("a", "Task a"),)


async def test_todos_survive_in_the_session() -> None:
    todos = {"todos": [item("a", "done")]}
    invalid = {"todos": [item("a", "late")]}
    model = ScriptedModel([call("write_todos", todos), call("write_todos", invalid), "Done."])
    options = AgentOptions(model="m", provider=model, tools=select(["write_todos"]))
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, session_id="s")
        snapshot = await runtime.sessions.snapshot("s")
    assert [made.is_error for made in result.tool_calls] == [False, True]
    assert snapshot is not None
    assert snapshot.todos == (Todo("a", "Task a", "completed"),)


@pytest.mark.feature("WICK-008")
async def test_unknown_status_leaves_the_list() -> None:
    box = tools()
    error = await box.error("write_todos", todos=[item("a", "pending"), item("b", "started")])
    assert "one of pending, in_progress, done; got 'started'; the list is unchanged" in error
    error = await box.error("TodoWrite", todos=[item("b", "")])
    assert "one of pending, in_progress, completed; got ''" in error
    assert "two tasks have the id 'a'" in await box.error(
        "TodoWrite", todos=[item("a", "pending")] * 2
    )
    assert not box.context.events
