"""Memory files with their imports, and rules, as parts of the system prompt."""

from pathlib import Path

import attrs
import pytest

from agent_actors.domain.workspace.project import FileText
from agent_actors.project.memory import (
    MAX_IMPORTS,
    MAX_MEMORY_BYTES,
    SEPARATOR,
    imports_of,
    memory_block,
)
from agent_actors.project.reading import ProjectKnowledge, read_project
from agent_actors.project.rules import MAX_RULE_BYTES, PathPattern, Rule, parse_rule
from agent_actors.toolbox.project_files import LocalProjectFiles
from tests.project.helpers import PROJECTS, ROOT, MemoryFiles, project_plan


def read(texts: dict[str, str], *sources: str) -> ProjectKnowledge:
    return read_project(MemoryFiles(texts), project_plan(*sources))


def memory_of(knowledge: ProjectKnowledge) -> list[str]:
    block = knowledge.memory.partition("<agent_memory>\n")[2].partition("\n</agent_memory>")[0]
    return block.split(SEPARATOR)


def problems(knowledge: ProjectKnowledge) -> list[str]:
    return [str(problem) for problem in knowledge.report.problems]


@pytest.mark.feature("WICK-063")
def test_memory_block_has_four_guidelines() -> None:
    assert memory_block(["Use tabs."], "edit_file") == (
        "<agent_memory>\nUse tabs.\n</agent_memory>\n\n"
        "## Memory guidelines\n\n"
        "- This memory persists across conversations.\n"
        "- You can update it with the edit_file tool on the AGENTS.md file.\n"
        "- Use it for context, decisions and patterns that matter.\n"
        "- Keep entries concise and organized."
    )
    assert memory_block(["  "], "Edit") == ""


def test_file_cannot_end_the_block() -> None:
    block = memory_block(["a</agent_memory>b<AGENT_MEMORY>"], "Edit")
    assert "a&lt;/agent_memory>b&lt;AGENT_MEMORY>" in block
    assert block.count("</agent_memory>") == 1


@pytest.mark.feature("WICK-060", "WICK-061", "OAGS-065")
def test_nearest_memory_file_is_last() -> None:
    texts = {
        ".git/config": "",
        "AGENTS.md": "Root agents.",
        "CLAUDE.md": "Root Claude.",
        "packages/api/AGENTS.md": "API.",
        "packages/web/AGENTS.md": "Web.",
    }
    plan = project_plan(project_dir=ROOT / "packages/api")
    knowledge = read_project(MemoryFiles(texts), plan)
    assert memory_of(knowledge) == ["Root Claude.", "Root agents.", "API."]
    assert "\n\n---\n\n" in knowledge.memory


@pytest.mark.feature("WICK-062")
def test_missing_memory_files_are_skipped() -> None:
    files = MemoryFiles({"notes/a.md": "A."})
    paths = (ROOT / "notes/none.md", ROOT / "notes/a.md")
    plan = project_plan(sources=frozenset[str](), memory_paths=paths)
    knowledge = read_project(files, plan)
    assert (memory_of(knowledge), problems(knowledge)) == (["A."], [])
    assert knowledge.report.files == ("notes/a.md",)


def test_same_file_is_used_once() -> None:
    linked = read({"AGENTS.md": "Text.", "CLAUDE.md": "->/project/AGENTS.md"})
    copied = read({"AGENTS.md": "Text.", "CLAUDE.md": " Text.\n"})
    assert memory_of(linked) == memory_of(copied) == ["Text."]


def test_each_source_enables_its_files() -> None:
    texts = {
        "AGENTS.md": "Project.",
        "CLAUDE.local.md": "Local.",
        "home/.claude/CLAUDE.md": "User.",
    }
    assert memory_of(read(texts, "project")) == ["Project."]
    assert memory_of(read(texts, "local")) == ["Local."]
    assert memory_of(read(texts, "user")) == ["User."]
    assert memory_of(read(texts, "user", "local", "project")) == ["User.", "Project.", "Local."]


def test_imports_are_paths_in_prose() -> None:
    text = (
        "See @docs/style.md, @a.md. Mail a@b.c or @alice.\n`@code.md`\n```\n@fence.md\n```\n"
        "@../up.md @docs/style.md"
    )
    assert imports_of(text) == ("docs/style.md", "a.md", "../up.md")


def test_imports_are_bounded_and_cycle_safe() -> None:
    cycle = read({"AGENTS.md": "@a.md", "a.md": "A. @AGENTS.md @b/c.md", "b/c.md": "C. @../a.md"})
    assert memory_of(cycle) == ["@a.md", "A. @AGENTS.md @b/c.md", "C. @../a.md"]
    assert problems(cycle) == []
    deep = read({"AGENTS.md": "@0.md"} | {f"{n}.md": f"{n} @{n + 1}.md" for n in range(9)})
    assert len(memory_of(deep)) == 6
    assert problems(deep) == ["/project/4.md: imports are followed to a depth of 5"]
    names = " ".join(f"@{n}.md" for n in range(MAX_IMPORTS + 5))
    wide = read({"AGENTS.md": names} | {f"{n}.md": f"Text {n}" for n in range(MAX_IMPORTS + 5)})
    assert len(memory_of(wide)) == MAX_IMPORTS + 1
    assert problems(wide) == [f"/project/AGENTS.md: at most {MAX_IMPORTS} imports are followed"]


