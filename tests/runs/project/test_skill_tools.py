"""The tools for skills, and active skills in the system prompt."""

from pathlib import Path
from typing import Unpack, cast

import pytest

from agent_actors import (
    AgentOptions,
    RunResult,
    Runtime,
    SessionSnapshot,
    Skill,
    open_runtime,
)
from agent_actors.abc.project import ProjectFiles
from agent_actors.domain.events import SkillActivated
from agent_actors.domain.json import JsonObject
from agent_actors.errors import ConfigError
from agent_actors.hooks import HookDecision, PreToolUseEvent
from agent_actors.options.agent_options import OptionFields
from agent_actors.runtime import wiring
from agent_actors.testing import ScriptedModel, Turn, call
from tests.project.helpers import PROJECTS, MemoryFiles

REVIEW = "Review a change"


def agent(*script: Turn, project: str = "nested", **fields: Unpack[OptionFields]) -> AgentOptions:
    options = AgentOptions(
        model="m",
        provider=ScriptedModel([*script, "Done."]),
        cwd=PROJECTS / project,
        setting_sources=["project"],
    )
    return options.evolve(**fields)


def prompts(options: AgentOptions) -> list[str]:
    assert isinstance(options.provider, ScriptedModel)
    return [request.system_prompt for request in options.provider.requests]


async def results(options: AgentOptions) -> list[object]:
    async with open_runtime() as runtime:
        return contents(await runtime.run("Go.", options))


def contents(result: RunResult) -> list[object]:
    return [done.content for done in result.tool_calls]


async def snapshot(runtime: Runtime) -> SessionSnapshot:
    found = await runtime.sessions.snapshot("s")
    assert found is not None
    return found


@pytest.mark.feature("OAGS-067")
async def test_no_file_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles({})
    asked: list[MemoryFiles] = []

    def make() -> ProjectFiles:
        asked.append(files)
        return files

    monkeypatch.setattr(wiring, "make_project_files", make)
    options = agent(setting_sources=())
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, session_id="s")
        assert (asked, files.calls, prompts(options)) == ([], [], [""])
        assert result.settings.sources == ()
        assert (await snapshot(runtime)).metadata["setting_sources"] == []
        result = await runtime.run("Go.", agent(), session_id="s")
        assert asked
        assert files.calls
        assert result.settings.sources == ("project",)
        assert (await snapshot(runtime)).metadata["setting_sources"] == ["project"]


@pytest.mark.feature("OAGS-056")
async def test_skill_list_shows_name_summary_path() -> None:
    assert await results(agent(call("SkillList", {}))) == [
        {
            "skills": [
                {
                    "name": REVIEW,
                    "summary": "Read the diff first, then the tests.",
                    "path": ".claude/skills/team/review/SKILL.md",
                },
                {
                    "name": "release-notes",
                    "summary": "Write release notes.",
                    "path": ".agents/skills/release-notes/SKILL.md",
                },
            ]
        }
    ]


async def test_project_without_directory_lists_nothing(tmp_path: Path) -> None:
    assert await results(agent(call("SkillList", {}), cwd=tmp_path)) == [{"skills": []}]


@pytest.mark.feature("OAGS-057")
async def test_skill_load_returns_all_parts() -> None:
    options = agent(call("SkillLoad", {"name": "find-open-tasks"}), project="checklist")
    (loaded,) = await results(options)
    assert isinstance(loaded, dict)
    loaded = dict(cast(JsonObject, loaded))
    content = loaded.pop("content")
    assert isinstance(content, str)
    assert content.startswith("# Find open tasks\n")
    assert loaded == {
        "name": "find-open-tasks",
        "summary": (
            "Find open tasks in the source code. Use it when the user asks for remaining work."
        ),
        "checklist": [
            "Search for OPEN with Grep",
            "Read the file that contains the task",
            "Report the task with its path",
        ],
        "path": ".claude/skills/find-open-tasks/SKILL.md",
    }


