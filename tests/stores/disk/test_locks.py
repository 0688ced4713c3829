"""Locks record which opening of a store holds which session."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_actors.stores.disk import locks as _locks
from agent_actors.stores.disk.locks import StoreInUse, StoreLocks


def opened(path: Path) -> StoreLocks:
    locks = StoreLocks(path)
    locks.made_ready()
    return locks


def test_session_lock_is_exclusive(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "lock"), opened(tmp_path / "lock")
    assert one.take("s")
    assert one.take("s")
    assert one.holds("s")
    assert not other.take("s")
    assert not other.holds("s")
    assert other.take("t")
    one.give_back("s")
    one.give_back("s")
    assert other.take("s")
    other.close()
    other.close()
    assert one.take("t")
    one.close()


def test_lock_file_is_private_no_link(tmp_path: Path) -> None:
    opened(tmp_path / "lock").close()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        StoreLocks(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_preparing_a_store_is_exclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_locks, "_OPENING_TIMEOUT", 0.02)
    one = StoreLocks(tmp_path / "lock")
    with pytest.raises(StoreInUse):
        StoreLocks(tmp_path / "lock")
    one.made_ready()
    opened(tmp_path / "lock").close()
    one.close()


def test_process_locks_cover_whole_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_locks, "OFD_SETLK", None)
    monkeypatch.setattr(_locks, "_OPENING_TIMEOUT", 0.02)
    one = opened(tmp_path / "lock")
    assert one.take("s")
    with pytest.raises(StoreInUse):
        StoreLocks(tmp_path / "lock")
    one.give_back("s")
    one.close()
    opened(tmp_path / "lock").close()


@pytest.mark.parametrize("by_session", [True, False])
def test_unsupported_system_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_session: bool
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if not by_session:
        monkeypatch.setattr(_locks, "OFD_SETLK", None)
    monkeypatch.setattr(fcntl, "fcntl" if by_session else "flock", no_locks)
    closed: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", closed.append)
        with pytest.raises(OSError, match="No locks"):
            StoreLocks(tmp_path / "lock")
    [left] = closed
    os.close(left)


HOLDER = """
import sys, time
from pathlib import Path
from agent_actors.stores.disk.locks import StoreLocks
locks = StoreLocks(Path(sys.argv[1]))
locks.made_ready()
print(locks.take("s"), flush=True)
sys.stdin.read()
"""


def test_killed_process_releases_locks(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        here = opened(tmp_path / "lock")
        assert not here.take("s")
        process.kill()
        process.wait()
        assert here.take("s")
        here.close()
