"""The adapter that reads files of projects, also of hostile ones."""

import os
from pathlib import Path

import pytest

from agent_actors.domain.workspace.project import FileText
from agent_actors.errors import WorkspaceError
from agent_actors.project.reading import MAX_PROBLEMS, read_project
from agent_actors.project.skills import HEAD_BYTES, MAX_SKILLS
from agent_actors.toolbox import project_files
from agent_actors.toolbox.project_files import LocalProjectFiles
from agent_actors.toolbox.workspace.local.failures import Check
from agent_actors.toolbox.workspace.local.files import read_file
from agent_actors.toolbox.workspace.local.walk import Entry
from tests.project.helpers import project_plan

FILES = LocalProjectFiles()


def put(path: Path, text: str = "Text.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_are_found_in_stable_order(tmp_path: Path) -> None:
    for name in ("b/SKILL.md", "a/z/SKILL.md", "a/SKILL.md", "a/other.md", "c.md"):
        put(tmp_path / name)
    found = FILES.find(tmp_path, tmp_path, "SKILL.md", 10)
    assert [str(path.relative_to(tmp_path)) for path in found.paths] == [
        "a/SKILL.md",
        "a/z/SKILL.md",
        "b/SKILL.md",
    ]
    assert len(FILES.find(tmp_path, tmp_path, "*.md", 10).paths) == 5
    assert FILES.find(tmp_path, tmp_path / "none", "*.md", 10).paths == ()
    assert FILES.find(tmp_path, tmp_path / "c.md", "*.md", 10).paths == ()


def test_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = put(tmp_path / "a.md", "1234567")
    head = FILES.read(tmp_path, path, 5)
    assert head is not None
    assert (head.text, head.size, head.complete) == ("12345", 7, False)
    complete = FILES.read(tmp_path, path, 7)
    assert complete is not None
    assert (complete.text, complete.complete) == ("1234567", True)
    path.write_bytes(b"a\xffb")
    damaged = FILES.read(tmp_path, path, 7)
    assert damaged is not None
    assert damaged.text == "a\ufffdb"


def test_missing_file_is_none(tmp_path: Path) -> None:
    put(tmp_path / "a.md")
    for name in ("b.md", "a.md/b.md", "none/b.md"):
        assert FILES.read(tmp_path, tmp_path / name, 5) is None
    assert FILES.read(tmp_path / "none", tmp_path / "none/a.md", 5) is None


def test_links_out_of_the_project_are_refused(tmp_path: Path) -> None:
    project = tmp_path / "project"
    outside = put(tmp_path / "outside/secret/SKILL.md", "secret")
    put(project / "real/SKILL.md", "real")
    (project / "inside.md").symlink_to("real/SKILL.md")
    (project / "out.md").symlink_to(outside)
    (project / "folder").symlink_to(outside.parent)
    inside = FILES.read(project, project / "inside.md", 10)
    assert inside is not None
    assert inside.text == "real"
    for path in ("out.md", "folder/SKILL.md", "../outside/secret/SKILL.md"):
        with pytest.raises(WorkspaceError) as caught:
            FILES.read(project, project / path, 10)
        assert caught.value.reason == "refused"
    found = FILES.find(project, project, "SKILL.md", 10)
    assert [path.parent.name for path in found.paths] == ["real"]
    linked = FILES.find(project, project / "folder", "SKILL.md", 10)
    assert linked.paths == ()
    assert "link out of the project" in str(linked.problems[0])


def test_special_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "SKILL.md")
    with pytest.raises(WorkspaceError, match="not a regular file"):
        FILES.read(tmp_path, tmp_path / "SKILL.md", 10)
    with pytest.raises(WorkspaceError, match="a directory"):
        FILES.read(tmp_path, tmp_path, 10)


def test_changing_file_is_never_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.md", "old")
    reads: list[str] = []

    def changing(shown: str, entry: Entry, offset: int, limit: int, check: Check) -> bytes:
        data = read_file(shown, entry, offset, limit, check)
        if len(reads) < writes:
            path.write_text("new" * (len(reads) + 1))
        reads.append(data.decode())
        return data

    monkeypatch.setattr(project_files, "read_file", changing)
    writes = 2
    settled = FILES.read(tmp_path, path, 100)
    assert settled is not None
    assert settled.text == "newnew"
    writes = 100
    with pytest.raises(WorkspaceError, match="changes while it is read") as caught:
        FILES.read(tmp_path, path, 1000)
    assert caught.value.reason == "changed"


def test_directory_above_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "a/b"
    put(folder / "x.md")
    (tmp_path / ".mark").mkdir()
    assert FILES.find_above(folder, ".mark") == tmp_path
    assert FILES.find_above(folder, ".no-such-mark") is None


def test_search_has_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_files, "MAX_ENTRIES", 20)
    for number in range(30):
        put(tmp_path / f"wide/{number:02}.md")
    deep = tmp_path / "deep"
    put(deep / "/".join("d" * 15) / "a.md")
    wide = FILES.find(tmp_path, tmp_path / "wide", "*.md", 100)
    assert len(wide.paths) == 20
    assert "ended after 20 directory entries" in str(wide.problems[0])
    limited = FILES.find(tmp_path, tmp_path / "wide", "*.md", 3)
    assert len(limited.paths) == 3
    assert "only the first 3 files" in str(limited.problems[-1])
    below = FILES.find(tmp_path, deep, "*.md", 100)
    assert below.paths == ()
    assert "directories below level 12 are skipped" in str(below.problems[0])


def test_unreadable_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    found = FILES.find(tmp_path, tmp_path, "*.md", 3)
    assert "the directory cannot be read: Permission denied" in str(found.problems[0])


def test_hostile_project_has_a_bounded_cost(tmp_path: Path) -> None:
    """The number of bytes that are read does not grow with the project."""

    class Counting(LocalProjectFiles):
        characters = 0

        def read(self, root: Path, path: Path, limit: int) -> FileText | None:
            file = super().read(root, path, limit)
            self.characters += 0 if file is None else len(file.text)
            return file

    skills = tmp_path / ".claude/skills"
    for number in range(MAX_SKILLS + 100):
        put(skills / f"{number:04}/SKILL.md", "---\na: &a [x]\nb: *a\n---\n")
    for name, size in (("a-large", 10**9), ("b-large", 10**12)):
        with put(skills / name / "SKILL.md").open("r+b") as file:
            file.truncate(size)
    put(tmp_path / "AGENTS.md", "@SELF.md @AGENTS.md")
    put(tmp_path / "SELF.md", "@AGENTS.md @SELF.md @/etc/passwd @../out.md")
    (tmp_path / "CLAUDE.md").symlink_to("/etc/passwd")
    files = Counting()
    knowledge = read_project(files, project_plan(project_dir=tmp_path))
    assert files.characters <= MAX_SKILLS * HEAD_BYTES
    assert knowledge.skills.entries == {}
    assert len(knowledge.report.problems) == MAX_PROBLEMS
    assert "root:" not in knowledge.memory
    assert all(str(problem).isprintable() for problem in knowledge.report.problems)
