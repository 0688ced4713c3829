"""Every quirk in the list of quirks has a test named after it."""

import re
from typing import Final

from tests.conventions.tree import files, read

QUIRKS: Final = range(1, 51)
NAMED: Final = re.compile(r"^(?:async )?def test_quirk_(\d\d)_\w", re.MULTILINE)
# The quirks of Anthropic's protocol have names rather than numbers.
FOLDERS: Final = ("tests/providers/openai_chat/", "tests/protocol/")


def named(text: str) -> set[int]:
    return {int(number) for number in NAMED.findall(text)}


def test_every_quirk_has_a_numbered_test() -> None:
    found: set[int] = set()
    for name in files():
        if name.endswith(".py") and name.startswith(FOLDERS):
            found |= named(read(name))
    assert sorted(found) == list(QUIRKS)


def test_only_the_names_of_tests_count() -> None:
    text = "def test_quirk_07_x():\nasync def test_quirk_08_y():\n# test_quirk_09\ndef quirk_10():"
    assert named(text) == {7, 8}
