"""Commands in a bubblewrap sandbox."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from agent_actors.domain.workspace.processes import ProcessLimits, ProcessResult, ProcessSpec
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.toolbox.workspace import bubblewrap as module
from agent_actors.toolbox.workspace.bubblewrap import BubblewrapWorkspace, find_bubblewrap
from agent_actors.toolbox.workspace.local.workspace import LocalWorkspace
from agent_actors.toolbox.workspace.network.proxy import HostProxy
from agent_actors.toolbox.workspace.processes.cgroups import CgroupParents, find_cgroups
from tests.toolbox.workspace.network.helpers import Names, Server, open_server
from tests.toolbox.workspace.places import PLACES, Place

TABLE = [
    line.split("\t")
    for line in Path(__file__).with_name("sandbox_escapes.tsv").read_text("utf-8").splitlines()
]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with PLACES["BubblewrapWorkspace"](tmp_path) as opened:
        yield opened


async def run(workspace: BubblewrapWorkspace, command: str, **options: Any) -> ProcessResult:
    return await workspace.exec(ProcessSpec(argv=command, **options))


def sandbox_of(place: Place) -> BubblewrapWorkspace:
    assert isinstance(place.workspace, BubblewrapWorkspace)
    return place.workspace


@attrs.frozen
class Host:
    """Things of this machine that a sandbox must not reach."""

    port: int
    pid: int
    abstract: str


@pytest.fixture
def host(place: Place, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "hidden-secret")
    (place.outside / "secret").write_text("top secret")
    (place.root / ".git/hooks").mkdir(parents=True)
    (place.root / ".git/config").write_text("[core]")
    (place.root / ".mcp.json").write_text("{}")
    name = f"agent-actors-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["sleep", "7100"]) as process,
    ):
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield Host(server.getsockname()[1], process.pid, name)
        assert process.poll() is None
        process.kill()


@pytest.mark.feature("ASDK-081")
@pytest.mark.parametrize(("attempt", "command", "expected"), TABLE)
async def test_escape_fails(
    place: Place, host: Host, attempt: str, command: str, expected: str
) -> None:
    for name, value in {
        "OUTSIDE": str(place.outside),
        "PORT": str(host.port),
        "HOSTPID": str(host.pid),
        "SOCKET": host.abstract,
    }.items():
        command = command.replace(name, value)
    result = await run(sandbox_of(place), command)
    output = (result.stdout + result.stderr).decode()
    assert "top secret" not in output
    assert "hidden-secret" not in output
    if expected == "FEW":
        assert int(output) < 10
    else:
        assert re.search(expected, output), output
    assert sorted(path.name for path in place.outside.iterdir()) == ["secret"]
    assert (place.root / ".git/config").read_text() == "[core]"
    assert (place.root / ".mcp.json").read_text() == "{}"


def test_table_has_many_attempts() -> None:
    assert len(TABLE) >= 40
    assert len({attempt for attempt, _, _ in TABLE}) == len(TABLE)


async def test_local_workspace_refuses_attempts(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    for _, command, _ in TABLE:
        with pytest.raises(WorkspaceError) as raised:
            await workspace.exec(ProcessSpec(argv=command))
        assert raised.value.reason == "refused"
    assert workspace.describe().refused == len(TABLE)
    await workspace.aclose()


async def test_command_works_on_the_files(place: Place) -> None:
    workspace = sandbox_of(place)
    (place.root / "sub").mkdir()
    await workspace.write("sub/in.txt", b"text")
    command = "cat in.txt; echo; pwd; echo $HOME; echo out > out.txt"
    result = await run(workspace, command, cwd="sub")
    assert result.stdout.decode().split() == ["text", f"{place.root}/sub", "/sandbox"]
    assert (await workspace.read("sub/out.txt")).data == b"out\n"
    result = await run(workspace, f"echo new > {place.allowed}/new; echo $OWN", env={"OWN": "mine"})
    assert result.stdout == b"mine\n"
    assert (place.allowed / "new").read_text() == "new\n"


async def test_temporary_files_do_not_stay(place: Place) -> None:
    workspace = sandbox_of(place)
    await run(workspace, "echo x > /tmp/x; echo x > ~/x")
    result = await run(workspace, "ls /tmp/x ~/x")
    assert result.end.exit_code != 0


async def test_read_only_workspace_is_read_only_inside(tmp_path: Path) -> None:
    async with PLACES["BubblewrapWorkspace"](tmp_path, read_only=True) as place:
        result = await run(sandbox_of(place), "echo x > x")
        assert b"Read-only" in result.stderr


async def test_term_reaches_the_command(place: Place) -> None:
    command = "trap 'echo saved; exit 0' TERM; sleep 7102 & wait"
    result = await run(sandbox_of(place), command, timeout=0.5)
    assert (result.stdout, result.end.exit_code, result.end.timed_out) == (b"saved\n", 0, True)


@contextmanager
def shared_directory(owner: int) -> Generator[Path]:
    """Yield a directory that another user owns; pytest's directories are private to this user."""
    if os.geteuid() != 0 and owner != os.geteuid():
        pytest.skip("only root can run commands as another user")
    root = Path(tempfile.mkdtemp(prefix="agent-actors-", dir="/tmp"))
    try:
        os.chown(root, owner, owner)
        yield root
    finally:
        shutil.rmtree(root)


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


