"""The workspace in memory."""

import pytest

from agent_actors.abc.workspace import Workspace
from agent_actors.domain.workspace.files import FileInfo, GrepQuery
from agent_actors.domain.workspace.processes import ProcessEnd, ProcessResult, ProcessSpec
from agent_actors.errors import WorkspaceError, WorkspaceFailure
from agent_actors.testing import MemoryWorkspace

FILES: dict[str, str | bytes] = {"a.txt": "one\ntwo\n", "src/b.py": "b", "src/deep/c.PY": b"\xff\n"}


async def failure(operation: object) -> WorkspaceFailure:
    """Return the reason why an operation fails."""
    with pytest.raises(WorkspaceError) as caught:
        await operation  # type: ignore[misc] # pyright: ignore[reportGeneralTypeIssues]
    return caught.value.reason


async def test_files_are_read_and_written() -> None:
    workspace = MemoryWorkspace(FILES)
    assert isinstance(workspace, Workspace)
    part = await workspace.read("/workspace/src/../a.txt", offset=4, limit=2)
    assert (part.info.path, part.data, part.truncated) == ("a.txt", b"tw", True)
    written = await workspace.write("x/y.txt", b"1")
    assert written == FileInfo("x/y.txt", "file", 1, written.version)
    assert await workspace.stat("x") == FileInfo("x", "directory")
    again = await workspace.write("x/y.txt", b"2", expected=written.version)
    assert again.version != written.version
    assert await failure(workspace.write("x/y.txt", b"3", expected=written.version)) == "changed"
    assert await failure(workspace.write("x/y.txt", b"3", overwrite=False)) == "exists"
    assert await failure(workspace.write("x", b"3")) == "not_a_file"
    assert await failure(workspace.write("x/y.txt/z", b"3")) == "not_a_directory"
    assert await failure(workspace.read("x/z")) == "not_found"
    assert await failure(workspace.read("x")) == "not_a_file"


async def test_entries_are_listed_and_removed() -> None:
    workspace = MemoryWorkspace(FILES)
    listing = await workspace.list("src")
    assert [(entry.path, entry.kind) for entry in listing.entries] == [
        ("src/b.py", "file"),
        ("src/deep", "directory"),
    ]
    assert (await workspace.list(limit=1)).truncated
    assert await failure(workspace.remove("src")) == "not_empty"
    await workspace.remove("src/deep/c.PY")
    await workspace.remove("src/deep")
    assert await failure(workspace.remove("src/deep")) == "not_found"
    assert await failure(workspace.remove(".")) == "not_empty"
    assert await failure(workspace.list("a.txt")) == "not_a_directory"


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*", ["a.txt"]),
        ("**", ["a.txt", "src/b.py", "src/deep/c.PY"]),
        ("**/*.{py,txt}", ["a.txt", "src/b.py"]),
        ("src/?.p[xy]", ["src/b.py"]),
        ("src/[!b]*", []),
        ("**/c.PY", ["src/deep/c.PY"]),
        ("a.{t", []),
    ],
)
async def test_glob_patterns_match(pattern: str, paths: list[str]) -> None:
    assert list((await MemoryWorkspace(FILES).glob(pattern)).paths) == paths


async def test_glob_searches_below_a_directory() -> None:
    workspace = MemoryWorkspace({**FILES, "src2/b.py": ""})
    assert (await workspace.glob("**/*.py", "src")).paths == ("src/b.py",)
    assert (await workspace.glob("**", limit=1)).truncated


async def test_grep_searches_lines() -> None:
    workspace = MemoryWorkspace({**FILES, "n.bin": b"one\0"})
    found = await workspace.grep(GrepQuery(pattern="^.", before=1, limit=2))
    assert [(match.file, match.line, match.before) for match in found.matches] == [
        ("a.txt", 1, ()),
        ("a.txt", 2, ("one",)),
    ]
    assert (found.truncated, found.skipped) == (True, 1)
    across = await workspace.grep(GrepQuery(pattern="e$.^T", ignore_case=True, multiline=True))
    assert [match.line for match in across.matches] == [1]
    ends = await workspace.grep(GrepQuery(pattern=r"\Z", path="a.txt", multiline=True))
    assert ends.matches == ()
    glob = GrepQuery(pattern="b", path="src", file_glob="deep/*")
    assert (await workspace.grep(glob)).matches == ()
    assert await failure(workspace.grep(GrepQuery(pattern="("))) == "failed"
    assert await failure(workspace.grep(GrepQuery(pattern="a", path="none"))) == "not_found"


async def test_refused_operations_are_reported() -> None:
    workspace = MemoryWorkspace({".git/config": ""}, protected=(".git/*",))
    assert (await workspace.stat(".git/config")).protected
    assert await failure(workspace.write(".git/config", b"")) == "protected"
    for path in ("..", "/etc/passwd", "/workspaces", ".git/../../a"):
        assert await failure(workspace.read(path)) == "refused"
    assert await failure(workspace.read("")) == "refused"
    assert await failure(workspace.exec(ProcessSpec(argv="ls"))) == "refused"
    report = workspace.describe()
    assert (report.processes, report.limits, report.refused) == ("refused", None, 6)
    assert [one.target for one in report.refusals][1:3] == ["..", "/etc/passwd"]
    assert await failure(MemoryWorkspace(FILES, read_only=True).remove("a.txt")) == "refused"
    await workspace.aclose()
    assert await failure(workspace.stat(".git")) == "unavailable"


async def test_commands_have_the_given_results() -> None:
    done = ProcessResult(end=ProcessEnd(exit_code=0))
    result = ProcessResult(stdout=b"12345", stderr=b"e", end=done.end)
    workspace = MemoryWorkspace(FILES, commands={"make test": result, "true": done})
    spec = ProcessSpec(argv=("make", "test"), max_output_bytes=2)
    cut = await workspace.exec(spec)
    assert (cut.stdout, cut.stdout_truncated, cut.stderr_truncated) == (b"12", True, False)
    assert (await workspace.exec(ProcessSpec(argv="no"))).end.exit_code == 127
    assert await failure(workspace.exec(ProcessSpec(argv="no", cwd="a.txt"))) == "not_a_directory"
    output: list[tuple[str, bytes]] = []

    def keep(stream: str, data: bytes) -> None:
        output.append((stream, data))

    silent = await workspace.start(ProcessSpec(argv="true"), keep)
    assert (await silent.wait()).exit_code == 0
    process = await workspace.start(spec, keep)
    assert output == [("stdout", b"12345"), ("stderr", b"e")]
    assert await process.wait() == await process.kill() == result.end
    assert workspace.describe().processes == "sandboxed"
