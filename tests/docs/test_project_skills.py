"""The example for skills shows the index, and a skill that stays active."""

from pathlib import Path

import pytest

from tests.program_helpers import output_of

EXAMPLE = Path(__file__).parents[2] / "docs/examples/project_skills.py"


@pytest.mark.feature("OAGS-068")
def test_example_keeps_the_skill_active() -> None:
    shown = output_of(["-W", "error", str(EXAMPLE)])
    assert "[find-open-tasks] Find open tasks in the source code." in shown
    assert shown.rstrip().endswith("Active skills: find-open-tasks")
