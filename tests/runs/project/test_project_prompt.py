"""Memory files, rules and the arguments of requests, as runs use them."""

from pathlib import Path
from typing import Unpack

import pytest

from agent_actors import AgentOptions, RunInfo, TextBlock, ToolContext, open_runtime, query, tool
from agent_actors.errors import ConfigError
from agent_actors.options.agent_options import OptionFields
from agent_actors.runs.spec import RequestArguments
from agent_actors.testing import ScriptedModel, Turn, call


def agent(folder: Path, *script: Turn, **fields: Unpack[OptionFields]) -> AgentOptions:
    options = AgentOptions(
        model="m",
        provider=ScriptedModel([*script, "Done."]),
        cwd=folder,
        workspace={"type": "local"},
        builtin_tools=["Edit", "Read"],
        setting_sources=["project"],
    )
    return options.evolve(**fields)


def model_of(options: AgentOptions) -> ScriptedModel:
    assert isinstance(options.provider, ScriptedModel)
    return options.provider


def prompts(options: AgentOptions) -> list[str]:
    return [request.system_prompt for request in model_of(options).requests]


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.feature("WICK-064")
async def test_agent_edits_its_memory(tmp_path: Path) -> None:
    put(tmp_path / "AGENTS.md", "Use tabs.\n")
    options = agent(
        tmp_path,
        call("Read", {"file_path": "AGENTS.md"}),
        call("Edit", {"file_path": "AGENTS.md", "old": "tabs", "new": "spaces"}),
        "Done.",
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Remember: spaces.", options, session_id="s")
        assert not any(done.is_error for done in result.tool_calls)
        await runtime.run("Go.", options, session_id="s")
        history = str(await runtime.sessions.history("s"))
    assert "Use tabs." in prompts(options)[0]
    assert "with the Edit tool" in prompts(options)[0]
    assert len(set(prompts(options)[:3])) == 1  # the prefix stays the same during a run
    assert "Use spaces." in prompts(options)[3]
    assert "agent_memory" not in history


async def test_rule_for_paths_follows_used_files(tmp_path: Path) -> None:
    put(tmp_path / "src/a.py", "x = 1\n")
    put(tmp_path / "AGENTS.md", "Memory.")
    put(tmp_path / ".claude/rules/all.md", "Always.")
    put(tmp_path / ".claude/rules/python.md", "---\npaths: ['src/**/*.py']\n---\nUse types.")
    put(tmp_path / ".claude/skills/s/SKILL.md", "Skill.")
    options = agent(
        tmp_path,
        call("Read", {"file_path": "AGENTS.md"}),
        call("Read", {"file_path": "src/a.py"}),
    )
    async with open_runtime() as runtime:
        await runtime.run("Go.", options, force_skills=["s"])
    assert ["Use types." in prompt for prompt in prompts(options)] == [False, False, True]
    before, after = prompts(options)[1:]
    end = "\n\nActive skills: s"
    assert after == f"{before.removesuffix(end)}\n\nUse types.{end}"


infos: list[RunInfo] = []


@tool
async def look(ctx: ToolContext) -> str:
    """Look at the run."""
    infos.append(ctx.run)
    return "ok"


@pytest.mark.feature("ASDK-067", "ASDK-084")
async def test_request_describes_itself_to_tools(tmp_path: Path) -> None:
    infos.clear()
    request: RequestArguments = {
        "traits": ["kind"],
        "channels": ["mail"],
        "tags": {"team": "a", "stage": "test"},
        "metadata": {"ticket": 7, "api.tags": {"stage": "live"}},
        "entry_point": "ci",
    }
    options = agent(tmp_path, call("look", {}), tools=[look])
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, **request)
        async with query("Go.", options.evolve(provider=ScriptedModel(["Hi."])), **request) as seen:
            async for _ in seen:
                pass
        assert seen.result is not None
        assert seen.result.tags == result.tags == {"team": "a", "stage": "live"}
    (info,) = infos
    assert (info.traits, info.channels, info.entry_point) == (("kind",), ("mail",), "ci")
    assert (info.tags, info.metadata["ticket"]) == (result.tags, 7)


@pytest.mark.feature("ASDK-087")
async def test_metadata_change_the_prompt(tmp_path: Path) -> None:
    async def sent(prompt: str | list[TextBlock], **metadata: str) -> object:
        options = agent(tmp_path)
        named = {f"api.{name}_prompt": text for name, text in metadata.items()}
        await runtime.run(prompt, options, metadata=named)
        return model_of(options).requests[0].messages[-1].content

    async with open_runtime() as runtime:
        assert await sent("Go.", prepend="Before.") == "Before.\n\nGo."
        assert await sent("Go.", append="After.") == "Go.\n\nAfter."
        everything = {"prepend": "Before.", "append": "After.", "override": "Instead."}
        assert await sent("Go.", **everything) == "Before.\n\nInstead.\n\nAfter."
        blocks = await sent([TextBlock("Go.")], prepend="Before.", append="After.")
        assert "Before." in str(blocks)
        assert "After." in str(blocks)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"traits": "kind"}, "traits must be a list of strings"),
        ({"channels": [1]}, "channels must be a list of strings"),
        ({"force_skills": "s"}, "force_skills must be a list of strings"),
        ({"tags": {"a": 1}}, "tags must be a table of strings"),
        ({"metadata": []}, "metadata must be a table of JSON values"),
        ({"metadata": {"a": object()}}, "metadata: "),
        ({"metadata": {"api.override_prompt": 1}}, "api.override_prompt must be a string"),
        ({"metadata": {"api.tags": 1}}, "metadata: api.tags must be a table of strings"),
        ({"entry_point": "phone"}, "entry_point must be one of cli, ci, platform"),
    ],
)
async def test_invalid_request_is_refused(
    tmp_path: Path, request_: RequestArguments, expected: str
) -> None:
    async with open_runtime() as runtime:
        with pytest.raises(ConfigError, match=expected):
            await runtime.run("Go.", agent(tmp_path), **request_)
