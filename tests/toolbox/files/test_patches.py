"""The patch format: parsing, and the application of hunks to a text."""

import difflib
import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.toolbox.files.numbering import split_lines
from agent_actors.toolbox.files.patch_application import Patched, apply_hunks
from agent_actors.toolbox.files.patch_parsing import (
    AddFile,
    DeleteFile,
    FileChange,
    Hunk,
    HunkLine,
    PatchError,
    UpdateFile,
    parse_patch,
    patched_paths,
)

COMPLETE = """\
*** Begin Patch
*** Update File: src/app.py
*** Move to: src/main.py
@@ class App:
@@     def run(self):
 context

-removed
+added
*** End of File

*** Add File: notes.txt
+first
+
+third
*** Delete File: old.txt
*** End Patch"""


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def updated(text: str, *lines: str) -> Patched:
    (change,) = parse_patch(patch("*** Update File: f", *lines))
    assert isinstance(change, UpdateFile)
    return apply_hunks(text, change.hunks, path="f")


def test_complete_patch_is_parsed() -> None:
    lines = (
        HunkLine(" ", "context"),
        HunkLine(" ", ""),
        HunkLine("-", "removed"),
        HunkLine("+", "added"),
    )
    hunk = Hunk(("class App:", "def run(self):"), lines, at_end=True, number=4)
    assert parse_patch(COMPLETE) == (
        UpdateFile("src/app.py", (hunk,), "src/main.py"),
        AddFile("notes.txt", "first\n\nthird\n"),
        DeleteFile("old.txt"),
    )
    assert patched_paths(COMPLETE) == ("src/app.py", "src/main.py", "notes.txt", "old.txt")


@pytest.mark.parametrize(
    "wrapped",
    [
        f"apply_patch <<'EOF'\n{COMPLETE}\nEOF\n",
        f"```patch\n{COMPLETE}\n```",
        COMPLETE.replace("\n", "\r\n"),
        f"\n\n{COMPLETE}\n\n",
    ],
)
def test_wrapped_patch_means_the_same(wrapped: str) -> None:
    assert _unnumbered(wrapped) == _unnumbered(COMPLETE)


def _unnumbered(text: str) -> list[FileChange]:
    return [
        attrs.evolve(change, hunks=tuple(attrs.evolve(hunk, number=0) for hunk in change.hunks))
        if isinstance(change, UpdateFile)
        else change
        for change in parse_patch(text)
    ]


def test_unified_hunk_headers_are_understood() -> None:
    text = patch(
        "*** Update File: f",
        "@@ -1,2 +1,2 @@ def f():",
        "-a",
        "+b",
        "\\ No newline at end of file",
        "@@",
        "-c",
    )
    (change,) = parse_patch(text)
    assert isinstance(change, UpdateFile)
    assert [hunk.anchors for hunk in change.hunks] == [("def f():",), ()]
    assert change.hunks[0].lines == (HunkLine("-", "a"), HunkLine("+", "b"))


MARKERS = ["*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:", "@@", "+", "-x"]


@given(st.lists(st.tuples(st.sampled_from(MARKERS), st.sampled_from(["", " a", "b ", " c\r"]))))
def test_every_path_is_known_to_permissions(lines: list[tuple[str, str]]) -> None:
    text = patch(*(marker + rest for marker, rest in lines))
    try:
        changes = parse_patch(text)
    except PatchError:
        return
    paths = {change.path for change in changes}
    paths |= {change.move_to for change in changes if isinstance(change, UpdateFile)} - {""}
    assert paths <= set(patched_paths(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with the line"),
        ("*** Begin Patch\n*** Delete File: a", "must end with the line"),
        ("please apply\n" + patch("*** Delete File: a"), "is outside the patch"),
        (patch(), "changes no file"),
        (patch("*** Rename File: a"), "line 2 of the patch is '*** Rename File: a'"),
        (patch("*** Delete File:"), "line 2 of the patch has no path"),
        (patch("*** Add File: a", "+b", "c"), "line 4 of the patch must begin with '+'"),
        (patch("*** Update File: a"), "no changes for the file a"),
        (patch("*** Update File: a", "@@", "*** End of File"), "at line 3 of the patch has no"),
        (patch("*** Update File: a", "@@ def f():"), "has no lines"),
        (patch("*** Update File: a", "@@", "?b"), "line 4 of the patch is '?b'"),
    ],
)
def test_malformed_patch_is_refused(text: str, message: str) -> None:
    with pytest.raises(PatchError, match=re.escape(message)):
        parse_patch(text)


