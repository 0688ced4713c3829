"""The workspaces that the contract suites run over, each with a directory that tests prepare.

A new implementation adds itself to `PLACES`. A place in a container needs a container, which is a
fixture.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol, TypedDict, Unpack

import attrs
import pytest

from agent_actors.abc.workspace import Workspace
from agent_actors.domain.workspace.files import FileLimits
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.bubblewrap import BubblewrapWorkspace, find_bubblewrap
from agent_actors.toolbox.workspace.container.container import Container
from agent_actors.toolbox.workspace.container.workspace import ContainerWorkspace
from agent_actors.toolbox.workspace.local.protection import PROTECTED
from agent_actors.toolbox.workspace.local.workspace import LocalWorkspace


class Settings(TypedDict, total=False):
    """The options that every implementation has."""

    read_only: bool
    protected: tuple[str, ...]
    file_limits: FileLimits


@attrs.frozen
class Place:
    """A workspace and its directories on this machine.

    Attributes:
        workspace: The workspace.
        root: The root, as this machine sees it.
        allowed: A directory in `allowed_paths`.
        outside: A directory that the workspace must not reach.
        inner_root: The absolute path of the root, as paths of the workspace write it.
        inner_allowed: The absolute path of `allowed`, as paths of the workspace write it.
    """

    workspace: Workspace
    root: Path
    allowed: Path
    outside: Path
    inner_root: str
    inner_allowed: str


class OpenPlace(Protocol):
    """Opens a place below a directory."""

    def __call__(
        self, base: Path, /, **settings: Unpack[Settings]
    ) -> AbstractAsyncContextManager[Place]: ...


@asynccontextmanager
async def local(base: Path, /, **settings: Unpack[Settings]) -> AsyncGenerator[Place]:
    root, allowed, outside = base / "root", base / "allowed", base / "outside"
    for directory in (root, allowed, outside):
        directory.mkdir()
    workspace = LocalWorkspace(
        root,
        [allowed],
        read_only=settings.get("read_only", False),
        protected=settings.get("protected", PROTECTED),
        file_limits=settings.get("file_limits", FileLimits()),
    )
    try:
        yield Place(workspace, root, allowed, outside, str(root), str(allowed))
    finally:
        await workspace.aclose()


@asynccontextmanager
async def bubblewrap(base: Path, /, **settings: Unpack[Settings]) -> AsyncGenerator[Place]:
    try:
        find_bubblewrap()
    except WorkspaceError as error:
        pytest.skip(str(error))
    root, allowed, outside = base / "root", base / "allowed", base / "outside"
    for directory in (root, allowed, outside):
        directory.mkdir()
    workspace = BubblewrapWorkspace(root, [allowed], **settings)
    try:
        yield Place(workspace, root, allowed, outside, str(root), str(allowed))
    finally:
        await workspace.aclose()


def in_container(container: Container) -> OpenPlace:
    """Return what opens a place in a container, which sees the directories at the same paths."""

    @asynccontextmanager
    async def open_place(base: Path, /, **settings: Unpack[Settings]) -> AsyncGenerator[Place]:
        root, allowed, outside = base / "root", base / "allowed", base / "outside"
        for directory in (root, allowed, outside):
            directory.mkdir()
        workspace = ContainerWorkspace(
            container, str(root), allowed_paths=[str(allowed)], **settings
        )
        try:
            yield Place(workspace, root, allowed, outside, str(root), str(allowed))
        finally:
            await workspace.aclose()

    return open_place


PLACES: Mapping[str, OpenPlace] = {"LocalWorkspace": local, "BubblewrapWorkspace": bubblewrap}
