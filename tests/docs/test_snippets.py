"""All code in the pages is either run here or taken from a file that is run.

A Python block is a part of an example and marked with its name, an excerpt of one (with lines left
out), or run here with the names that its page introduces. Only code of other libraries is not run.
"""

import ast
import sys
import textwrap
import types
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import trio

import agent_actors
from agent_actors import (
    AgentOptions,
    Messages,
    Runtime,
    context,
    model,
    open_runtime,
    permissions,
    tool,
)
from agent_actors.events import OutputDelta
from agent_actors.testing import ScriptedModel, say
from tests.docs.page_helpers import Block, blocks

Names = Mapping[str, object]
PYTHON = blocks("python")
PIECES = [b for b in PYTHON if b.file is not None and ":" not in b.marked]
EXCERPTS = [b for b in PYTHON if b.file is not None and b.marked.endswith(": excerpt")]
# The original code of the ported agent; `test_porting.py` checks it.
PORTED = [b for b in PYTHON if b.marked == "before"]
LOOSE = [b for b in PYTHON if not b.marked]
# Blocks with code of other libraries: the page and the first line of each.
OF_OTHERS = {
    ("docs/coming-from/openai-agents.md", "@function_tool"),
    ("docs/coming-from/pydantic-ai.md", "async def test_weather():"),
}


def first_line(block: Block) -> str:
    return block.text.partition("\n")[0]


def is_ours(block: Block) -> bool:
    return (block.page, first_line(block)) not in OF_OTHERS


def scripted() -> AgentOptions:
    return AgentOptions(model="scripted", provider=ScriptedModel([[say("Because.")]]))


def typed() -> AgentOptions[dict[str, int]]:
    model = ScriptedModel([[say('{"people": ', "1}")]])
    return AgentOptions(model="scripted", provider=model, output_type=dict[str, int])


@tool
async def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"sunny in {city}"


class _Tokenizer:
    """The part of a `transformers` tokenizer that the page needs."""

    @staticmethod
    def from_pretrained(name: str) -> "_Tokenizer":
        assert "/" in name
        return _Tokenizer()

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


# The names that a page introduces before its code.
SPOKEN_OF: Mapping[str, Callable[[], Names]] = {
    "README.md": lambda: {"options": scripted()},
    "docs/how-to/long-conversations.md": lambda: {"options": scripted()},
    "docs/how-to/configure.md": lambda: {"get_weather": get_weather},
    "docs/how-to/typed-output.md": lambda: {
        "agent": typed(),
        "OutputDelta": OutputDelta,
        "show": print,
    },
    "docs/how-to/context.md": lambda: {"messages": Messages().user("Hello.")},
}


def public_names() -> dict[str, object]:
    names = {name: getattr(agent_actors, name) for name in agent_actors.__all__}
    for module in (context, model, permissions):
        names.update(vars(module))
    return names


async def run(block: Block, names: Names, runtime: Runtime) -> dict[str, object]:
    """Run a block and return its global names."""
    space = {**public_names(), "runtime": runtime, **names}
    code = compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = types.FunctionType(code, space)()
    if isinstance(done, Awaitable):
        await done
    return space


def test_every_python_snippet_is_classified() -> None:
    kinds = [*PIECES, *EXCERPTS, *PORTED, *LOOSE]
    assert sorted(map(str, kinds)) == sorted(map(str, PYTHON))
    found = {(b.page, first_line(b)) for b in LOOSE if not is_ours(b)}
    assert found == OF_OTHERS


@pytest.mark.parametrize("block", PIECES, ids=str)
def test_snippet_is_part_of_its_file(block: Block) -> None:
    assert block.file is not None
    source = block.file.read_text(encoding="utf-8")
    depths = [textwrap.indent(block.text, " " * depth) for depth in (0, 4, 8)]
    assert any(piece in source for piece in depths), f"{block} shows other than {block.file.name}"


@pytest.mark.parametrize("block", EXCERPTS, ids=str)
def test_excerpts_match_their_files(block: Block) -> None:
    assert block.file is not None
    source = iter([line.strip() for line in block.file.read_text(encoding="utf-8").splitlines()])
    for line in filter(None, map(str.strip, block.text.splitlines())):
        # The iterator is shared, so that each line must come after the one before it.
        assert line in source, f"{block}: {block.file.name} has no such line there: {line}"


@pytest.mark.parametrize("block", [b for b in LOOSE if not is_ours(b)], ids=str)
def test_code_of_other_libraries_can_be_read(block: Block) -> None:
    assert ast.parse(block.text).body
    assert "agent_actors" not in block.text


@pytest.mark.parametrize("block", [b for b in LOOSE if is_ours(b)], ids=str)
async def test_standalone_snippets_run(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = types.ModuleType("transformers")
    vars(transformers)["AutoTokenizer"] = _Tokenizer
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    for name in ("ANTHROPIC_API_KEY", "GATEWAY_KEY"):
        monkeypatch.setenv(name, "k")
    for one in blocks("console"):
        if one.page == block.page and one.text.startswith("$ export "):
            for setting in one.text.removeprefix("$ export ").split():
                monkeypatch.setenv(*setting.partition("=")[::2])
    monkeypatch.chdir(tmp_path)
    for one in blocks("toml"):
        if one.page == block.page:
            await trio.Path("profiles.toml").write_text(one.text, encoding="utf-8")
    spoken_of = SPOKEN_OF.get(block.page, dict)
    async with open_runtime() as runtime:
        await run(block, spoken_of(), runtime)
