"""Complete texts of tool results on disk: limited in size, owner-only, and never half written."""

import os
from collections.abc import Callable, Iterator
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


class Interrupted(list[bytes]):
    """The chunks of a text; an action runs while they are written."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__([b"xxxx", b"yyyy"])
        self._action = action

    def __iter__(self) -> Iterator[bytes]:
        yield self[0]
        self._action()
        yield self[1]


def test_parallel_texts_do_not_disturb_each_other(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path / "results", max_bytes=10)

    def keep_another() -> None:
        for unfinished in (tmp_path / "results/s").iterdir():
            os.utime(unfinished, (0, 0))
        files.keep("s", "b", [b"zzzzzzzz"])

    files.keep("s", "a", Interrupted(keep_another))
    assert files.read("s", "a", 0, 9) == b"xxxxyyyy"


def test_texts_removed_meanwhile_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, stat = ResultFiles(tmp_path / "results", max_bytes=3), os.stat

    def remove_after(name: str, *, dir_fd: int, follow_symlinks: bool) -> os.stat_result:
        found = stat(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        os.unlink(name, dir_fd=dir_fd)
        return found

    def add_name(folder: int) -> list[str]:
        return [*names_in(folder), "gone"]

    names_in = os.listdir
    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", add_name)
        patched.setattr(os, "stat", remove_after)
        files.keep("s", "a", [b"xxxx"])
    assert files.read("s", "a", 0, 9) is None


def test_deletion_includes_texts_added_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, rmdir = ResultFiles(tmp_path / "results"), os.rmdir
    files.keep("s", "a", [b"x"])

    def add_before(name: str, *, dir_fd: int) -> None:
        monkeypatch.undo()
        files.keep("s", "b", [b"x"])
        rmdir(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", add_before)
    files.delete("s")
    assert names(tmp_path / "results") == []


def test_failed_deletion_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ResultFiles(tmp_path / "results")
    files.keep("s", "a", [b"x"])

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(PermissionError):
        files.delete("s")


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
