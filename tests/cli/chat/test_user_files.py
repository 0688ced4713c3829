"""The files that a chat stores for its user."""

import stat
from pathlib import Path

import pytest

from agent_actors.cli.chat.user_files import InputHistory, user_file


def loaded(path: Path | None) -> list[str]:
    return list(InputHistory(path).load_history_strings())


def test_history_is_private_and_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "input"
    history = InputHistory(path)
    for line in ("one", "two\nlines 日本\ud800", "  private", "", " \n", "three", "three"):
        history.append_string(line)

    assert loaded(path) == ["three", "two\nlines 日本?", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_unusable_history_file_is_ignored(tmp_path: Path) -> None:
    blocked = tmp_path / "no/folder/input"
    InputHistory(blocked).append_string("lost")
    InputHistory(tmp_path).append_string("a folder is no file")
    InputHistory(None).append_string("nowhere")
    assert loaded(blocked) == loaded(tmp_path) == loaded(None) == []


def test_user_files_are_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = user_file("chats.db", {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert found is not None
    assert found == tmp_path / "state/agent-actors/chats.db"
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert user_file("x", {}) == tmp_path / ".local/state/agent-actors/x"
    (tmp_path / "file").touch()
    assert user_file("x", {"XDG_STATE_HOME": str(tmp_path / "file")}) is None

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert user_file("x", {}) is None
