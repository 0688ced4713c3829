"""What was typed in chats before."""

import stat
from pathlib import Path

import pytest

from agent_actors.cli.chat.input_history import InputHistory, history_path


def loaded(path: Path | None) -> list[str]:
    return list(InputHistory(path).load_history_strings())


def test_history_is_private_and_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "made/here/input.jsonl"
    history = InputHistory(path)
    for line in ("one", "two\nlines 日本\ud800", "  private", "", " \n", "three", "three"):
        history.append_string(line)

    assert loaded(path) == ["three", "two\nlines 日本\ud800", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_damaged_history_file_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "input.jsonl"
    path.write_bytes(b'"one"\n{\n3\n\xff\n""\n"two"')
    assert loaded(path) == ["two", "one"]
    blocked = path / "below/a/file"
    InputHistory(blocked).append_string("lost")
    assert loaded(blocked) == loaded(None) == []
    InputHistory(None).append_string("nowhere")


def test_old_lines_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_actors.cli.chat.input_history._KEPT", 3)
    path = tmp_path / "input.jsonl"
    path.write_text("".join(f'"{number}"\n' for number in range(7)))
    assert loaded(path) == ["6", "5", "4"]
    assert path.read_text() == '"4"\n"5"\n"6"\n'
    assert [one.name for one in tmp_path.iterdir()] == ["input.jsonl"]


def test_history_lives_in_the_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    found = history_path({"XDG_STATE_HOME": "/state"})
    assert found == Path("/state/agent-actors/chat-input.jsonl")
    monkeypatch.setattr(Path, "home", lambda: Path("/somewhere"))
    assert history_path({}) == Path("/somewhere/.local/state/agent-actors/chat-input.jsonl")

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert history_path({}) is None
