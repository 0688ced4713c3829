"""flake8-async runs with every rule except those that are turned off with a reason."""

import textwrap
from pathlib import Path

import pytest

from scripts.async_rules import OFF, OFF_OUTSIDE_THE_LIBRARY, OPTIONAL, arguments, main


def test_every_rule_choice_has_a_reason() -> None:
    for rules in (OFF, OFF_OUTSIDE_THE_LIBRARY, OPTIONAL):
        for rule, reason in rules.items():
            assert rule.startswith("ASYNC")
            assert reason


def test_optional_rules_are_stricter_in_library() -> None:
    inside, off_inside = arguments([], library=True)
    outside, off_outside = arguments([], library=False)
    assert "ASYNC900" in inside
    assert "ASYNC900" not in outside
    assert "ASYNC124" not in off_inside
    assert "ASYNC124" in off_outside


def test_trio_mistake_fails_with_message(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = """
        import trio
        async def f() -> None:
            with trio.move_on_after(1):
                pass
            await trio.sleep(1)
    """
    (tmp_path / "bad.py").write_text(textwrap.dedent(source), encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    assert "bad.py:4:10: ASYNC100" in capfd.readouterr().out


def test_a_clean_file_passes(tmp_path: Path) -> None:
    good = tmp_path / "good.py"
    good.write_text("async def f() -> None:\n    pass\n", encoding="utf-8")
    assert main([str(good)]) == 0
