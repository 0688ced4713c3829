"""A minimal endpoint in its own process, shared by all tests of a file."""

from collections.abc import Iterator

import pytest

from benchmarks.harness import Endpoint, endpoint


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found