async def running(command: str) -> bool:
    """Return whether a process of this machine has a command line that begins so."""
    found = await trio.run_process(["pgrep", "-f", f"^{command}"], check=False, capture_stdout=True)
    return found.stdout != b""


async def left_cgroups() -> list[Path]:
    """Return the cgroups that commands of this process leave; those of other workers are live."""
    parents = {find_cgroups().memory, find_cgroups().pids} - {""}
    left: list[Path] = []
    for _ in range(40):
        left = _cgroups_of_commands(parents)
        if not left:
            break
        await trio.sleep(0.05)
    return left


def _cgroups_of_commands(parents: set[str]) -> list[Path]:
    paths = [path for parent in parents for path in Path(parent).glob("agent-actors-*")]
    return [path for path in paths if not _is_foreign(int(path.name.rpartition("-")[2]))]


def _is_foreign(guardian: int) -> bool:
    """Return whether a process is alive and does not descend from this process."""
    process = guardian
    while process > 1:
        if process == os.getpid():
            return False
        try:
            stat = Path(f"/proc/{process}/stat").read_text("utf-8")
        except OSError:
            return False
        process = int(stat.rpartition(")")[2].split()[1])
    return True


# With a cgroup, and without one as another user than root.
@pytest.mark.parametrize("cgroups", [True, False])
async def test_processes_are_limited(monkeypatch: pytest.MonkeyPatch, cgroups: bool) -> None:
    find_bubblewrap_or_skip()
    if cgroups and not find_cgroups().pids:
        pytest.skip("this program cannot create a cgroup that limits processes")
    if not cgroups:
        monkeypatch.setattr(module, "find_cgroups", CgroupParents)
    with shared_directory(os.geteuid() if cgroups else os.geteuid() or 65534) as root:
        workspace = BubblewrapWorkspace(root, limits=ProcessLimits(processes=20, wall_seconds=20))
        command = "id -u; for i in $(seq 40); do sleep 7103 & done; echo all started"
        result = await run(workspace, command)
        assert b"fork" in result.stderr.lower()
        assert b"all started" not in result.stdout
        assert not any(text.startswith("processes") for text in workspace.describe().unenforced)
        await workspace.aclose()
    assert not await running("sleep 7103")


async def test_sandbox_outlives_idle_threads(place: Place) -> None:
    # Trio's worker threads end after ten idle seconds. A sandbox that depends on the thread which
    # started it dies then.
    result = await run(sandbox_of(place), "sleep 10.5; echo alive")
    assert result.stdout == b"alive\n"


