"""Every server with every protocol, started once per process for all tests."""

from collections.abc import Iterator

import pytest

from tests.foreign_llm.faces import FIXTURES, Face, Protocol
from tests.foreign_llm.servers import ServerName, served

FACES: list[tuple[ServerName, Protocol]] = [
    ("aimock", "openai"),
    ("aimock", "anthropic"),
    ("llmock", "openai"),
    ("llmock", "anthropic"),
    ("llama.cpp", "openai"),
    ("llama.cpp", "anthropic"),
]


@pytest.fixture(scope="session", params=FACES, ids="-".join)
def face(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Face]:
    server, protocol = request.param
    at = tmp_path_factory.mktemp(f"{server}-{protocol}")
    with served(server, at, FIXTURES.get(server, ())) as url:
        yield Face(server, protocol, url)