def test_import_outside_the_project_is_refused() -> None:
    knowledge = read({"AGENTS.md": "@/etc/passwd @../x.md @none.md"})
    assert memory_of(knowledge) == ["@/etc/passwd @../x.md @none.md"]
    assert "/etc/passwd: /etc/passwd is outside" in problems(knowledge)[0]
    assert problems(knowledge)[-1] == "/project/AGENTS.md: the import @none.md was not read"


def test_memory_has_a_maximum_size() -> None:
    large = read({"AGENTS.md": "x" * (MAX_MEMORY_BYTES + 1)})
    assert large.memory == ""
    assert problems(large) == ["AGENTS.md: expected at most 65536 bytes; got 65537"]
    names = " ".join(f"@{n}.md" for n in range(6))
    texts = {f"{n}.md": str(n) * (MAX_MEMORY_BYTES - 1) for n in range(6)}
    full = read({"AGENTS.md": names} | texts)
    assert len(full.memory) < 5 * MAX_MEMORY_BYTES
    assert "the memory of all files together may have 262144" in problems(full)[0]


@pytest.mark.feature("ASDK-108", "ASDK-109")
def test_rules_are_sorted_and_merged() -> None:
    texts = {
        ".claude/rules/b.md": "B.",
        ".claude/rules/a.md": "---\ndescription: x\n---\nA.\n",
        ".claude/rules/deep/c.md": "C.",
        ".claude/rules/paths.md": "---\npaths: src/**\n---\nOnly src.",
        "home/.claude/rules/z.md": "User.",
    }
    knowledge = read(texts, "project", "user")
    assert knowledge.prompt("Own.") == "Own.\n\nUser.\n\nA.\n\nB."
    assert [rule.path for rule in knowledge.rules if rule.patterns] == [".claude/rules/paths.md"]


def test_prompt_has_parts_in_order() -> None:
    texts = {
        ".claude/skills/s/SKILL.md": "Skill.",
        ".claude/rules/r.md": "Rule.",
        "AGENTS.md": "Memory.",
    }
    prompt = read(texts).prompt("Own.")
    parts = ("Own.", "<agent_memory>", "guidelines", "Rule.", "[s] Skill.")
    assert sorted(parts, key=prompt.index) == list(parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\npaths: [\n---\n", ".claude/rules/r.md:3: the frontmatter is not valid YAML"),
        ("---\npaths: [1]\n---\n", ".claude/rules/r.md:1: paths must be a list"),
        ("---\npaths: []\n---\n", ".claude/rules/r.md:1: paths must be a list"),
        ("---\npaths: {a: b}\n---\n", ".claude/rules/r.md:1: paths must be a list"),
        ("x" * (MAX_RULE_BYTES + 1), "expected at most 65536 bytes; got 65537"),
    ],
)
def test_broken_rule_is_reported(text: str, expected: str) -> None:
    knowledge = read({".claude/rules/r.md": text})
    assert knowledge.rules == ()
    assert expected in problems(knowledge)[0]


def test_rules_have_a_maximum_size() -> None:
    texts = {f".claude/rules/{n}.md": "x" * MAX_RULE_BYTES for n in range(5)}
    knowledge = read(texts)
    assert len(knowledge.rules) == 4
    assert "the rules of all files together may have 262144" in problems(knowledge)[0]


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py"], ["src/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "src/deep/a.py"], ["a.txt"]),
        ("src/**", ["src", "src/a", "src/a/b"], ["lib/src"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/a/b/test_c.py"], ["src/a.py"]),
        ("a/?.md", ["a/b.md"], ["a/bc.md", "a/b/c.md"]),
        ("**/**/x", ["x", "a/b/x"], ["x/y"]),
    ],
)
def test_paths_of_rules_match(pattern: str, matching: list[str], other: list[str]) -> None:
    files = MemoryFiles({"r.md": f"---\npaths: ['{pattern}']\n---\nText."})
    file = files.read(ROOT, ROOT / "r.md", 1000)
    assert file is not None
    rule = parse_rule(file, "r.md")
    assert isinstance(rule, Rule)
    assert isinstance(rule.patterns[0], PathPattern)
    assert [path for path in (*matching, *other) if rule.applies_to([path])] == matching


def test_memory_of_nested_project_is_read() -> None:
    knowledge = read_project(LocalProjectFiles(), project_plan(project_dir=PROJECTS / "minimal"))
    assert "# Minimal\n\nUse tabs." in memory_of(knowledge)[-1]


class VanishingFiles(MemoryFiles):
    """Files that are found but no longer exist when they are read."""

    def read(self, root: Path, path: Path, limit: int) -> FileText | None:
        """Return None, as for a file that was deleted."""
        return None


def test_file_may_vanish_before_it_is_read() -> None:
    texts = {".claude/rules/a.md": "A.", ".claude/commands/b.md": "B."}
    plan = attrs.evolve(project_plan("project"), reads_commands=True)
    knowledge = read_project(VanishingFiles(texts), plan)
    assert (list(knowledge.rules), dict(knowledge.commands)) == ([], {})
