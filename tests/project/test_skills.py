"""Skills: both formats, the index, and files that do not follow the standard."""

import pytest

from agent_actors import Skill
from agent_actors.errors import ConfigError
from agent_actors.project.reading import read_project
from agent_actors.project.skills import (
    MAX_CATALOG,
    MAX_SKILL_BYTES,
    SkillEntry,
    parse_skill,
    skill_index,
    skills_in_code,
)
from agent_actors.toolbox.project_files import LocalProjectFiles
from tests.project.helpers import PROJECTS, ROOT, MemoryFiles, project_plan

HEADER = "---\nname: fix-bug\ndescription: Fix a bug.\n---\n"


def problems_of(texts: dict[str, str], *sources: str) -> list[str]:
    knowledge = read_project(MemoryFiles(texts), project_plan(*sources))
    return [str(problem) for problem in knowledge.report.problems]


@pytest.mark.feature("OAGS-051", "OAGS-052")
def test_plain_skill_has_heading_and_paragraph() -> None:
    parsed = parse_skill("# Fix a bug\n\nFind it,\nthen fix it.\n\nMore.\n", "directory")
    assert (parsed.name, parsed.summary) == ("Fix a bug", "Find it, then fix it.")
    assert parsed.fields is None


@pytest.mark.feature("OAGS-054")
def test_skill_without_heading_has_directory_name() -> None:
    parsed = parse_skill("Find it.\n", "fix-bug")
    assert (parsed.name, parsed.summary, parsed.checklist) == ("fix-bug", "Find it.", ())


@pytest.mark.feature("OAGS-053")
def test_checklist_ignores_blank_items() -> None:
    text = (
        "# A\n\n- not this\n\n## checklist\n\n- [ ] one\n- [ ]\n-\n* [x] two\n3. three\ntext\n"
        "```\n- code\n```\n## End\n- nor this\n"
    )
    assert parse_skill(text, "a").checklist == ("one", "two", "three")
    assert parse_skill("# A\n\n- one\n", "a").checklist == ()


@pytest.mark.feature("WICK-057")
def test_frontmatter_names_the_skill() -> None:
    parsed = parse_skill(f"{HEADER}# Other\n\nText.\n", "fix-bug")
    assert (parsed.name, parsed.summary) == ("fix-bug", "Fix a bug.")
    assert (parsed.body, parsed.problems, parsed.error) == ("# Other\n\nText.\n", (), "")
    extended = parse_skill(
        HEADER.replace("name:", "allowed-tools: Read\nown: [1]\nname:"), "fix-bug"
    )
    assert extended.fields is not None
    assert (extended.fields["allowed-tools"], extended.fields["own"]) == ("Read", [1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nname: Fix Bug\ndescription: x\n---\n", "name must be 1 to 64 characters"),
        ("---\nname: other\ndescription: x\n---\n", "name must be the name of the directory"),
        ("---\nname: fix-bug\n---\n", "description must have 1 to 1024 characters; got 0"),
        (HEADER.replace("name:", f"compatibility: {'x' * 501}\nname:"), "at most 500"),
        (HEADER.replace("name:", "allowed-tools: [Read]\nname:"), "separated by spaces"),
    ],
)
def test_deviation_from_standard_is_a_warning(text: str, expected: str) -> None:
    texts = {".claude/skills/fix-bug/SKILL.md": text}
    knowledge = read_project(MemoryFiles(texts), project_plan())
    (problem,) = knowledge.report.problems
    assert problem.warning
    assert expected in str(problem)
    assert len(knowledge.skills.entries) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nname: [1\n---\n", ":3: the frontmatter is not valid YAML"),
        ("---\na: &x 1\nb: *x\n---\n", "aliases (*name) are not supported"),
        (f"---\na: {'[' * 20}{']' * 20}\n---\n", "nested more than 10 levels"),
        ("---\nname: a\nname: b\n---\n", "the key 'name' occurs twice"),
        (f"---\nname: {'x' * 5000}\n---\n", "no closing line '---' within 4096"),
        ("---\n- a\n---\n", ":2: the frontmatter must be a table"),
        ("---\nname: \x01\n---\n", "not valid YAML"),
        ("x" * (MAX_SKILL_BYTES + 1), f"expected at most {MAX_SKILL_BYTES} bytes"),
    ],
)
def test_broken_skill_is_reported_and_skipped(text: str, expected: str) -> None:
    texts = {".claude/skills/fix-bug/SKILL.md": text, ".claude/skills/ok/SKILL.md": "Fine."}
    knowledge = read_project(MemoryFiles(texts), project_plan())
    assert list(knowledge.skills.entries) == ["ok"]
    (problem,) = knowledge.report.problems
    assert not problem.warning
    assert str(problem).startswith(".claude/skills/fix-bug/SKILL.md:")
    assert expected in str(problem)


def test_frontmatter_has_a_total_size() -> None:
    large = HEADER.replace("name:", f"own: {'x' * 3900}\nname:")
    texts = {f".claude/skills/{n:03}/SKILL.md": large for n in range(140)}
    knowledge = read_project(MemoryFiles(texts), project_plan())
    skipped = [str(one) for one in knowledge.report.problems if not one.warning]
    assert skipped[0].endswith(
        "the frontmatter of all files together may have 524288 characters; this file is left out"
    )


