"""The contract of the file operations of `abc.Workspace`, over every implementation."""

import os
from pathlib import Path

import pytest
import trio

from agent_actors.abc.workspace import Workspace
from agent_actors.domain.workspace.files import FileLimits, GrepQuery
from agent_actors.errors import WorkspaceError
from tests.toolbox.workspace.places import OpenPlace, Place


def reason_of(raised: pytest.ExceptionInfo[WorkspaceError]) -> str:
    return raised.value.reason


def leftovers(root: Path) -> list[str]:
    return [str(path) for path in root.rglob(".agent-actors-*")]


async def test_workspace_implements_the_port(place: Place) -> None:
    assert isinstance(place.workspace, Workspace)
    report = place.workspace.describe()
    assert report.root == str(place.root)
    assert report.allowed_paths == (str(place.allowed),)
    assert ".git/hooks/**" in report.protected


# Reading.


async def test_read_returns_requested_part(place: Place) -> None:
    (place.root / "a.txt").write_bytes(b"0123456789")
    whole = await place.workspace.read("a.txt")
    assert (whole.data, whole.truncated, whole.info.size) == (b"0123456789", False, 10)
    part = await place.workspace.read("./a.txt", offset=2, limit=3)
    assert (part.data, part.truncated) == (b"234", True)
    end = await place.workspace.read("a.txt", offset=8, limit=5)
    assert (end.data, end.truncated) == (b"89", False)
    behind = await place.workspace.read("a.txt", offset=10**30)
    assert (behind.data, behind.truncated) == (b"", False)


async def test_read_is_limited_by_workspace(open_place: OpenPlace, tmp_path: Path) -> None:
    async with open_place(tmp_path, file_limits=FileLimits(read_bytes=4)) as place:
        (place.root / "a.txt").write_bytes(b"0123456789")
        found = await place.workspace.read("a.txt", limit=100)
        assert (found.data, found.truncated) == (b"0123", True)


async def test_read_reports_reasons(place: Place) -> None:
    (place.root / "directory").mkdir()
    for path, reason in {"missing": "not_found", "directory": "not_a_file"}.items():
        with pytest.raises(WorkspaceError) as raised:
            await place.workspace.read(path)
        assert (reason_of(raised), raised.value.path) == (reason, path)
    with pytest.raises(WorkspaceError, match="must not be negative"):
        await place.workspace.read("a", offset=-1)


async def test_paths_lead_to_canonical_names(place: Place) -> None:
    (place.root / "a" / "b").mkdir(parents=True)
    (place.root / "a" / "b" / "c.txt").write_text("c")
    (place.root / "to-b").symlink_to("a/b")
    (place.root / "absolute").symlink_to(f"{place.inner_root}/a/b")
    (place.root / "to-allowed").symlink_to(place.inner_allowed)
    (place.allowed / "d.txt").write_text("d")
    (place.allowed / "back").symlink_to(f"{place.inner_root}/a")
    expected = {
        "a/./b//c.txt": "a/b/c.txt",
        "a/../a/b/c.txt": "a/b/c.txt",
        "to-b/c.txt": "a/b/c.txt",
        "to-b/../b/c.txt": "a/b/c.txt",
        "absolute/c.txt": "a/b/c.txt",
        f"{place.inner_root}/a/b/c.txt": "a/b/c.txt",
        "to-allowed/d.txt": f"{place.inner_allowed}/d.txt",
        f"{place.inner_allowed}/back/b/c.txt": "a/b/c.txt",
        "to-allowed/back/..": ".",
        place.inner_allowed: place.inner_allowed,
        place.inner_root: ".",
        ".": ".",
    }
    found = {path: (await place.workspace.stat(path)).path for path in expected}
    assert found == expected


async def test_chain_of_forty_links_is_followed(place: Place) -> None:
    (place.root / "0").write_text("end")
    for number in range(1, 42):
        (place.root / str(number)).symlink_to(str(number - 1))
    assert (await place.workspace.read("40")).data == b"end"
    with pytest.raises(WorkspaceError, match="more than 40 symlinks"):
        await place.workspace.read("41")