async def test_network_is_an_option(tmp_path: Path) -> None:
    find_bubblewrap_or_skip()
    workspace = BubblewrapWorkspace(tmp_path, network=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = f"import socket; socket.create_connection(('127.0.0.1', {port})); print('in')"
        result = await workspace.exec(ProcessSpec(argv=("python3", "-c", command)))
    assert result.stdout == b"in\n"
    assert workspace.describe().network is True
    await workspace.aclose()


FETCH = """
import sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=20).read().decode())
    except OSError as error:
        print(error)
"""


@asynccontextmanager
async def open_network(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[BubblewrapWorkspace, Server]]:
    """Open a sandbox that may reach `good.test`, which is a server of this machine."""
    find_bubblewrap_or_skip()
    trio.socket.set_custom_hostname_resolver(Names({"good.test": "127.0.0.1"}))
    async with open_server() as server:
        proxy = partial(HostProxy, ports=frozenset({server.port}), check_address=lambda address: "")
        monkeypatch.setattr(module, "HostProxy", proxy)
        workspace = BubblewrapWorkspace(root, network=["good.test"])
        try:
            yield workspace, server
        finally:
            await workspace.aclose()


@pytest.mark.parametrize("owner", [0, 65534])
async def test_only_named_hosts_are_reached(monkeypatch: pytest.MonkeyPatch, owner: int) -> None:
    with shared_directory(owner) as root:
        async with open_network(root, monkeypatch) as (workspace, server):
            urls = [f"http://{host}.test:{server.port}/" for host in ("good", "evil")]
            result = await workspace.exec(ProcessSpec(argv=("python3", "-c", FETCH, *urls)))
            good, evil = result.stdout.decode().splitlines()
            assert good == "hi"
            assert "does not allow the host 'evil.test'" in evil
            direct = f"import socket; socket.create_connection(('127.0.0.1', {server.port}), 5)"
            result = await workspace.exec(ProcessSpec(argv=("python3", "-c", direct)))
            assert b"refused" in result.stderr
        report = workspace.describe()
        assert report.network == ("good.test",)
        assert [(one.operation, one.target) for one in report.refusals] == [
            ("connect", "evil.test")
        ]


async def test_background_command_reaches_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_network(tmp_path, monkeypatch) as (workspace, server):
        output: list[bytes] = []
        process = await workspace.start(
            ProcessSpec(argv=("python3", "-c", FETCH, f"http://good.test:{server.port}/")),
            lambda stream, data: output.append(data),
        )
        await process.wait()
        assert b"".join(output) == b"hi\n"


async def test_cancelled_network_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_network(tmp_path, monkeypatch) as (workspace, _):
        await workspace.exec(ProcessSpec(argv="true"))
        before = open_descriptors()
        for delay in (0, 0.001, 0.005, 0.02, 0.05, 0.1):
            with trio.move_on_after(delay):
                await workspace.exec(ProcessSpec(argv="sleep 7104"))
            assert open_descriptors() == before
        assert not await running("sleep 7104")
        assert not await left_cgroups()


async def test_sandbox_failure_is_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, gone = tmp_path / "root", tmp_path / "gone"
    root.mkdir()
    gone.mkdir()
    async with open_network(root, monkeypatch):
        workspace = BubblewrapWorkspace(root, [gone], network=["good.test"])
        gone.rmdir()
        result = await workspace.exec(ProcessSpec(argv="true"))
        assert result.end.exit_code == 1
        assert b"bwrap: Can't find source path" in result.stderr
        await workspace.aclose()


def test_single_host_is_an_error(tmp_path: Path) -> None:
    find_bubblewrap_or_skip()
    with pytest.raises(
        ConfigError, match=r"sequence of hosts; got 'pypi.org'. Write \['pypi.org'\]"
    ):
        BubblewrapWorkspace(tmp_path, network="pypi.org")


async def test_memory_of_a_command_is_limited(tmp_path: Path) -> None:
    find_bubblewrap_or_skip()
    limits = ProcessLimits(memory_bytes=60_000_000)
    workspace = BubblewrapWorkspace(tmp_path, limits=limits)
    report = workspace.describe()
    assert (report.memory_limit == "per_command") == bool(find_cgroups().memory)
    command = "python3 -c 'x = b\"x\" * 70_000_000; print(len(x))'"
    result = await workspace.exec(ProcessSpec(argv=command))
    assert b"70000000" not in result.stdout
    assert result.end.exit_code != 0
    await workspace.aclose()
    assert not await left_cgroups()


@pytest.mark.feature("ASDK-090")
async def test_report_names_the_confinement(place: Place) -> None:
    report = sandbox_of(place).describe()
    assert (report.kind, report.processes, report.network) == ("bubblewrap", "sandboxed", False)
    assert (report.root, report.allowed_paths) == (place.inner_root, (place.inner_allowed,))
    assert report.limits == ProcessLimits()


@pytest.fixture
def fresh_probe() -> Any:
    find_bubblewrap.cache_clear()
    yield
    find_bubblewrap.cache_clear()


def test_missing_program_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_probe: None
) -> None:
    def which(name: str) -> None:
        return None

    monkeypatch.setattr(shutil, "which", which)
    with pytest.raises(WorkspaceError, match="system package `bubblewrap`") as caught:
        BubblewrapWorkspace(tmp_path)
    assert caught.value.reason == "unavailable"


@pytest.mark.parametrize("program", ["false", "no-such-program"])
def test_failing_program_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, fresh_probe: None
) -> None:
    def which(name: str) -> str:
        return program

    monkeypatch.setattr(shutil, "which", which)
    with pytest.raises(WorkspaceError, match="cannot create a sandbox"):
        BubblewrapWorkspace(tmp_path)


def find_bubblewrap_or_skip() -> None:
    try:
        find_bubblewrap()
    except WorkspaceError as error:
        pytest.skip(str(error))
