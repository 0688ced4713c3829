"""Generate the reference page of the quirks; `--check` fails if the page is stale."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from agent_actors.profiles.dialect import ChatDialect
from agent_actors.testing.conformance import QUIRKS, Quirk, QuirkBook

PAGE: Final = Path(__file__).parents[1] / "docs/reference/quirks.md"

_INTRO: Final = """\
# Quirks of endpoints

A quirk is a known deviation of an endpoint from its protocol. The parsers of this library must
handle every quirk: a response with any mix of quirks gives the same blocks as the response without
them, however its bytes are split. To check your own endpoint, see
[check an endpoint's responses](../testing.md).

- *No.* is the number of the quirk in this project. The quirks were collected from issue trackers
  and captures. A quirk without a number is a small variation of one that has a number.
- *Turns* describes the turns that an endpoint with the quirk can send, if it cannot send all turns.
- *Not compared* lists the information that a response with the quirk does not contain.
- *Result* is `fault` if the last call must be reported as one that cannot be executed, and `error`
  if the endpoint's own error must be raised. Otherwise, the result is the same as without the
  quirk.
- *Dialect* is the `ChatDialect` that the parser needs to handle the quirk.

`make docs` generates this page from `agent_actors/testing/conformance/`. Do not edit it.
"""
_FEW: Final = 3
"""If at most this many names are missing in a group, the page lists the missing names instead."""

_TITLES: Final = {"chat": "Chat completions", "messages": "Anthropic's Messages"}


def page() -> str:
    """Return the page."""
    parts = [_INTRO]
    for protocol, book in QUIRKS.items():
        parts.append(f"\n## {_TITLES[protocol]}\n\n" + "\n".join(_quirks(book)) + "\n")
        parts.append(
            f"\n### Quirks that cannot be combined\n\n"
            f"Of all pairs of the {len(book.quirks)} quirks, {len(book.pairs())} can be combined. "
            f"These {len(book.excluded)} pairs cannot:\n\n" + "\n".join(_excluded(book)) + "\n"
        )
    return "".join(parts)


def _quirks(book: QuirkBook) -> Iterator[str]:
    yield "| quirk | No. | behaviour of the endpoint | turns | not compared | result | dialect |"
    yield "|---|---|---|---|---|---|---|"
    for quirk in book.quirks.values():
        number = str(quirk.number or "")
        hides = ", ".join(sorted(quirk.hides))
        outcome = "" if quirk.outcome == "same" else quirk.outcome
        cells = [f"`{quirk.name}`", number, quirk.about, quirk.turns, hides, outcome]
        yield "| " + " | ".join([*cells, _dialect(quirk)]) + " |"


def _dialect(quirk: Quirk) -> str:
    if quirk.dialect is None:
        return ""
    plain = ChatDialect()
    return ", ".join(
        f"`{field.name}={getattr(quirk.dialect, field.name)!r}`"
        for field in attrs.fields(ChatDialect)
        if getattr(quirk.dialect, field.name) != getattr(plain, field.name)
    )


def _excluded(book: QuirkBook) -> Iterator[str]:
    yield "| reason | excluded pairs |"
    yield "|---|---|"
    for one in book.exclusions:
        if all(len(group) == 1 for group in one.groups):
            cells = "any two of " + ", ".join(f"`{name}`" for (name,) in one.groups)
        else:
            cells = " with any of ".join(_names(group, book) for group in one.groups)
        yield f"| {one.reason} | {cells} |"


def _names(group: tuple[str, ...], book: QuirkBook) -> str:
    left = [f"`{name}`" for name in book.quirks if name not in group]
    if len(left) > _FEW:
        return ", ".join(f"`{name}`" for name in group)
    return "the other quirks" + (f" except {', '.join(left)}" if left else "")


def main() -> int:
    """Write the page, or compare it."""
    if "--check" not in sys.argv[1:]:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write(f"{PAGE.name} is stale; run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