# Writing.


async def test_write_creates_parents_and_content(place: Place) -> None:
    info = await place.workspace.write("a/b/c.txt", b"new")
    assert (place.root / "a/b/c.txt").read_bytes() == b"new"
    assert (info.path, info.kind, info.size) == ("a/b/c.txt", "file", 3)
    assert info == await place.workspace.stat("a/b/c.txt")
    assert not leftovers(place.root)


async def test_write_keeps_mode_and_owner(place: Place) -> None:
    path = place.root / "run.sh"
    path.write_text("old")
    path.chmod(0o754)
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)
    before = path.stat()
    await place.workspace.write("run.sh", b"new")
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


async def test_open_reader_keeps_old_content(place: Place) -> None:
    (place.root / "a.txt").write_text("old")
    with (place.root / "a.txt").open() as reader:
        await place.workspace.write("a.txt", b"new")
        assert reader.read() == "old"


async def test_write_through_link_keeps_link(place: Place) -> None:
    (place.root / "target.txt").write_text("old")
    (place.root / "link").symlink_to("target.txt")
    (place.root / "dangling").symlink_to("new/file.txt")
    await place.workspace.write("link", b"new")
    await place.workspace.write("dangling", b"created")
    assert (place.root / "link").is_symlink()
    assert (place.root / "target.txt").read_text() == "new"
    assert (place.root / "new/file.txt").read_text() == "created"


async def test_write_detaches_hard_link(place: Place) -> None:
    (place.outside / "a.txt").write_text("outside")
    (place.root / "a.txt").hardlink_to(place.outside / "a.txt")
    await place.workspace.write("a.txt", b"inside")
    assert (place.outside / "a.txt").read_text() == "outside"
    assert (place.root / "a.txt").read_text() == "inside"


async def test_existing_file_is_not_overwritten(place: Place) -> None:
    await place.workspace.write("a.txt", b"first", overwrite=False)
    with pytest.raises(WorkspaceError) as raised:
        await place.workspace.write("a.txt", b"second", overwrite=False)
    assert reason_of(raised) == "exists"
    assert (place.root / "a.txt").read_bytes() == b"first"
    assert not leftovers(place.root)


async def test_one_of_many_creators_wins(place: Place) -> None:
    results: list[str] = []

    async def create(number: int) -> None:
        try:
            await place.workspace.write("a.txt", b"%d" % number, overwrite=False)
        except WorkspaceError as error:
            results.append(error.reason)
        else:
            results.append("created")

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(create, number)
    assert sorted(results) == ["created", *["exists"] * 19]
    assert not leftovers(place.root)


async def test_expected_version_guards_a_write(place: Place) -> None:
    first = await place.workspace.write("a.txt", b"1")
    second = await place.workspace.write("a.txt", b"2", expected=first.version)
    for changed in ("a.txt", "missing.txt"):
        with pytest.raises(WorkspaceError) as raised:
            await place.workspace.write(changed, b"3", expected=first.version)
        assert reason_of(raised) == "changed"
    (place.root / "a.txt").write_bytes(b"x")
    with pytest.raises(WorkspaceError) as raised:
        await place.workspace.write("a.txt", b"3", expected=second.version)
    assert reason_of(raised) == "changed"
    assert (place.root / "a.txt").read_bytes() == b"x"


async def test_one_of_many_expecting_writers_wins(place: Place) -> None:
    for _ in range(5):
        start = await place.workspace.write("a.txt", b"start")
        results: list[str] = []

        async def replace(expected: str, results: list[str]) -> None:
            try:
                await place.workspace.write("a.txt", b"other", expected=expected)
            except WorkspaceError as error:
                results.append(error.reason)
            else:
                results.append("written")

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(replace, start.version, results)
        assert sorted(results) == [*["changed"] * 9, "written"]


