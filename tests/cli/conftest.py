"""Fixtures for the tests of the command line."""

from functools import partial

import pytest

from agent_actors.cli.demo import runner, workload
from agent_actors.testing import demo_script


@pytest.fixture(scope="session", autouse=True)
def programs(fork_server: None) -> None:
    """Start the server that runs the program for the tests."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the demo's endpoint and tools fast, and limit each response to three words."""
    monkeypatch.setattr(runner, "demo_script", partial(demo_script, every=0))
    monkeypatch.setattr(runner, "DELTAS", 3)
    monkeypatch.setattr(workload, "_SHORTEST_WAIT", 0)
    monkeypatch.setattr(workload, "_LONGEST_WAIT", 1)
