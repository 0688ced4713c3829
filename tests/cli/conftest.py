"""A fixture for the demo's tests."""

from functools import partial

import pytest

from agent_actors.cli import demo, workload
from agent_actors.testing import demo_script


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the demo's endpoint and tools fast, and limit each response to three words."""
    monkeypatch.setattr(demo, "demo_script", partial(demo_script, every=0))
    monkeypatch.setattr(demo, "DELTAS", 3)
    monkeypatch.setattr(workload, "_SHORTEST_WAIT", 0)
    monkeypatch.setattr(workload, "_LONGEST_WAIT", 1)
