"""`make mutation` selects mutants reproducibly and counts their results correctly."""

import pytest

from scripts.mutation import locate, read_results, row, sample

NAMES = [f"agent_actors.domain.ids.x_f__mutmut_{number}" for number in range(50)]


def test_same_seed_selects_the_same_mutants() -> None:
    chosen = sample(NAMES, 10, "1:domain")
    assert len(set(chosen)) == 10
    assert sample(NAMES[::-1], 10, "1:domain") == chosen != sample(NAMES, 10, "2:domain")
    assert sample(NAMES, 0, "1") == sample(NAMES, 99, "1") == sorted(NAMES)


def test_statuses_are_read_from_mutmut() -> None:
    text = f"    {NAMES[0]}: survived\n    {NAMES[1]}: no tests\nSome other line: x\n"
    assert read_results(text) == {NAMES[0]: "survived", NAMES[1]: "no tests"}


def test_failures_and_timeouts_count_as_detected() -> None:
    statuses = dict(zip("abcd", ("killed", "timeout", "survived", "killed"), strict=True))
    assert row("domain", 50, statuses).split() == ["domain", "50", "4", "3", "1", "1", "75.0"]
    assert row("domain", 0, {}).split()[-1] == "100.0"


def test_mutated_packages_have_their_own_tests() -> None:
    assert locate("errors") == ("agent_actors/errors.py", "tests/test_errors.py")
    assert locate("domain") == ("agent_actors/domain/*", "tests/domain")
    with pytest.raises(SystemExit, match="no package 'nothing'"):
        locate("nothing")
