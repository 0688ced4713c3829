"""Paths, read narrowly and widely, from their text alone."""

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import ConfigError
from agent_actors.permissions.paths import LONGEST_PATH, PathPattern, placed
from tests.permissions.support import CWD

WINDOWS = PureWindowsPath("C:/code/project")
PARTS = st.lists(st.sampled_from(["src", "etc", "..", ".", "", "a.py", "~", "C:"]), max_size=6)
PATHS = st.tuples(st.sampled_from(["", "/", "./", "~/", "//"]), PARTS).map(
    lambda drawn: drawn[0] + "/".join(drawn[1])
)
PATTERNS = ["src/**", "*.py", "/etc/**", "../x/*", "~/**", "**", "src", "./**", "/"]


def permits(pattern: str, path: str) -> bool:
    return PathPattern.parse(pattern).permits(path, CWD)


def restricts(pattern: str, path: str) -> bool:
    return PathPattern.parse(pattern).restricts(path, CWD)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("src/**", "src/a.py"),
        ("src/**", "src"),
        ("src/**", "./src//x/./y"),
        ("src/**", "/users/ann/project/src/a"),
        ("src/**", "../project/src/a"),
        ("src/*.py", "src/a.py"),
        ("src/**/test_*.py", "src/test_a.py"),
        ("src/**/test_*.py", "src/x/y/test_a.py"),
        ("**/*.md", "docs/a/b.md"),
        ("*.py", "a.py"),
        ("*.py", "src/deep/a.py"),
        (".", "."),
        ("./**", "x/y"),
        ("/etc/*.conf", "/etc/a.conf"),
        ("//etc/*.conf", "/etc/a.conf"),
        ("/etc/**", "/../etc/a"),
        ("../other/**", "../other/x"),
        ("../other/**", "/users/ann/other/x"),
        ("~/notes/*", "~/notes/a"),
        ("[*]/a", "*/a"),
        ("./**/key", "./~/key"),
    ],
)
def test_exact_path_is_allowed_and_restricted(pattern: str, path: str) -> None:
    assert permits(pattern, path)
    assert restricts(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("src/**", "src/../etc/passwd"),
        ("src/**", "src/../../etc/passwd"),
        ("src/**", "../src/a"),
        ("src/**", "/src/a"),
        ("src/**", "srcx/a"),
        ("src/**", "SRC/a"),
        ("src/*", "src/a/b"),
        ("src/*", "src"),
        ("*.py", "/etc/a.py"),
        ("*.py", "../a.py"),
        ("**", "/etc/passwd"),
        ("**", "."),
        ("/etc/*", "/etc"),
        ("/**", ""),
        ("../other/**", "../third/x"),
        ("~/notes/*", "~bob/notes/a"),
        ("~/notes/*", "/users/ann/notes/a"),
        ("~/notes/**", "~/notes/../secret"),
        ("~/notes/*", "~/../notes/a"),
        ("~/**", "~/../ann/notes"),
        ("./**", "~/x"),
    ],
)
def test_any_other_path_is_not_permitted(pattern: str, path: str) -> None:
    assert not permits(pattern, path)