@pytest.mark.feature("OAGS-061")
async def test_unknown_skill_is_an_error() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run(
            "Go.",
            agent(
                call("SkillLoad", {"name": "Reviw a change"}),
                call("SkillActivate", {"name": "none"}),
            ),
            session_id="s",
        )
        assert all(done.is_error for done in result.tool_calls)
        assert contents(result) == [
            f"unknown skill 'Reviw a change'; did you mean {REVIEW!r}?",
            "unknown skill 'none'; call SkillList for the 2 known skills",
        ]
        assert (await snapshot(runtime)).skills == ()


def activate(name: str) -> Turn:
    return call("SkillActivate", {"name": name})


@pytest.mark.feature("OAGS-058", "OAGS-059", "OAGS-060", "OAGS-062")
async def test_active_skills_survive_resume_and_rewind() -> None:
    async with open_runtime() as runtime:
        first = agent(activate(REVIEW), activate("release-notes"), activate(REVIEW))
        result = await runtime.run("Go.", first, session_id="s")
        assert contents(result) == [
            {"active": [REVIEW]},
            {"active": [REVIEW, "release-notes"]},
            {"active": [REVIEW, "release-notes"]},
        ]
        both = f"\n\nActive skills: {REVIEW}, release-notes"
        assert [both in prompt for prompt in prompts(first)] == [False, False, True, True]
        records = await runtime.sessions.records("s")
        second = next(
            one.seq
            for one in records
            if isinstance(one, SkillActivated) and one.name == "release-notes"
        )
        exported = await runtime.sessions.export("s")
        assert second is not None
    async with open_runtime() as other:
        await other.sessions.import_records(exported)
        resumed = agent()
        await other.run("Go on.", resumed, session_id="s")
        assert prompts(resumed)[0].endswith(both)
        await other.sessions.rewind("s", second - 1)
        rewound = agent()
        await other.run("Go on.", rewound, session_id="s")
        assert prompts(rewound)[0].endswith(f"\n\nActive skills: {REVIEW}")


@pytest.mark.feature("OAGS-063")
async def test_hook_rewrites_the_project_directory() -> None:
    async def redirect(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={**event.tool_input, "project_dir": "packages/api"})

    options = agent(
        call("SkillLoad", {"name": "Trace a request"}), hooks={"pre_tool_use": redirect}
    )
    (loaded,) = await results(options)
    assert isinstance(loaded, dict)
    assert loaded["path"] == "packages/api/.claude/skills/trace/SKILL.md"


async def test_other_project_must_be_inside() -> None:
    outside = [call("SkillList", {"project_dir": path}) for path in ("..", "/etc")]
    options = agent(*outside)
    for refused in await results(options):
        assert "project_dir must be in" in str(refused)
    (refused,) = await results(
        agent(
            call("SkillList", {"project_dir": "packages/api"}),
            setting_sources=(),
            skill_paths=["packages/api/.claude/skills"],
        )
    )
    assert "this agent reads no files of projects" in str(refused)


