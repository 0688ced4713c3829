"""Search: both engines find the same lines, hostile patterns end, and races add nothing."""

import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_actors.domain.workspace.files import FileLimits, GrepMatches, GrepQuery
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace import LocalWorkspace
from agent_actors.toolbox.workspace.local.patterns import parse_alternatives
from agent_actors.toolbox.workspace.local.search import ripgrep
from agent_actors.toolbox.workspace.local.search.gitignore import (
    IgnoreFile,
    excludes,
    parse_rules,
)
from tests.toolbox.workspace.local.test_local import descriptors

RIPGREP: Final = ripgrep.program()
WITHOUT: Final[Callable[[], Path | None]] = lambda: None  # noqa: E731
ENGINES: Final = {"ripgrep": lambda: RIPGREP, "re": WITHOUT}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(ripgrep, "program", ENGINES[request.param])
    return str(request.param)


@contextmanager
def using(program: Callable[[], Path | None]) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ripgrep, "program", program)
        yield


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def test_ripgrep_is_found_in_its_package() -> None:
    assert RIPGREP is not None
    assert RIPGREP.name == "rg"


# Both engines. Each example starts processes, so half as many as of other tests are tried.

assert settings.default is not None
EXAMPLES: Final = settings.default.max_examples // 2

LETTERS: Final = "abcA1_ .é-"
words = st.text(LETTERS, max_size=6)
lines = st.lists(words, max_size=5).map("\n".join)
contents = st.one_of(
    lines.map(str.encode),
    lines.map(lambda text: text.replace("\n", "\r\n").encode()),
    st.just(b"a\0b\na"),
    st.just(b"\n\n"),
)
names = st.sampled_from(["a.txt", "b.py", "d/a.txt", "d/e/b.py", ".h/c.txt", "d-e/a.txt", "z"])
atoms = st.one_of(
    st.sampled_from(
        ["a", "b", "A", "1", "_", "é", r"\.", ".", r"\d", r"\w", "[ab]", "[^a]", r"\b"]
    ),
)
regexes = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        inner.map(lambda one: f"^{one}"),
        inner.map(lambda one: f"{one}$"),
    ),
    max_leaves=4,
)
queries = st.builds(
    GrepQuery,
    pattern=regexes,
    path=st.sampled_from([".", "d"]),
    file_glob=st.sampled_from(
        ["", "*.py", "a.*", "d/**", "e/*.py", "{a,b}.*", "[az]*", "**/a.txt"]
    ),
    ignore_case=st.booleans(),
    before=st.integers(0, 2),
    after=st.integers(0, 2),
    multiline=st.booleans(),
    use_gitignore=st.booleans(),
    limit=st.integers(0, 6),
)
ignored = st.dictionaries(
    st.sampled_from([".gitignore", "d/.gitignore", "d/e/.gitignore"]),
    st.lists(
        st.sampled_from(
            [
                "*.txt",
                "!a.txt",
                "d/",
                "/d/e",
                "e",
                "b.py",
                "**/b.py",
                "!d/e/b.py",
                "e/*",
                "# z",
                "z",
            ]
        ),
        max_size=3,
    ).map(lambda rules: "\n".join(rules).encode()),
    max_size=2,
)


@settings(max_examples=EXAMPLES)
@given(st.dictionaries(names, contents, min_size=1, max_size=6), ignored, queries)
def test_engines_find_same_lines(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, bytes],
    ignores: dict[str, bytes],
    query: GrepQuery,
) -> None:
    root = tmp_path_factory.mktemp("search")
    (root / "d").mkdir()
    write(root, files | ignores)

    async def search() -> list[GrepMatches]:
        found: list[GrepMatches] = []
        workspace = LocalWorkspace(root)
        for program in ENGINES.values():
            with using(program):
                found.append(await workspace.grep(query))
        await workspace.aclose()
        return found

    one, two = trio.run(search)
    assert one.matches == two.matches
    assert one.truncated == two.truncated


async def test_matches_across_lines_count_lines(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"a.txt": b"one\ntwo\nthree\none\ntwo\n"})
    workspace = LocalWorkspace(tmp_path)
    found = await workspace.grep(GrepQuery(pattern="one.two", multiline=True))
    assert [match.line for match in found.matches] == [1, 2, 4, 5]
    await workspace.aclose()


