"""Every attempt of `escapes.toml` has its stated result, and nothing outside is read or changed."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import attrs
import cattrs
import pytest

from agent_actors.domain.workspace.files import GrepQuery
from agent_actors.errors import WorkspaceError
from tests.toolbox.workspace.places import Place

SECRET: Final = "the secret of the neighbour"


@attrs.frozen
class Attempt:
    name: str
    call: str
    path: str
    result: str
    setup: tuple[str, ...] = ()
    found: tuple[str, ...] | None = None
    unchanged: Mapping[str, str] = attrs.field(factory=dict[str, str])


TABLE: Final = tomllib.loads(Path(__file__).with_name("escapes.toml").read_text("utf-8"))
ATTEMPTS: Final = cattrs.structure(TABLE["attempt"], list[Attempt])


def filled(text: str, place: Place) -> str:
    return text.format(
        outside=place.outside,
        root=place.inner_root,
        allowed=place.inner_allowed,
        long="x" * 256,
        deep="x/" * 3_000,
        directories="d/" * 300,
    )


def prepare(place: Place, line: str) -> None:
    match filled(line, place).split(" ", 2):
        case [name, "->", target]:
            (place.root / name).symlink_to(target)
        case [name, "=>", target]:
            (place.root / name).hardlink_to(target)
        case [name, "=", text]:
            (place.root / name).write_text(text)
        case [name, "|"]:
            os.mkfifo(place.root / name)
        case [name]:
            (place.root / name).mkdir()
        case _:
            raise AssertionError(line)


async def perform(place: Place, attempt: Attempt) -> tuple[str, list[str]]:
    """Return the text of the result, and the names that a search found."""
    workspace, path = place.workspace, filled(attempt.path, place)
    match attempt.call:
        case "read":
            return (await workspace.read(path)).data.decode(), []
        case "write":
            return str(await workspace.write(path, b"new")), []
        case "remove":
            await workspace.remove(path)
            return "", []
        case "list":
            listing = await workspace.list(path)
            return str(listing), [entry.path for entry in listing.entries]
        case "glob":
            paths = await workspace.glob(path)
            return str(paths), list(paths.paths)
        case "grep":
            matches = await workspace.grep(GrepQuery(pattern="secret", path=path))
            return str(matches), [match.file for match in matches.matches]
        case other:
            raise AssertionError(other)


def everything(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


def test_table_has_attempts_of_every_call() -> None:
    assert len(ATTEMPTS) >= 60
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS)
    calls = {"read", "write", "remove", "list", "glob", "grep"}
    assert {attempt.call for attempt in ATTEMPTS} == calls


@pytest.mark.feature("ASDK-090")
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=[attempt.name for attempt in ATTEMPTS])
async def test_attempt_has_stated_result(place: Place, attempt: Attempt) -> None:
    (place.outside / "secret.txt").write_text(SECRET)
    for line in attempt.setup:
        prepare(place, line)
    outside = everything(place.outside)
    text, found, result = "", list[str](), "ok"
    try:
        text, found = await perform(place, attempt)
    except WorkspaceError as error:
        result, text = error.reason, str(error)
    assert result == attempt.result, text
    assert SECRET not in text
    assert everything(place.outside) == outside
    if attempt.found is not None:
        assert found == list(attempt.found)
    for name, content in attempt.unchanged.items():
        assert (place.root / name).read_text() == content
    assert place.workspace.describe().refused == (result in {"refused", "protected"})


async def test_root_that_is_slash_hides_kernel(tmp_path: Path) -> None:
    """Even where every path is in the workspace, `/proc`, `/sys` and devices cannot be read."""
    from agent_actors.toolbox.workspace.local.workspace import LocalWorkspace

    (tmp_path / "link").symlink_to("/proc/self/environ")
    workspace = LocalWorkspace("/")
    reasons: list[str] = []
    for path in ("/proc/self/environ", str(tmp_path / "link"), "/proc/self", "/dev/zero"):
        with pytest.raises(WorkspaceError) as raised:
            await workspace.read(path)
        reasons.append(cast("str", raised.value.reason))
    assert reasons == ["refused", "refused", "refused", "not_a_file"]
    assert not (await workspace.glob("proc/*/environ")).paths
    await workspace.aclose()
    with pytest.raises(WorkspaceError, match="file system of the kernel"):
        LocalWorkspace("/proc")
