"""flake8-async runs with every rule except those that are turned off with a reason."""

import re
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


def test_a_clean_file_passes(tmp_path: Path) -> None:
    good = tmp_path / "good.py"
    good.write_text("async def f() -> None:\n    pass\n", encoding="utf-8")
    assert main([str(good)]) == 0


def test_all_visitors_report_and_respect_noqa(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The rules are checked by different visitors, which share one pass."""
    source = """
        import trio
        from trio import sleep
        async def f():
            with trio.CancelScope():
                yield
        async def g() -> None:
            while True:
                pass
        async def h() -> None:
            while True:  # noqa: ASYNC913 - never called
                pass
        async def i() -> None:
            with trio.move_on_after(1):  # noqa: ASYNC100
                pass
        async def j() -> None:
            with trio.move_on_after(1):
                pass
    """
    (tmp_path / "bad.py").write_text(textwrap.dedent(source), encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    found = re.findall(r"bad\.py:(\d+):\d+: (ASYNC\d+)", capfd.readouterr().out)
    assert found == [
        ("3", "ASYNC106"),
        ("6", "ASYNC101"),
        ("6", "ASYNC119"),
        ("8", "ASYNC913"),
        ("17", "ASYNC100"),
    ]