async def test_unsearchable_files_are_counted(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"a.bin": b"match\n\0", "b.txt": b"match\n", "c.txt": b"match" * 100})
    workspace = LocalWorkspace(tmp_path, file_limits=FileLimits(search_file_bytes=100))
    found = await workspace.grep(GrepQuery(pattern="match"))
    assert [match.file for match in found.matches] == ["b.txt"]
    assert found.skipped >= (2 if engine == "re" else 0)
    binary = await workspace.grep(GrepQuery(pattern="match", path="a.bin"))
    assert (binary.matches, binary.skipped) == ((), 1)
    with pytest.raises(WorkspaceError) as raised:
        await workspace.grep(GrepQuery(pattern="match", path="c.txt"))
    assert raised.value.reason == "too_large"
    await workspace.aclose()


async def test_long_lines_are_cut(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"a.txt": b"x" * 200_000 + b"\nend\n"})
    workspace = LocalWorkspace(tmp_path)
    found = await workspace.grep(GrepQuery(pattern="x|end", after=1))
    assert [(match.line, len(match.text)) for match in found.matches] == [(1, 2_000), (2, 3)]
    assert found.matches[0].after == ("end",)
    await workspace.aclose()


# Hostile patterns and files.


async def test_catastrophic_expression_is_killed(tmp_path: Path) -> None:
    """Python's `re` would need years; the time limit ends the search, and another one works."""
    write(tmp_path, {"a.txt": b"a" * 60 + b"b\n", "b.txt": b"b\n"})
    workspace = LocalWorkspace(tmp_path, file_limits=FileLimits(search_seconds=0.5))
    with using(WITHOUT):
        found = await workspace.grep(GrepQuery(pattern="^(a+)+$"))
        assert found.truncated
    found = await workspace.grep(GrepQuery(pattern="^b$"))
    assert [match.file for match in found.matches] == ["b.txt"]
    await workspace.aclose()


async def test_waiting_search_is_limited(tmp_path: Path) -> None:
    """ripgrep opens `.gitignore` files, which may be symlinks to a FIFO."""
    write(tmp_path, {"a.txt": b"a\n"})
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / ".gitignore").symlink_to("fifo")
    workspace = LocalWorkspace(tmp_path, file_limits=FileLimits(search_seconds=0.5))
    found = await workspace.grep(GrepQuery(pattern="a"))
    assert found.truncated
    with using(WITHOUT):
        assert len((await workspace.grep(GrepQuery(pattern="a"))).matches) == 1
    await workspace.aclose()


async def test_cancelled_search_ends_process(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"a.txt": b"a" * 60 + b"b\n"})
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / ".gitignore").symlink_to("fifo")
    workspace = LocalWorkspace(tmp_path)
    await workspace.stat(".")
    before = descriptors()
    with trio.move_on_after(0.3) as scope:
        await workspace.grep(GrepQuery(pattern="^(a+)+$"))
    assert scope.cancelled_caught
    assert descriptors() == before
    await workspace.aclose()  # the guard of all tests finds a process that is left


def test_patterns_do_not_backtrack() -> None:
    """Libraries that translate patterns to expressions need hours for these."""
    began = time.process_time()
    name = "a" * 255
    assert not parse_alternatives("*a" * 30 + "b").matches((name,))
    assert not parse_alternatives("**/*a*/" * 40 + "b").matches((name,) * 100)
    rules = IgnoreFile(0, parse_rules("*a" * 30 + "b\n" + "**/*a*/" * 40 + "b"))
    assert not excludes([rules], (name,) * 50, is_directory=False)
    assert time.process_time() - began < 60


