"""The chat bot and the notebook run in an asyncio event loop."""

import ast
import asyncio
import json
import types
from collections.abc import AsyncIterator, Awaitable

import pytest

from agent_actors import AgentOptions
from agent_actors.asyncio import open_runtime
from agent_actors.testing import ScriptedModel, Turn, call
from tests.docs.example_helpers import EXAMPLES, example


def test_chat_bot_answers_each_user() -> None:
    async def messages() -> AsyncIterator[tuple[str, str]]:
        for user, text in (("ann", "Hi."), ("bob", "Hello."), ("ann", "Bye.")):
            yield user, text

    async def main() -> list[tuple[str, str]]:
        model = ScriptedModel(["Yes."] * 3)
        with example("chat_bot") as module:
            async with asyncio.timeout(20), open_runtime() as runtime:
                room = module.Room(runtime, AgentOptions(model="m", provider=model))
                await room.serve(messages())
                assert await runtime.sessions.info("ann") is not None
                posted: list[tuple[str, str]] = room.posted
                return posted

    assert sorted(asyncio.run(main())) == [("ann", "Yes."), ("ann", "Yes."), ("bob", "Yes.")]


def test_notebook_cells_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    turns: list[Turn] = [call("get_weather", {"city": "Paris"}), "Sunny.", "Sunny too."]

    async def main() -> None:
        space: dict[str, object] = {}
        for number, cell in enumerate(cells):
            code = compile(cell, f"cell {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            done: object = types.FunctionType(code, space)()
            if isinstance(done, Awaitable):
                await done
            if "options" in space and not number - 1:
                space["options"] = AgentOptions(
                    model="m",
                    provider=ScriptedModel(turns),
                    tools=getattr(space["options"], "tools"),  # noqa: B009 - any object
                    auto_execute_tools=True,
                )

    asyncio.run(main())
    assert "Sunny too." in capsys.readouterr().out
