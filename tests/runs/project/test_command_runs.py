"""Slash commands in the prompts of runs."""

from pathlib import Path
from typing import Unpack

import pytest

from agent_actors import AgentOptions, Command, Skill, open_runtime
from agent_actors.domain.events import Notification
from agent_actors.options.agent_options import OptionFields
from agent_actors.testing import ScriptedModel


def agent(folder: Path, **fields: Unpack[OptionFields]) -> AgentOptions:
    options = AgentOptions(
        model="m",
        provider=ScriptedModel(["Done."]),
        cwd=folder,
        setting_sources=["project"],
        slash_commands=True,
    )
    return options.evolve(**fields)


def sent(options: AgentOptions) -> list[str]:
    assert isinstance(options.provider, ScriptedModel)
    return [request.messages[-1].content for request in options.provider.requests]


def put(folder: Path, name: str, text: str) -> None:
    file = folder / ".claude/commands" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.feature("OAGS-066", "ASDK-086")
async def test_command_file_replaces_its_line(tmp_path: Path) -> None:
    put(tmp_path, "fix.md", "---\nallowed-tools: Bash\n---\nFix issue $1. !`touch ran` $ARGUMENTS")
    options = agent(tmp_path)
    async with open_runtime() as runtime:
        result = await runtime.run("/fix 12 now\nThen stop.", options)
    assert sent(options) == ["Fix issue 12. !`touch ran` 12 now\nThen stop."]
    (done,) = result.command_results
    assert (done.name, done.error) == ("fix", "")
    assert not (tmp_path / "ran").exists()


@pytest.mark.feature("ASDK-082")
async def test_commands_in_code_are_carried_out(tmp_path: Path) -> None:
    async def deploy(arguments: str) -> object:
        return {"target": arguments}

    def broken(_: str) -> object:
        raise ValueError("no")

    options = agent(
        tmp_path,
        setting_sources=(),
        skills=[Skill("s", "Skill.", "Body")],
        commands=[
            Command("deploy", "Deploy.", deploy),
            Command("broken", "Fail.", broken),
            Command("hello", "Greet.", body="Say hello to $1."),
        ],
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Go.\n/deploy test\n/broken\n/hello Ada", options)
    assert sent(options) == ["Go.\nSay hello to Ada."]
    assert [(one.name, one.output, one.error) for one in result.command_results] == [
        ("deploy", {"target": "test"}, ""),
        ("broken", None, "ValueError: no"),
        ("hello", "Say hello to Ada.", ""),
    ]


async def test_prompt_with_only_commands_calls_no_model(tmp_path: Path) -> None:
    options = agent(tmp_path, commands=[Command("now", "", lambda _: "noon")], hooks=[])
    async with open_runtime() as runtime:
        result = await runtime.run("/now", options, session_id="s")
        assert (result.text, result.stop_reason, result.iterations) == ("noon", "completed", 0)
        assert sent(options) == []
        assert len(result.messages) == 0
        await runtime.run("Go.", options, session_id="s")
    assert sent(options) == ["Go."]


async def test_unknown_command_stays_with_notice(tmp_path: Path) -> None:
    put(tmp_path, "fix.md", "Fix $ARGUMENTS")
    options = agent(tmp_path)
    async with open_runtime() as runtime:
        result = await runtime.run(f"/fxi 1\n/fix {'x' * 600_000}", options, session_id="s")
        records = await runtime.sessions.records("s")
    (notice,) = (one.text for one in records if isinstance(one, Notification))
    assert notice == "the command /fxi is unknown, so the line is sent as text; did you mean /fix?"
    assert sent(options)[0].startswith("/fxi 1\nFix xxx")
    assert len(result.command_results) == 1


async def test_commands_are_off_by_default(tmp_path: Path) -> None:
    put(tmp_path, "fix.md", "Fix it.")
    options = agent(tmp_path, slash_commands=False, commands=[Command("now", body="Now.")])
    async with open_runtime() as runtime:
        result = await runtime.run("/fix\n/now", options)
    assert (sent(options), result.command_results) == (["/fix\n/now"], ())
