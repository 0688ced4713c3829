"""Write the reference page of the quirks from their books; `--check` fails if it is stale."""

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

What endpoints were seen to make of their protocols, and what the readers of this library must see
through: an answer with any mix of these gives the blocks of the clean one, however its bytes are
split. [How to check your own endpoint](../testing.md).

*No.* is the number under which a shape was gathered from issue trackers and captures; those without
one are a small step from one that has it. *Turns* says which turns an endpoint with the quirk can
say, if not all. *Not compared* is what nobody could find in such an answer. *Comes to* is `fault`
where the last call must come out as one that cannot be carried out, and `error` where the
endpoint's own error must be raised. *Dialect* is what the reader must be told.

This page is made from the books in `agent_actors/testing/` by `make docs`; do not edit it.
"""
_FEW: Final = 3
"""A group that lacks no more names than this is told by what it lacks."""

_TITLES: Final = {"chat": "Chat completions", "messages": "Anthropic's Messages"}


def page() -> str:
    """The page as the books have it."""
    parts = [_INTRO]
    for protocol, book in QUIRKS.items():
        parts.append(f"\n## {_TITLES[protocol]}\n\n" + "\n".join(_quirks(book)) + "\n")
        parts.append(
            f"\n### Pairs that do not go together\n\n"
            f"Of {len(book.quirks)} quirks {len(book.pairs())} pairs go together. These "
            f"{len(book.excluded)} do not:\n\n" + "\n".join(_excluded(book)) + "\n"
        )
    return "".join(parts)


def _quirks(book: QuirkBook) -> Iterator[str]:
    yield "| quirk | No. | what the endpoint does | turns | not compared | comes to | dialect |"
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
    yield "| because | do not go together |"
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
    sys.stderr.write(f"{PAGE.name} is not what the books say; run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
