"""Fixtures: a workspace of each implementation."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from agent_actors.toolbox.workspace.container.container import Container
from tests.toolbox.workspace.places import PLACES, OpenPlace, Place, in_container
from tests.toolbox.workspace.podman import IMAGE, podman


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    with podman():
        yield


@pytest.fixture(scope="session")
def shared_container(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    base = tmp_path_factory.getbasetemp()
    container = Container(IMAGE, engine="podman", mounts={base: str(base)})
    trio.run(container.start)
    yield container
    trio.run(container.aclose)


@pytest.fixture(scope="session", params=[*PLACES, "ContainerWorkspace"])
def open_place(request: pytest.FixtureRequest) -> OpenPlace:
    """Return what opens a place. Its scope is that of the container, which starts before a test."""
    if request.param in PLACES:
        return PLACES[request.param]
    return in_container(request.getfixturevalue("shared_container"))


@pytest.fixture
async def place(open_place: OpenPlace, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(tmp_path) as opened:
        yield opened