@pytest.mark.parametrize("path", ["src/a/../b", "src/..", "src\\a", "src/\x00a", "src/a\nb"])
def test_a_path_in_doubt_is_not_permitted(path: str) -> None:
    assert not permits("**", path)
    assert not permits("/**", path)
    assert not permits("src/**", path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/etc/**", "../../../etc/passwd"),
        ("/etc/**", "src/../../../../etc/passwd"),
        ("/etc", "/etc/passwd"),
        ("/ETC/**", "/etc/passwd"),
        ("secrets/**", "SECRETS/a"),
        ("secrets/**", "secrets\\a"),
        ("secrets", "x/secrets/y/z"),
        (".env", "/anywhere/.env"),
        (".env", ".ENV"),
        (".env", ".env."),
        (".env", ".env "),
        (".env", "..\\..\\.env"),
        ("*.pem", "keys/my.pem"),
        ("src/*", "src/a/b/c"),
        ("/etc/**", "~/x"),
        ("a/**", "~"),
        ("~/.ssh/**", "/users/ann/.ssh/id"),
        ("~/.ssh/**", "../.ssh/id"),
        ("../other/**", "../../ann/other/x"),
        ("../../../../../../etc", "/etc/passwd"),
        ("caf\u00e9", "cafe\u0301"),
        ("...", "..."),
    ],
)
def test_possibly_contained_path_is_restricted(pattern: str, path: str) -> None:
    assert restricts(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("secrets/**", "./~/x"),
        ("secrets/**", "secret/a"),
        ("secrets/**", "/secrets/a"),
        ("/etc/**", "etc/passwd"),
        (".env", ".environment"),
        ("~/.ssh/**", "/users/ann/ssh/id"),
    ],
)
def test_another_path_is_not_restricted(pattern: str, path: str) -> None:
    assert not restricts(pattern, path)


@pytest.mark.parametrize(("pattern", "path"), [("src/**", "c:/../src/a"), ("c:/x", "c:/x")])
def test_drive_is_a_plain_name_on_posix(pattern: str, path: str) -> None:
    assert placed("c:/x", CWD) == ("/", ["users", "ann", "project", "c:", "x"])
    assert restricts(pattern, path) == (pattern == "src/**")


def test_climbing_working_directory_is_resolved() -> None:
    cwd = PurePosixPath("/users/ann/../ann/project")
    assert PathPattern.parse("src/**").restricts("src/a", cwd)
    assert PathPattern.parse("src/**").permits("src/a", cwd)


@pytest.mark.parametrize(
    ("pattern", "path", "permitted", "restricted"),
    [
        ("src/**", "src\\a.py", True, True),
        ("src/**", "C:\\code\\project\\src\\a.py", True, True),
        ("src/**", "c:\\CODE\\project\\src\\a.py", False, True),
        ("src/**", "\\code\\project\\src\\a.py", True, True),
        ("src/**", "src\\a.py:stream", False, True),
        ("src/**", "C:src\\a.py", False, True),
        ("C:/keys/**", "\\keys\\a", True, True),
        ("/keys/**", "C:\\keys\\a", True, True),
        ("/keys/**", "D:\\keys\\a", False, False),
        ("/keys/**", "\\\\server\\keys\\a", False, False),
        ("src/**", "src\\..\\b", False, False),
    ],
)
def test_windows_paths_use_backslashes_and_drives(
    pattern: str, path: str, permitted: bool, restricted: bool
) -> None:
    made = PathPattern.parse(pattern)
    assert made.permits(path, WINDOWS) == permitted
    assert made.restricts(path, WINDOWS) == restricted


@pytest.mark.parametrize("pattern", ["src/../etc", "/a/..", "**/../x", "~/..", "/../a"])
def test_inner_climbing_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"'\.\.' is allowed only at the beginning"):
        PathPattern.parse(pattern)


@given(PATHS, st.sampled_from(PATTERNS))
def test_allowed_path_is_also_restricted(path: str, pattern: str) -> None:
    if permits(pattern, path):
        assert restricts(pattern, path)


@given(PARTS)
def test_allowed_path_lies_inside_its_pattern(parts: list[str]) -> None:
    path = "/".join(parts)
    if permits("src/**", path):
        root, placed_parts = placed(path, CWD)
        assert (root, placed_parts[:4]) == ("/", ["users", "ann", "project", "src"])


def test_long_path_matches_in_bounded_time() -> None:
    path = "a/" * 16_000 + "b"
    assert not restricts(".env", path)
    assert not restricts("~/x/**/y", path)
    assert permits("**/b", path)


def test_unopenable_path_is_doubtful() -> None:
    path = "a" * (LONGEST_PATH + 1)
    assert not permits("*", path)
    assert restricts(".env", path)
