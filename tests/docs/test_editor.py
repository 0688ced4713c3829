"""The editor among the examples: what an agent may do to the buffer, and how a user undoes it."""

import contextlib
from collections.abc import Generator
from types import ModuleType

import pytest
import trio

from agent_actors import open_runtime
from agent_actors.errors import ProviderError
from agent_actors.testing import ScriptedModel, call, do, fail, hang
from tests.docs.example_helpers import example

TEXT = "one\ntwo\nthree two\n"


@pytest.fixture
def editor() -> Generator[ModuleType]:
    with example("editor") as module:
        yield module


async def ask(editor: ModuleType, buffer: object, model: ScriptedModel) -> str:
    async with open_runtime() as runtime:
        answer: str = await editor.ask_agent(runtime, buffer, "Change it.", model)
        return answer


async def test_changes_of_one_request_are_one_step(editor: ModuleType) -> None:
    buffer = editor.Buffer("notes", TEXT)
    turns = [
        call("replace_text", {"old": "one", "new": "1"}),
        call("replace_text", {"old": "three", "new": "3"}),
    ]
    model = ScriptedModel([*turns, "Done."])
    assert await ask(editor, buffer, model) == "Done."
    assert buffer.text == "1\ntwo\n3 two\n"
    buffer.undo()
    assert (buffer.text, buffer.undo_steps) == (TEXT, [])
    await ask(editor, buffer, ScriptedModel(["Nothing to do."]))
    assert buffer.undo_steps == []


@pytest.mark.parametrize(("old", "count"), [("two", 2), ("four", 0), ("", 0)])
async def test_unclear_changes_are_refused(editor: ModuleType, old: str, count: int) -> None:
    buffer = editor.Buffer("notes", TEXT)
    model = ScriptedModel([call("replace_text", {"old": old, "new": "x"}), "I could not."])
    await ask(editor, buffer, model)
    assert buffer.text == TEXT
    assert f"occurs {count} times" in model.requests[-1].messages[-1].content


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({}, "1: one\n2: two\n3: three two"),
        ({"first": 2}, "2: two\n3: three two"),
        ({"first": 2, "last": 2}, "2: two"),
    ],
)
async def test_agent_reads_numbered_lines(
    editor: ModuleType, arguments: dict[str, int], shown: str
) -> None:
    model = ScriptedModel([call("read_lines", {**arguments}), "Read."])
    await ask(editor, editor.Buffer("notes", TEXT), model)
    assert model.requests[-1].messages[-1].content == shown


@pytest.mark.parametrize("ends", ["failure", "cancellation"])
async def test_incomplete_request_leaves_buffer_unchanged(editor: ModuleType, ends: str) -> None:
    buffer = editor.Buffer("notes", TEXT)
    changed: list[str] = []
    error = ProviderError("unavailable", endpoint="scripted")
    with trio.CancelScope() as scope, contextlib.suppress(ProviderError):
        end = [fail(error)] if ends == "failure" else [do(scope.cancel), hang()]
        look = do(lambda: changed.append(buffer.text))
        change = call("replace_text", {"old": "one", "new": "1"})
        await ask(editor, buffer, ScriptedModel([change, [look, *end]]))
    assert scope.cancelled_caught == (ends == "cancellation")
    assert changed[0].startswith("1\n")
    assert (buffer.text, buffer.undo_steps) == (TEXT, [])
