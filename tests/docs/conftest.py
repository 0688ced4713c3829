"""A fixture for the tests that run the examples of the documentation."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def programs(fork_server: None) -> None:
    """Start the server that runs the examples for the tests."""