async def test_versions_of_equal_writes_differ(place: Place) -> None:
    versions = {(await place.workspace.write("a.txt", b"same")).version for _ in range(50)}
    assert len(versions) == 50


async def test_write_refuses_what_is_no_file(place: Place) -> None:
    (place.root / "a").mkdir()
    (place.root / "b.txt").write_text("b")
    reasons = {
        "a": "not_a_file",
        ".": "not_a_file",
        "new/": "not_a_file",
        "b.txt/c": "not_a_directory",
        "new/../c": "not_found",
    }
    for path, reason in reasons.items():
        with pytest.raises(WorkspaceError) as raised:
            await place.workspace.write(path, b"")
        assert (path, reason_of(raised)) == (path, reason)
    assert sorted(path.name for path in place.root.iterdir()) == ["a", "b.txt"]


async def test_too_large_write_changes_nothing(open_place: OpenPlace, tmp_path: Path) -> None:
    async with open_place(tmp_path, file_limits=FileLimits(write_bytes=3)) as place:
        await place.workspace.write("a.txt", b"abc")
        with pytest.raises(WorkspaceError) as raised:
            await place.workspace.write("a.txt", b"abcd")
        assert reason_of(raised) == "too_large"
        assert (place.root / "a.txt").read_bytes() == b"abc"


async def test_read_only_workspace_refuses_changes(open_place: OpenPlace, tmp_path: Path) -> None:
    async with open_place(tmp_path, read_only=True) as place:
        (place.root / "a.txt").write_text("a")
        with pytest.raises(WorkspaceError) as raised:
            await place.workspace.write("a.txt", b"b")
        assert reason_of(raised) == "protected"
        with pytest.raises(WorkspaceError) as raised:
            await place.workspace.remove("a.txt")
        assert reason_of(raised) == "protected"
        assert (await place.workspace.read("a.txt")).info.protected
        assert place.workspace.describe().read_only


# Protected paths.


async def test_protected_files_are_readable(place: Place) -> None:
    (place.root / ".git/hooks").mkdir(parents=True)
    (place.root / ".git/config").write_text("[core]")
    (place.root / ".git/description").write_text("old")
    data = await place.workspace.read(".git/config")
    assert (data.data, data.info.protected) == (b"[core]", True)
    listed = {one.path: one.protected for one in (await place.workspace.list(".git")).entries}
    assert listed == {".git/config": True, ".git/description": False, ".git/hooks": True}
    assert not (await place.workspace.write(".git/description", b"new")).protected


async def test_no_path_is_protected_by_option(open_place: OpenPlace, tmp_path: Path) -> None:
    async with open_place(tmp_path, protected=()) as place:
        await place.workspace.write(".git/hooks/pre-commit", b"")
        await place.workspace.write(".mcp.json", b"")
        assert place.workspace.describe().protected == ()


async def test_own_patterns_protect_paths(open_place: OpenPlace, tmp_path: Path) -> None:
    async with open_place(tmp_path, protected=("*.lock", "vendor/**", "{a,b}/c")) as place:
        for path in ("x/uv.lock", "vendor/lib/a.py", "vendor", "a/c", "x/b/c"):
            with pytest.raises(WorkspaceError) as raised:
                await place.workspace.write(path, b"")
            assert reason_of(raised) == "protected"
        for path in ("uv.lock2", "src/vendored", "a/d"):
            await place.workspace.write(path, b"")


# Directories.


