"""One lean endpoint for all tests of a file, in a process of its own."""

from collections.abc import Iterator

import pytest

from benchmarks.harness import Endpoint, endpoint


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found
