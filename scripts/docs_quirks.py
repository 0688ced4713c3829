"""Write the reference page of quirks from the quirk books; `--check` fails if it is stale."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from agent_actors.profiles.dialect import ChatDialect
from agent_actors.testing.conformance.checks import QUIRKS
from agent_actors.testing.conformance.quirks import Quirk, QuirkBook

PAGE: Final = Path(__file__).parents[1] / "docs/reference/quirks.md"

_INTRO: Final = """\
# Quirks of endpoints

Known deviations of endpoints from their protocols. The response parsers of this library must handle
them: a response with any combination of these quirks must produce the same blocks as a clean
response, however its bytes are split. [How to check your own endpoint](../testing.md).

- *No.* is the number of a shape that was found in issue trackers or captures. A quirk without a
  number is a small variation of one with a number.
- *Turns* lists the turns that an endpoint with the quirk can produce, if it cannot produce all.
- *Not compared* lists the parts that no parser could find in such a response.
- *Outcome* is `fault` if the last call must be reported as one that cannot run, and `error` if the
  endpoint's own error must be raised.
- *Dialect* lists the settings that the parser needs.

This page is generated from the quirk books in `agent_actors/testing/` by `make docs`; do not edit
it.
"""
_FEW: Final = 3
"""A group that omits at most this many names is described by the names that it omits."""

_TITLES: Final = {"chat": "Chat completions", "messages": "Anthropic's Messages"}


def page() -> str:
    """Return the page."""
    parts = [_INTRO]
    for protocol, book in QUIRKS.items():
        parts.append(f"\n## {_TITLES[protocol]}\n\n" + "\n".join(_quirks(book)) + "\n")
        parts.append(
            f"\n### Pairs that cannot be combined\n\n"
            f"{len(book.pairs())} pairs of the {len(book.quirks)} quirks can be combined. These "
            f"{len(book.excluded)} pairs cannot:\n\n" + "\n".join(_excluded(book)) + "\n"
        )
    return "".join(parts)


def _quirks(book: QuirkBook) -> Iterator[str]:
    yield "| quirk | No. | what the endpoint does | turns | not compared | outcome | dialect |"
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
    yield "| reason | pairs that cannot be combined |"
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
    return "all" + (f" but {', '.join(left)}" if left else "")


def main() -> int:
    """Write the page, or compare it."""
    if "--check" not in sys.argv[1:]:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write(f"{PAGE.name} does not match the quirk books; run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
