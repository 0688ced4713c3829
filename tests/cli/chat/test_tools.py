"""The tools of a chat: a user's own, and those to try it with."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_actors.cli.chat.tools import demo_tools, evaluate, load_tools
from agent_actors.errors import ConfigError


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "chat_tools_here.py").write_text(
        "from agent_actors import tool\n"
        "def plain(n: int) -> int:\n    'A function.'\n    return n\n"
        "@tool\ndef made() -> str:\n    'A tool.'\n    return ''\n"
        "class Holder:\n    ALL = [made, plain]\n"
        "number = 3\n"
    )
    (tmp_path / "chat_tools_broken.py").write_text("raise RuntimeError('no\\nway')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("chat_tools_here", "chat_tools_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "chat_tools_here"


def test_tools_functions_and_lists_are_loaded(module: str) -> None:
    assert [t.name for t in load_tools([f"{module}:made", f"{module}:plain"])] == ["made", "plain"]
    assert [t.name for t in load_tools([f"{module}:Holder.ALL"])] == ["made", "plain"]


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("chat_tools_here", "expected module:attribute"),
        (":x", "expected module:attribute"),
        ("chat_tools_here:none.at.all", "has no 'none.at.all'"),
        ("chat_tools_here:number", "--tools chat_tools_here:number: "),
        ("chat_tools_broken:x", "cannot be imported: RuntimeError: no"),
        ("..:x", "cannot be imported"),
    ],
)
def test_what_cannot_be_loaded_is_named(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        load_tools([spec])


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
def test_what_is_no_formula_is_refused(formula: str) -> None:
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
