"""Complete texts of tool results on disk: limited in size, owner-only, and never half written."""

import os
from pathlib import Path

import pytest

from agent_actors.stores.disk.result_files import ResultFiles


def names(path: Path) -> list[str]:
    return sorted(str(one.relative_to(path)) for one in path.rglob("*"))


def test_oldest_texts_make_room(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path / "results", max_bytes=10)
    for number, call_id in enumerate("abc"):
        files.keep("s", call_id, [b"xxxx"])
        newest = max((tmp_path / "results/s").iterdir(), key=lambda one: one.stat().st_mtime_ns)
        os.utime(newest, (number, number))
    assert [files.read("s", call_id, 0, 9) for call_id in "abc"] == [None, b"xxxx", b"xxxx"]


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    ResultFiles(tmp_path / "results").keep("s", "a", [b"x"])
    modes = [one.stat().st_mode & 0o777 for one in sorted((tmp_path / "results").rglob("*"))]
    assert modes == [0o700, 0o600]


def test_failed_write_leaves_earlier_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ResultFiles(tmp_path)
    files.keep("s", "a", [b"old"])
    before = names(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="no space"):
        files.keep("s", "a", [b"new"])
    assert names(tmp_path) == before
    assert files.read("s", "a", 0, 9) == b"old"


def test_absent_texts_are_none(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path / "results")
    files.delete("s")
    assert files.read("s", "a", 0, 1) is None
    assert names(tmp_path) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path / "results")
    (tmp_path / "results").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "results/s").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="s"):
        files.keep("s", "a", [b"x"])
    assert names(tmp_path / "elsewhere") == []
