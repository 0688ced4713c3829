"""Diffs are correct, short, and safe for a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from agent_actors.cli.edits.diffs import SHOWN_LINES, Diff, patch_diff, text_diff


def texts(diff: Diff) -> list[str]:
    return [line.text for line in diff.shown]


def test_changed_lines_have_context_and_place() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 21))
    diff = text_diff("a.py", old, old.replace("line 10\n", "ten\n"))
    assert diff.summary == "a.py, 1 added, 1 removed"
    assert texts(diff) == [
        "@@ line 8",
        " line 8",
        " line 9",
        "-line 10",
        "+ten",
        " line 11",
        " line 12",
    ]


def test_new_file_is_named_as_such() -> None:
    diff = text_diff("a.py", None, "one\ntwo\n")
    assert (diff.summary, texts(diff)) == (
        "new file a.py, 2 added, 0 removed",
        ["@@ line 1", "+one", "+two"],
    )


def test_unchanged_text_has_no_lines() -> None:
    assert texts(text_diff("a.py", "same\n", "same\n")) == []


def test_control_characters_are_replaced() -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07\u202ecod.exe"
    for diff in (
        text_diff(f"{hostile}\n.py", f"{hostile}-\n", f"{hostile}+\n"),
        patch_diff(f"*** Update File: {hostile}\n-{hostile}\n+new", [hostile]),
    ):
        shown = "\n".join([diff.summary, *texts(diff)])
        assert not set(shown) & set("\x1b\x07\u202e")
        assert "\n" not in diff.summary


def test_huge_diff_is_bounded() -> None:
    old = "".join(f"old {n}\n" for n in range(50_000))
    diff = text_diff("big", old, "x" * 100_000 + "\n" + old.replace("old", "new"))
    assert (diff.added, diff.removed) == (50_001, 50_000)
    shown = texts(diff)
    assert len(shown) == SHOWN_LINES + 1
    assert shown[-1] == f"... ({100_002 - SHOWN_LINES:,} more lines)"
    assert max(map(len, shown)) < 400


def test_patch_lines_are_coloured_by_sign() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n same\n-old\n+new\n*** End Patch"
    diff = patch_diff(patch, ["a.py", "b.py", "a.py"])
    assert diff.summary == "a.py, b.py, 1 added, 1 removed"
    kinds = [line.kind for line in diff.lines]
    assert kinds == ["place", "place", "place", "context", "removed", "added", "place"]
    many = patch_diff(patch, map(str, range(9)))
    assert many.where == "0, 1, 2, 3, 4 and 4 more files"


_LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


@given(_LINES, _LINES)
def test_diff_describes_the_change(old: list[str], new: list[str]) -> None:
    diff = text_diff("f", "".join(f"{x}\n" for x in old), "".join(f"{x}\n" for x in new))
    assert len(old) - diff.removed + diff.added == len(new)
    removed = [line.text[1:] for line in diff.lines if line.kind == "removed"]
    added = [line.text[1:] for line in diff.lines if line.kind == "added"]
    remaining = list(old)
    for line in removed:
        remaining.remove(line)
    assert sorted(remaining + added) == sorted(new)
    assert (diff.added + diff.removed == 0) == (old == new)
