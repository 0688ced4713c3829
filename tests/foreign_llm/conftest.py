"""Every server with every protocol, started once per process for all tests."""

from collections.abc import Iterator

import pytest

from tests.foreign_llm.servers import ServerName, served
from tests.foreign_llm.targets import FIXTURES, Protocol, Target

TARGETS: list[tuple[ServerName, Protocol]] = [
    ("aimock", "openai"),
    ("aimock", "anthropic"),
    ("llmock", "openai"),
    ("llmock", "anthropic"),
    ("llama.cpp", "openai"),
    ("llama.cpp", "anthropic"),
]


@pytest.fixture(scope="session", params=TARGETS, ids="-".join)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    server, protocol = request.param
    at = tmp_path_factory.mktemp(f"{server}-{protocol}")
    with served(server, at, FIXTURES.get(server, ())) as url:
        yield Target(server, protocol, url)
