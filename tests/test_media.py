"""Images and files can be read from paths, including paths from untrusted sources."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from agent_actors import FileBlock, ImageBlock
from agent_actors.errors import MediaError
from agent_actors.media import read_file, read_image
from tests.domain.test_media import PDF, PNG

needs_posix = pytest.mark.skipif(os.name != "posix", reason="the kinds of files are POSIX's")


async def test_image_and_file_become_blocks(tmp_path: Path) -> None:
    picture, report = tmp_path / "cat.bin", tmp_path / "report.pdf"
    picture.write_bytes(PNG)
    report.write_bytes(PDF)
    assert await read_image(picture, detail="low") == ImageBlock.from_bytes(PNG, detail="low")
    assert await read_image(str(picture), "image/png") == ImageBlock.from_bytes(PNG)
    assert await read_file(trio.Path(report)) == FileBlock.from_bytes(PDF, name="report.pdf")
    assert (await read_file(report, name="")).name == ""
    (tmp_path / "link").symlink_to(report)
    assert (await read_file(tmp_path / "link")).media_type == "application/pdf"


async def test_file_of_several_reads_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_actors.media._CHUNK", 3)
    (tmp_path / "a.txt").write_text("0123456789")
    for most in (10, 11):
        assert (await read_file(tmp_path / "a.txt", max_bytes=most)).text == "0123456789"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the image is empty"),
        (b"hello", "pass its media_type"),
        (PDF, "send it as a FileBlock"),
        (PNG * 9, "the file has 108 bytes; at most 100 may be sent"),
    ],
)
async def test_non_image_is_refused_by_path(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(MediaError, match=expected) as caught:
        await read_image(tmp_path / "odd", max_bytes=100)
    assert str(caught.value).startswith(repr(str(tmp_path / "odd")))


def replace_os(monkeypatch: pytest.MonkeyPatch, **functions: object) -> None:
    """Replace functions of `os` for the module under test only."""
    monkeypatch.setattr("agent_actors.media.os", SimpleNamespace(**{**vars(os), **functions}))


def missing(path: Path) -> None:
    """Create nothing."""


def loop(path: Path) -> None:
    path.symlink_to(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        # The path of a socket must be short, and that of the temporary folder may be too long.
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir(before)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@needs_posix
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (missing, "cannot be read: No such file or directory"),
        (loop, "cannot be read: Too many levels of symbolic links"),
        (Path.mkdir, "this is a directory"),
        (os.mkfifo, "this is a pipe"),
        (device, "this is a device"),
        (bound_socket, "this is not one"),
    ],
)
async def test_special_file_is_refused_immediately(
    tmp_path: Path, make: Callable[[Path], None], expected: str
) -> None:
    make(tmp_path / "odd")
    for read in (read_image, read_file):
        with trio.fail_after(5), pytest.raises(MediaError, match=expected):
            await read(tmp_path / "odd")


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 999])
async def test_impossible_path_is_refused(path: str) -> None:
    with pytest.raises(MediaError, match="cannot be read"):
        await read_file(path)


async def test_growing_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grows").write_bytes(b"x" * 50)

    def as_if_empty(descriptor: int) -> os.stat_result:
        fields = list(os.stat(descriptor))
        fields[6] = 0
        return os.stat_result(fields)

    reads: list[int] = []

    def counted(descriptor: int, size: int) -> bytes:
        reads.append(size)
        return b"x" * size if len(reads) < 20 else b""

    replace_os(monkeypatch, fstat=as_if_empty, read=counted)
    monkeypatch.setattr("agent_actors.media._CHUNK", 4)
    with pytest.raises(MediaError, match="the file has more than 9 bytes"):
        await read_file(tmp_path / "grows", max_bytes=9)
    assert reads == [4, 4, 4]


@needs_posix
async def test_cancel_does_not_wait_for_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def stuck(path: str, flags: int) -> int:
        token.run_sync_soon(begun.set)
        go_on.wait()
        raise OSError(f"{path} {flags}")

    replace_os(monkeypatch, open=stuck)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_file, tmp_path / "x")
        await begun.wait()
        nursery.cancel_scope.cancel()
    go_on.set()
