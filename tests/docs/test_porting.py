"""Agents written for open-agent-sdk 0.4.2 need few changes and do the same after porting."""

import re
from pathlib import Path

import attrs
import pytest

from tests.docs.port_helpers import CALCULATOR, EXAMPLES, HELP_DESK, Port

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.feature("OAS-117")
def test_fewer_than_five_lines_change() -> None:
    changed = CALCULATOR.changes()
    gone = [line for line in changed if line.startswith("-")]
    come = [line for line in changed if line.startswith("+")]
    assert len(gone) == len(come) == 3


def test_port_changes_six_lines() -> None:
    changed = HELP_DESK.changes()
    gone = [line for line in changed if line.startswith("-")]
    come = [line for line in changed if line.startswith("+")]
    assert (len(gone), len(come)) == (5, 6)


@pytest.mark.parametrize(
    ("page", "port"),
    [("how-to/client.md", CALCULATOR), ("coming-from/open-agent-sdk.md", HELP_DESK)],
)
def test_the_page_shows_these_lines(page: str, port: Port) -> None:
    assert "open_agent" in port.before.read_text(encoding="utf-8")
    text = (DOCS / page).read_text(encoding="utf-8")
    shown = re.search(r"<!-- diff -->\n```diff\n(.*?)\n```", text, re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines() == port.changes()


def test_page_shows_original_agent() -> None:
    page = (DOCS / "coming-from/open-agent-sdk.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- before -->\n```python\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert shown[1] == HELP_DESK.before.read_text(encoding="utf-8")


@pytest.mark.feature("OAS-118")
@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (CALCULATOR, 'Let me see. It is {"result": 20}.'),
        (
            attrs.evolve(CALCULATOR, after=EXAMPLES / "calculator_automatic.py"),
            "-> multiply({'a': 5, 'b': 4})\n<- 20",
        ),
    ],
    ids=["by_hand", "automatic"],
)
async def test_the_calculator_calculates(port: Port, expected: str) -> None:
    assert expected in await port.output()


async def test_help_desk_behaves_as_before() -> None:
    assert (await HELP_DESK.output()).splitlines() == [
        "order",
        "  calls find_order",
        "  find_order({'order': 'A1'}) -> {'order': 'A1', 'state': 'on its way'}",
        '  Found: {"order": "A1", "state": "on its way"}',
        "  4 messages after 1 turns",
        "order",
        "  calls find_order",
        "  find_order({'order': 'B2'}) -> {'order': 'B2', 'state': 'lost'}",
        "  calls refund",
        "  refund({'order': 'B2', 'euros': 80}) -> 80 euros were refunded for B2",
        "  I see. Found: 80 euros were refunded for B2",
        "  10 messages after 2 turns",
        "other",
        "  You are welcome.",
        "  8 messages after 3 turns",
    ]