def test_empty_frontmatter_is_a_table() -> None:
    parsed = parse_skill("\ufeff---\n---\nText.", "a")
    assert (parsed.fields, parsed.name, parsed.summary) == ({}, "a", "Text.")


@pytest.mark.feature("OAGS-050", "OAGS-055", "WICK-058")
def test_index_is_sorted_across_directories() -> None:
    texts = {
        ".claude/skills/team/zebra/SKILL.md": "Z.",
        ".agents/skills/bear/SKILL.md": "B.",
        "more/one/ant/SKILL.md": "A.",
        "even/cat/SKILL.md": "C.",
        "home/.claude/skills/dog/SKILL.md": "D.",
    }
    plan = project_plan("project", "user", skill_paths=(ROOT / "more", ROOT / "even"))
    knowledge = read_project(MemoryFiles(texts), plan)
    assert knowledge.skills.listed() == [
        {"name": "ant", "summary": "A.", "path": "more/one/ant/SKILL.md"},
        {"name": "bear", "summary": "B.", "path": ".agents/skills/bear/SKILL.md"},
        {"name": "cat", "summary": "C.", "path": "even/cat/SKILL.md"},
        {"name": "dog", "summary": "D.", "path": "home/.claude/skills/dog/SKILL.md"},
        {"name": "zebra", "summary": "Z.", "path": ".claude/skills/team/zebra/SKILL.md"},
    ]
    paths_only = project_plan(sources=frozenset[str](), skill_paths=(ROOT / "even",))
    assert list(read_project(MemoryFiles(texts), paths_only).skills.entries) == ["cat"]


def test_project_without_skills_has_empty_index() -> None:
    knowledge = read_project(MemoryFiles({}), project_plan())
    assert knowledge.skills.listed() == []
    assert knowledge.prompt("Own.") == "Own."
    assert knowledge.skills.unknown("a") == "unknown skill 'a'; no skill is available"


def test_nearest_skill_wins_and_is_reported() -> None:
    texts = {".claude/skills/a/SKILL.md": "Near.", ".agents/skills/a/SKILL.md": "Far."}
    knowledge = read_project(MemoryFiles(texts), project_plan())
    assert [entry.summary for entry in knowledge.skills.entries.values()] == ["Near."]
    (problem,) = knowledge.report.problems
    assert str(problem) == (
        ".agents/skills/a/SKILL.md: the skill 'a' is also defined in .claude/skills/a/SKILL.md, "
        "which is used"
    )


@pytest.mark.feature("WICK-059", "OAGS-099")
def test_catalog_has_one_line_per_skill() -> None:
    knowledge = read_project(LocalProjectFiles(), project_plan(project_dir=PROJECTS / "checklist"))
    prompt = knowledge.prompt("Own.")
    assert prompt.endswith(
        "\n\n## Skills\n\n"
        "[find-open-tasks] Find open tasks in the source code. Use it when the user asks for "
        "remaining work. → Read .claude/skills/find-open-tasks/SKILL.md for full instructions"
    )
    assert "Open tasks are comments" not in prompt


def test_names_and_summaries_stay_on_one_line() -> None:
    parsed = parse_skill("# A\u2028b\x1b[31m c\n\nSum\u202emary\x07 text", "a")
    assert (parsed.name, parsed.summary) == ("A b [31m c", "Sum mary text")
    assert len(parse_skill(f"# {'n' * 100}\n\n{'s' * 3000}", "a").summary) == 1024
    (problem,) = problems_of({".claude/skills/a\n[x] obey/SKILL.md": "Text."})
    assert problem == (
        ".claude/skills/a [x] obey/SKILL.md: the path contains control characters; rename the file"
    )


def test_catalog_has_a_maximum_size() -> None:
    entries = [SkillEntry(f"s{i:04}", "x" * 1000, "p") for i in range(100)]
    index, problems = skill_index(entries)
    catalog = index.catalog()
    assert problems == []
    assert len(catalog) < MAX_CATALOG + 100
    assert catalog.endswith("more skills; call SkillList for all)")


def test_unknown_skill_names_the_nearest() -> None:
    index, _ = skill_index(skills_in_code([Skill("review", "Review a change.", "Text")]))
    assert index.unknown("reviw") == "unknown skill 'reviw'; did you mean 'review'?"
    assert index.unknown("zzz") == "unknown skill 'zzz'; call SkillList for the 1 known skills"


def test_skill_in_code_is_checked() -> None:
    with pytest.raises(ConfigError, match="name must be one line"):
        Skill("a\nb", "x", "body")
    with pytest.raises(ConfigError, match="pass either `body` or `handler`"):
        Skill("a", "x")
    with pytest.raises(ConfigError, match="pass either `body` or `handler`"):
        Skill("a", "x", "body", lambda: None)


@pytest.mark.parametrize(
    ("name", "project", "skills"),
    [
        ("minimal", "", ["greet"]),
        ("checklist", "", ["find-open-tasks"]),
        ("nested", "", ["Review a change", "release-notes"]),
        ("nested", "packages/api", ["Trace a request"]),
    ],
)
def test_shapes_of_projects_are_read(name: str, project: str, skills: list[str]) -> None:
    folder = PROJECTS / name / project
    knowledge = read_project(LocalProjectFiles(), project_plan(project_dir=folder))
    assert list(knowledge.skills.entries) == skills
    assert knowledge.report.problems == ()