async def test_swapped_directory_adds_no_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ripgrep reads a file outside, because a directory is swapped while it searches."""
    write(
        tmp_path,
        {"root/a/b.txt": b"inside\n", "outside/b.txt": b"secret\n", "outside/c.txt": b"secret\n"},
    )
    search = cast("Callable[..., Awaitable[ripgrep.Hits]]", ripgrep.search)

    async def swapped(*args: object) -> ripgrep.Hits:
        """Search while the directory `a` is the one outside."""
        (tmp_path / "root/a").rename(tmp_path / "root/kept")
        (tmp_path / "outside").rename(tmp_path / "root/a")
        hits = await search(*args)
        assert sorted(hits.files) == ["a/b.txt", "a/c.txt"]
        (tmp_path / "root/a").rename(tmp_path / "outside")
        (tmp_path / "root/kept").rename(tmp_path / "root/a")
        (tmp_path / "root/a/c.txt").symlink_to(tmp_path / "outside/c.txt")
        return hits

    monkeypatch.setattr(ripgrep, "search", swapped)
    workspace = LocalWorkspace(tmp_path / "root")
    found = await workspace.grep(GrepQuery(pattern="secret"))
    assert found.matches == ()
    await workspace.aclose()


async def test_ripgrep_gets_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration file of the user does not apply, and secrets are not passed on."""
    write(tmp_path, {"root/a.txt": b"word\n", "config": b"--invert-match\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    seen: list[object] = []
    start = cast("Callable[..., Awaitable[trio.Process]]", trio.lowlevel.open_process)

    async def recorded(command: list[str], **options: object) -> trio.Process:
        seen.append(options["env"])
        return await start(command, **options)

    monkeypatch.setattr(trio.lowlevel, "open_process", recorded)
    workspace = LocalWorkspace(tmp_path / "root")
    found = await workspace.grep(GrepQuery(pattern="word"))
    assert [match.text for match in found.matches] == ["word"]
    assert seen == [{}]
    await workspace.aclose()


async def test_options_in_queries_are_texts(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"--pre=touch x": b"--files\n", "-e": b"x\n"})
    workspace = LocalWorkspace(tmp_path)
    found = await workspace.grep(GrepQuery(pattern="--files"))
    assert [match.file for match in found.matches] == ["--pre=touch x"]
    found = await workspace.grep(GrepQuery(pattern="x", path="-e", file_glob=""))
    assert [match.file for match in found.matches] == ["-e"]
    found = await workspace.grep(GrepQuery(pattern="x", file_glob="-*"))
    assert [match.file for match in found.matches] == ["-e"]
    await workspace.aclose()


async def test_large_output_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "_MAX_OUTPUT", 10_000)
    write(tmp_path, {f"{number}.txt": b"a\n" * 1_000 for number in range(20)})
    workspace = LocalWorkspace(tmp_path)
    assert (await workspace.grep(GrepQuery(pattern="a"))).truncated
    await workspace.aclose()


# `.gitignore`.

RULES: Final = [
    "*.log",
    "!keep.log",
    "/build",
    "doc/*.txt",
    "node_modules/",
    "**/cache",
    "a/**/b",
    "x/**",
    r"\!literal",
    r"\#hash",
    "# comment",
    "trailing   ",
    r"kept\ ",
    "[ab].c",
    "[!ab].h",
    "[^ab].i",
    "sub/",
    "!sub/in",
    "",
    "*",
    "!*/",
    "{a,b}",
]
PATHS: Final = [
    "one.log",
    "keep.log",
    "d/keep.log",
    "build/x",
    "d/build/x",
    "doc/a.txt",
    "doc/d/a.txt",
    "d/doc/a.txt",
    "node_modules/x",
    "d/node_modules/x",
    "d/cache/x",
    "a/b",
    "a/c/d/b",
    "x/y/z",
    "!literal",
    "#hash",
    "trailing",
    "kept ",
    "a.c",
    "c.c",
    "a.h",
    "c.h",
    "c.i",
    "sub/in",
    "{a,b}",
]
rule_lists = st.lists(st.sampled_from(RULES), max_size=5)


@settings(max_examples=EXAMPLES)
@given(rule_lists, rule_lists)
def test_ignored_files_are_those_of_git(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], below: list[str]
) -> None:
    root = tmp_path_factory.mktemp("git")
    write(root, dict.fromkeys(PATHS, b""))
    write(root, {".gitignore": "\n".join(top).encode(), "d/.gitignore": "\n".join(below).encode()})
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "-o", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    expected = sorted(listed.stdout.decode().split("\0")[:-1])

    async def search() -> list[str]:
        workspace = LocalWorkspace(root)
        found = await workspace.glob("**", use_gitignore=True)
        await workspace.aclose()
        return list(found.paths)

    assert trio.run(search) == expected