TEXTS = st.lists(st.sampled_from("abcd"), max_size=12).map(
    lambda lines: "".join(f"{line}{at % 3}\n" for at, line in enumerate(lines))
)


@given(TEXTS, TEXTS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_patch_of_a_difference_reproduces_it(old: str, new: str, end: str, closed: bool) -> None:
    """A hunk for each change, with all lines between the changes as context."""
    lines = [
        line if line[:1] in "+- " else "@@"
        for line in difflib.unified_diff(split_lines(old), split_lines(new), n=99, lineterm="")
        if not line.startswith(("---", "+++"))
    ]
    if not lines:
        return
    before = old.replace("\n", end) if closed else old.replace("\n", end)[: -len(end)]
    usual = end if end in before else "\n"
    after = new.replace("\n", usual)
    # An empty text has no last line whose line break could be missing.
    wanted = after if closed or not before else after[: -len(usual)]
    assert updated(before, *lines) == Patched(wanted, 0)


def test_hunks_are_found_in_order() -> None:
    text = "def f():\n    return 1\n\ndef g():\n    return 1\n"
    patched = updated(text, "@@ def g():", "-    return 1", "+    return 2")
    assert patched.text == "def f():\n    return 1\n\ndef g():\n    return 2\n"
    both = updated(text, "-    return 1", "+    return 3", "@@", "-    return 1", "+    return 4")
    assert both.text == "def f():\n    return 3\n\ndef g():\n    return 4\n"


@pytest.mark.parametrize(
    "file", ["a  \nold\nz\n", "\ta\n  old  \nz\n", "a\n\u201cold\u201d\nz\n".replace("a", "a ")]
)
def test_inexact_context_stays_as_it_is(file: str) -> None:
    wanted = '"old"' if "\u201c" in file else "old"
    patched = updated(file, " a", f"-{wanted}", "+new")
    first, _, last = file.splitlines()
    assert patched == Patched(f"{first}\nnew\n{last}\n", 1)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["+x"], "a\nb\na\nx\n"),
        (["@@ a", "+x"], "a\nx\nb\na\n"),
        (["@@ b", "+x", "*** End of File"], "a\nb\na\nx\n"),
        (["-a", "+x", "*** End of File"], "a\nb\nx\n"),
        ([" b", " a", "+x", " "], "a\nb\na\nx\n"),
    ],
)
def test_place_of_a_hunk(lines: list[str], text: str) -> None:
    assert updated("a\nb\na\n", *lines).text == text


def test_open_last_line_stays_open() -> None:
    assert updated("a\nb", "-b", "+c").text == "a\nc"
    assert updated("a\nb", " b", "+c").text == "a\nb\nc"
    assert updated("a\nb", "-a", "-b").text == ""
    assert updated("a\rb\r", "-b", "+c").text == "a\rc\r"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["-total = summ(items)", "+x"], "after line 0 of the file.*nearest lines are:\n2: total"),
        (["-x = 1", "+y", "*** End of File"], "not found at the end of the file"),
        (["@@ class A:", "-x = 1"], "the line 'class A:'.* was not found after line 0"),
        (["-total = sum(items)", "@@", "-x = 1"], "hunk at line 4 .*after line 2 of the file"),
        (["-x = 1", "-  "], "not found"),
    ],
)
def test_hunk_that_does_not_fit_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(PatchError, match=f"(?s){message}"):
        updated("x = 1\ntotal = sum(items)\n", *lines)