async def test_listing_is_sorted_and_limited(place: Place) -> None:
    (place.root / "dir").mkdir()
    (place.root / "b.txt").write_text("b")
    (place.root / ".hidden").write_text("")
    (place.root / "link").symlink_to("b.txt")
    (place.root / "dangling").symlink_to("missing")
    os.mkfifo(place.root / "pipe")
    (place.root / ".agent-actors-0.tmp").write_text("a temporary file of a write")
    os.mkdir(os.fsencode(place.root) + b"/\xff")  # noqa: PTH102 - not UTF-8
    listing = await place.workspace.list()
    assert [(one.path, one.kind, one.size) for one in listing.entries] == [
        (".hidden", "file", 0),
        ("b.txt", "file", 1),
        ("dangling", "other", 0),
        ("dir", "directory", 0),
        ("link", "file", 1),
        ("pipe", "other", 0),
    ]
    first = await place.workspace.list(limit=2)
    assert [one.path for one in first.entries] == [".hidden", "b.txt"]
    assert (listing.truncated, first.truncated) == (False, True)
    with pytest.raises(WorkspaceError) as raised:
        await place.workspace.list("b.txt")
    assert reason_of(raised) == "not_a_directory"


async def test_remove_removes_the_entry_itself(place: Place) -> None:
    (place.root / "dir").mkdir()
    (place.root / "dir/a.txt").write_text("a")
    (place.root / "link").symlink_to("dir")
    with pytest.raises(WorkspaceError) as raised:
        await place.workspace.remove("dir")
    assert reason_of(raised) == "not_empty"
    await place.workspace.remove("link")
    await place.workspace.remove("dir/a.txt")
    await place.workspace.remove("dir/")
    assert list(place.root.iterdir()) == []
    with pytest.raises(WorkspaceError) as raised:
        await place.workspace.remove("dir")
    assert reason_of(raised) == "not_found"


# Search by name.

TREE = (
    "a.txt",
    "a/one.py",
    "a/two.txt",
    "a/b/three.py",
    ".hidden/four.py",
    ".git/five.py",
    "a-c/six.py",
    "[x].py",
)


@pytest.fixture
def tree(place: Place) -> Place:
    for name in TREE:
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        (place.root / name).write_text(f"content of {name}\n")
    return place


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", ["a.txt"]),
        ("**/*.txt", ["a.txt", "a/two.txt"]),
        ("**", [".hidden/four.py", "[x].py", "a-c/six.py", "a.txt", "a/b/three.py"]),
        ("a/*", ["a/one.py", "a/two.txt"]),
        ("a/**", ["a/b/three.py", "a/one.py", "a/two.txt"]),
        ("a/**/*.py", ["a/b/three.py", "a/one.py"]),
        ("**/b/*", ["a/b/three.py"]),
        ("a/{one,b/*}.py", ["a/b/three.py", "a/one.py"]),
        ("{a,{a-c,.hidden}}/*.py", [".hidden/four.py", "a-c/six.py", "a/one.py"]),
        ("?.txt", ["a.txt"]),
        ("[[]x].py", ["[x].py"]),
        ("[!a].*", []),
        ("A.TXT", []),
        ("a.txt/**", []),
        (".git/*", [".git/five.py"]),
        ("**/.git/**", [".git/five.py"]),
        ("./a//one.py", ["a/one.py"]),
        ("{a.txt}", []),
        ("a/*/*/*", []),
    ],
)
async def test_pattern_finds_sorted_paths(tree: Place, pattern: str, found: list[str]) -> None:
    matches = await tree.workspace.glob(pattern)
    if pattern == "**":
        found = [*found, "a/one.py", "a/two.txt"]
    assert list(matches.paths) == found
    assert not matches.truncated


async def test_search_by_name_is_bounded(tree: Place) -> None:
    matches = await tree.workspace.glob("**/*.py", limit=2)
    assert matches.paths == (".hidden/four.py", "[x].py")
    assert matches.truncated
    below = await tree.workspace.glob("*.py", "a")
    assert below.paths == ("a/one.py",)
    absolute = await tree.workspace.glob(f"{tree.inner_root}/a/*.py")
    assert absolute.paths == ("a/one.py",)
    (tree.allowed / "seven.py").write_text("")
    allowed = await tree.workspace.glob("*.py", tree.inner_allowed)
    assert allowed.paths == (f"{tree.inner_allowed}/seven.py",)


