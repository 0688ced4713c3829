"""The demo tools of a chat."""

from datetime import UTC, datetime

import pytest

from agent_actors.cli.chat.tools import demo_tools, evaluate


@pytest.mark.parametrize(
    ("formula", "value"),
    [("6*7", 42), ("(1 + 2) / -4", -0.75), ("7 // 2 - +7 % 4", 0), (" 2.5 ", 2.5)],
)
def test_a_formula_is_worked_out(formula: str, value: float) -> None:
    assert evaluate(formula) == value


@pytest.mark.parametrize(
    "formula",
    ["", "9**9**9", "x", "f()", "'a'*9", "True", "1 if 1 else 2", "[1]", "1" * 201, "\0", "1j"],
)
def test_invalid_formula_is_refused(formula: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        evaluate(formula)


async def test_notes_are_bounded_and_last_one_chat() -> None:
    clock, calculate, read_notes, take_note = demo_tools(lambda: datetime(2030, 1, 2, tzinfo=UTC))
    assert await clock.execute({}) == "Wednesday, 2030-01-02 00:00:00 UTC"
    assert await calculate.execute({"formula": "2*3"}) == "6"
    for number in range(100):
        assert await take_note.execute({"text": f"{number}"}) == f"note {number + 1} taken"
    with pytest.raises(ValueError, match="which is the maximum"):
        await take_note.execute({"text": "one more"})
    assert await read_notes.execute({}) == [str(number) for number in range(100)]
    assert [t.read_only for t in demo_tools()] == [True, True, True, False]