@pytest.mark.feature("ASDK-069")
async def test_forced_skills_precede_the_first_call() -> None:
    async with open_runtime() as runtime:
        options = agent()
        await runtime.run("Go.", options, session_id="s", force_skills=["release-notes"])
        assert prompts(options)[0].endswith("\n\nActive skills: release-notes")
        for refused in (agent(), agent(setting_sources=())):
            with pytest.raises(ConfigError, match="force_skills: unknown skill 'x'"):
                await runtime.run("Go.", refused, session_id="t", force_skills=["x"])
            assert prompts(refused) == []
        assert await runtime.sessions.records("t") == ()


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.feature("OAGS-064")
async def test_skills_are_never_executed(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/skills/danger/scripts"
    folder.mkdir(parents=True)
    marker = tmp_path / "ran"
    script = f"#!/bin/sh\ntouch {marker}\n"
    (folder / "run.sh").write_text(script)
    (folder / "run.sh").chmod(0o755)
    (folder.parent / "SKILL.md").write_text(f"Run !`touch {marker}` and scripts/run.sh.\n")
    before = files_in(tmp_path)
    calls = [call(name, {"name": "danger"}) for name in ("SkillLoad", "SkillActivate")]
    await results(agent(*calls, cwd=tmp_path))
    assert files_in(tmp_path) == before


async def test_skill_that_disappears_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / ".claude/skills/gone/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("Text.")

    async def remove(event: PreToolUseEvent) -> None:
        if file.exists():
            file.unlink()
        else:
            file.write_text("x" * 300_000)

    calls = [call("SkillLoad", {"name": "gone"}) for _ in range(2)]
    gone, large = await results(agent(*calls, cwd=tmp_path, hooks={"pre_tool_use": remove}))
    assert "does not exist any more" in str(gone)
    assert "has 300000 bytes" in str(large)


async def test_broken_file_can_refuse_the_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        file = tmp_path / ".claude/skills" / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nname: [\n---\n")
    async with open_runtime() as runtime:
        with pytest.raises(ConfigError, match=r"a/SKILL\.md:3: .*\(and 1 more files\)"):
            await runtime.run("Go.", agent(cwd=tmp_path, broken_files="refuse"), session_id="s")
        result = await runtime.run("Go.", agent(cwd=tmp_path), session_id="s")
    assert [problem.path for problem in result.settings.problems] == [
        ".claude/skills/a/SKILL.md",
        ".claude/skills/b/SKILL.md",
    ]


@pytest.mark.feature("ASDK-083")
async def test_handlers_of_skills_have_results() -> None:
    async def weather() -> object:
        return {"today": "rain"}

    def broken() -> object:
        raise ValueError("no data")

    async def text_later() -> str:
        return "# Late\n\n## Checklist\n- wait\n"

    def late() -> object:
        return text_later()

    skills = [
        Skill("weather", "Tell the weather.", handler=weather),
        Skill("broken", "Always fails.", handler=broken),
        Skill("late", "Returns an awaitable.", handler=late),
        Skill("text", "Has a body.", "# Text\n\nDo it.\n"),
    ]
    names = ("weather", "broken", "late", "text")
    calls = [call("SkillLoad", {"name": name}) for name in names]
    options = agent(*calls, setting_sources=(), skills=skills)
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
    loaded, failed, late_text, text = contents(result)
    assert loaded == {
        "name": "weather",
        "summary": "Tell the weather.",
        "checklist": [],
        "content": {"today": "rain"},
        "path": "",
    }
    assert failed == "the skill 'broken' failed: ValueError: no data"
    assert isinstance(late_text, dict)
    assert isinstance(text, dict)
    assert (late_text["checklist"], text["content"]) == (["wait"], "# Text\n\nDo it.\n")
    assert [(one.name, one.output, one.error) for one in result.skill_results] == [
        ("weather", {"today": "rain"}, ""),
        ("broken", None, "ValueError: no data"),
        ("late", "# Late\n\n## Checklist\n- wait\n", ""),
    ]
    assert (
        "[weather] Tell the weather. → Call SkillLoad for full instructions" in prompts(options)[0]
    )


@pytest.mark.feature("OAGS-049")
async def test_agent_follows_a_checklist() -> None:
    calls = [
        call("SkillList", {}),
        call("SkillLoad", {"name": "find-open-tasks"}),
        call("SkillActivate", {"name": "find-open-tasks"}),
        call("Grep", {"query": "OPEN"}),
        call("Read", {"file_path": "src/prices.py"}),
    ]
    options = agent(
        *calls,
        project="checklist",
        builtin_tools=["Grep", "Read"],
        workspace={"type": "local", "read_only": True},
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Which work remains?", options, session_id="s")
        assert not [done.content for done in result.tool_calls if done.is_error]
        assert "round to cents" in str(result.tool_calls[-1].content)
        resumed = agent(project="checklist")
        await runtime.run("And now?", resumed, session_id="s")
        assert prompts(resumed)[0].endswith("\n\nActive skills: find-open-tasks")