async def test_exhausted_search_is_truncated(open_place: OpenPlace, tmp_path: Path) -> None:
    async with open_place(tmp_path, file_limits=FileLimits(search_entries=10)) as place:
        for number in range(50):
            (place.root / f"{number}.txt").write_text("")
        matches = await place.workspace.glob("*.md")
        assert (matches.paths, matches.truncated) == ((), True)


async def test_links_to_files_are_found(tree: Place) -> None:
    (tree.outside / "o.md").write_text("")
    for name, target in {
        "in.md": "a.txt",
        "out.md": f"{tree.outside}/o.md",
        "dir.md": "a",
        "gone.md": "missing",
    }.items():
        (tree.root / name).symlink_to(target)
    (tree.root / "loop").symlink_to(".")
    assert (await tree.workspace.glob("**/*.md")).paths == ("in.md",)


@pytest.mark.parametrize("pattern", ["", "x" * 5_000, "a/../b", "{a,b}" * 12, "a\0"])
async def test_invalid_pattern_is_refused(place: Place, pattern: str) -> None:
    with pytest.raises(WorkspaceError) as raised:
        await place.workspace.glob(pattern)
    assert reason_of(raised) == "invalid"


# Search by content.


@pytest.mark.feature("OAGS-036")
async def test_lines_are_found_with_context(tree: Place) -> None:
    (tree.root / "a/long.txt").write_text("one\ntwo\nthree\r\nfour\nfive")
    found = await tree.workspace.grep(GrepQuery(pattern="^th.*e$", before=1, after=9))
    (match,) = found.matches
    assert (match.file, match.line, match.text) == ("a/long.txt", 3, "three")
    assert (match.before, match.after) == (("two",), ("four", "five"))
    query = GrepQuery(pattern="content", file_glob="*.py", limit=2)
    found = await tree.workspace.grep(query)
    assert [match.file for match in found.matches] == [".hidden/four.py", "[x].py"]
    assert found.truncated
    query = GrepQuery(pattern="content", path="a", file_glob="b/*.py")
    found = await tree.workspace.grep(query)
    assert [match.file for match in found.matches] == ["a/b/three.py"]
    query = GrepQuery(pattern="CONTENT", path=".git/five.py", ignore_case=True)
    found = await tree.workspace.grep(query)
    assert [match.file for match in found.matches] == [".git/five.py"]
    query = GrepQuery(pattern="content", path=".git")
    assert len((await tree.workspace.grep(query)).matches) == 1


async def test_links_are_not_searched(tree: Place) -> None:
    (tree.root / "link.py").symlink_to("a/one.py")
    (tree.root / "again").symlink_to("a")
    found = await tree.workspace.grep(GrepQuery(pattern="of a/one"))
    assert [match.file for match in found.matches] == ["a/one.py"]
    found = await tree.workspace.grep(GrepQuery(pattern="of a/one", path="again/one.py"))
    assert [match.file for match in found.matches] == ["a/one.py"]


@pytest.mark.parametrize(
    "query",
    [
        GrepQuery(pattern="("),
        GrepQuery(pattern="a\nb"),
        GrepQuery(pattern=r"a\\\nb"),
        GrepQuery(pattern="a\0"),
        GrepQuery(pattern="a", limit=-1),
        GrepQuery(pattern="a", before=1_000),
        GrepQuery(pattern="a", file_glob="../*"),
    ],
    ids=str,
)
async def test_invalid_query_is_refused(place: Place, query: GrepQuery) -> None:
    with pytest.raises(WorkspaceError) as raised:
        await place.workspace.grep(query)
    assert reason_of(raised) == "invalid"


# The end.


async def test_closed_workspace_refuses_calls(open_place: OpenPlace, tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        await place.workspace.aclose()
        await place.workspace.aclose()
        with pytest.raises(WorkspaceError) as raised:
            await place.workspace.stat(".")
        assert reason_of(raised) == "unavailable"
