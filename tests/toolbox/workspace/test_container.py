"""The life of containers, and commands in them."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from agent_actors.domain.workspace.files import GrepQuery
from agent_actors.domain.workspace.processes import ProcessLimits, ProcessResult, ProcessSpec
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.options.workspace_config import WorkspaceConfig, as_workspace
from agent_actors.runtime.wiring import make_workspace
from agent_actors.toolbox.workspace.container.container import Container
from agent_actors.toolbox.workspace.container.engine import ContainerSpec, find_engine
from agent_actors.toolbox.workspace.container.processes import processes_to_end
from agent_actors.toolbox.workspace.container.workspace import ContainerWorkspace
from tests.toolbox.workspace.podman import IMAGE

TABLE = [
    line.split("\t")
    for line in Path(__file__).with_name("container_escapes.tsv").read_text("utf-8").splitlines()
]


build: Callable[..., ContainerWorkspace] = ContainerWorkspace


async def run(workspace: ContainerWorkspace, command: str, **options: Any) -> ProcessResult:
    return await workspace.exec(ProcessSpec(argv=command, **options))


def sleeping(seconds: str) -> bool:
    """Return whether a process of this machine, or of a container, sleeps for this time."""
    found = subprocess.run(
        ["pgrep", "-f", f"^(/bin/)?sleep {seconds}"], capture_output=True, check=False
    )
    return found.returncode == 0


def containers() -> list[str]:
    program = find_engine("podman").program
    shown = subprocess.run(
        [program, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, check=True
    )
    return shown.stdout.decode().split()


@pytest.fixture
async def workspace(shared_container: Container, tmp_path: Path) -> AsyncIterator[Any]:
    opened = ContainerWorkspace(shared_container, str(tmp_path))
    yield opened
    await opened.aclose()


# Attempts to leave the container. One command makes all of them, since each start of a command
# takes a moment.


@pytest.fixture(scope="module")
def outputs(engine: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    base = tmp_path_factory.mktemp("escapes")
    root, outside = base / "root", base / "outside"
    outside.mkdir()
    (outside / "secret").write_text("top secret")
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/config").write_text("[core]")
    (root / ".mcp.json").write_text("{}")
    workspace = ContainerWorkspace(IMAGE, str(root), engine="podman", mounts={root: str(root)})
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        subprocess.Popen(["sleep", "7200"]) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("OPENAI_API_KEY", "hidden-secret")
        names = {"OUTSIDE": outside, "PORT": server.getsockname()[1], "HOSTPID": process.pid}
        attempts: list[str] = []
        for _, attempt, _ in TABLE:
            command = re.sub("|".join(names), lambda found: str(names[found[0]]), attempt)
            attempts.append(f"/bin/sh -c {shlex.quote(command)} 2>&1; echo; echo =====")

        async def attempt_all() -> str:
            result = await run(workspace, "\n".join(attempts))
            await workspace.aclose()
            return result.stdout.decode()

        found = trio.run(attempt_all).split("\n=====\n")
        assert process.poll() is None
        process.kill()
    return found, base


@pytest.mark.feature("ASDK-081")
@pytest.mark.parametrize("row", range(len(TABLE)), ids=[row[0] for row in TABLE])
def test_escape_fails(outputs: tuple[list[str], Path], row: int) -> None:
    found, base = outputs
    output, expected = found[row].strip(), TABLE[row][2]
    assert "top secret" not in output
    if expected == "FEW":
        assert int(output) < 10
    else:
        assert re.search(expected, output), output
    assert [path.name for path in (base / "outside").iterdir()] == ["secret"]
    assert (base / "root/.git/config").read_text() == "[core]"
    assert (base / "root/.mcp.json").read_text() == "{}"


# Commands.


@pytest.mark.feature("WICK-052")
async def test_command_works_on_the_files(workspace: ContainerWorkspace) -> None:
    await workspace.write("sub dir/in.txt", b"text")
    result = await run(
        workspace,
        'cat in.txt; cat; pwd; echo "$OWN"; echo out > out.txt; echo bad >&2; exit 3',
        cwd="sub dir",
        env={"OWN": "it's\nmine"},
        stdin=b"=",
    )
    root = workspace.describe().root
    assert result.stdout.decode() == f"text={root}/sub dir\nit's\nmine\n"
    assert (result.stderr, result.end.exit_code, result.end.signal) == (b"bad\n", 3, "")
    assert (await workspace.read("sub dir/out.txt")).data == b"out\n"
    argv = ("printf", "%s|", "$HOME; ü", "a\nb")
    assert (await workspace.exec(ProcessSpec(argv=argv))).stdout == "$HOME; ü|a\nb|".encode()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ProcessSpec(argv=("a\0b",)), "NUL"),
        (ProcessSpec(argv="true", env={"A B": ""}), "name of a variable"),
        (ProcessSpec(argv="true", cwd=".."), "outside the workspace"),
    ],
    ids=str,
)
async def test_invalid_command_is_refused(
    workspace: ContainerWorkspace, spec: ProcessSpec, message: str
) -> None:
    with pytest.raises(WorkspaceError, match=message):
        await workspace.exec(spec)


async def test_output_is_truncated_without_blocking(workspace: ContainerWorkspace) -> None:
    command = "head -c 3000000 /dev/zero; head -c 5 /dev/zero >&2"
    result = await run(workspace, command, max_output_bytes=1000)
    assert (len(result.stdout), result.stdout_truncated) == (1000, True)
    assert (len(result.stderr), result.stderr_truncated) == (5, False)


async def test_term_reaches_the_command(workspace: ContainerWorkspace) -> None:
    command = "trap 'echo saved; exit 0' TERM; sleep 7201 & wait"
    result = await run(workspace, command, timeout=0.5)
    assert (result.stdout, result.end.exit_code, result.end.timed_out) == (b"saved\n", 0, True)
    assert not sleeping("7201")


async def test_stubborn_command_is_killed(workspace: ContainerWorkspace) -> None:
    command = "trap '' TERM; setsid env -i sleep 7202 & sleep 7202; sleep 7202"
    result = await run(workspace, command, timeout=0.3)
    assert (result.end.signal, result.end.timed_out) == ("SIGKILL", True)
    assert not sleeping("7202")


async def test_left_behind_process_is_ended(workspace: ContainerWorkspace) -> None:
    result = await run(workspace, "sleep 7203 & setsid sleep 7203 & echo begun")
    assert (result.stdout, result.end.exit_code) == (b"begun\n", 0)
    assert not sleeping("7203")


async def test_cancelled_command_leaves_nothing(workspace: ContainerWorkspace) -> None:
    with trio.move_on_after(0.5) as scope:
        await run(workspace, "sleep 7204 & setsid sleep 7204 & sleep 7204")
    assert scope.cancelled_caught
    assert not sleeping("7204")


async def test_background_commands_end_with_workspace(workspace: ContainerWorkspace) -> None:
    seen: list[tuple[str, bytes]] = []
    complete = trio.Event()

    def show(stream: str, data: bytes) -> None:
        seen.append((stream, data))
        if len(seen) == 2:
            complete.set()

    command = ProcessSpec(argv="echo out; echo err >&2; sleep 7205")
    first = await workspace.start(command, show)
    second = await workspace.start(
        ProcessSpec(argv="trap '' TERM; sleep 7206"), lambda stream, data: None
    )
    await complete.wait()
    assert sorted(seen) == [("stderr", b"err\n"), ("stdout", b"out\n")]
    assert (await first.kill()).signal == "SIGTERM"
    assert not sleeping("7205")
    await workspace.aclose()
    assert (await second.wait()).signal == "SIGKILL"
    assert not sleeping("7206")


def engine_processes() -> list[str]:
    """Return the arguments and environment of the processes of the engine."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            texts = [(path / name).read_text("utf-8", "replace") for name in ("cmdline", "environ")]
        except OSError:
            continue  # the process has ended
        if "podman" in texts[0] or "conmon" in texts[0]:
            found.append("\n".join(texts))
    return found


async def test_secrets_are_in_no_argument(workspace: ContainerWorkspace) -> None:
    spec = ProcessSpec(argv=": hidden-word; echo begun; sleep 7207", env={"KEY": "hidden-value"})
    seen = trio.Event()
    process = await workspace.start(spec, lambda stream, data: seen.set())
    await seen.wait()
    engines = engine_processes()
    assert engines
    assert not any("hidden" in text for text in engines)
    await process.kill()


async def test_many_operations_run_at_once(workspace: ContainerWorkspace) -> None:
    results: dict[int, bytes] = {}

    async def one(number: int) -> None:
        await workspace.write(f"{number}/file", str(number).encode())
        results[number] = (await workspace.read(f"{number}/file")).data
        if number < 3:
            results[number] = (await run(workspace, f"cat {number}/file")).stdout

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    assert results == {number: str(number).encode() for number in range(20)}


class _CancelAt(trio.abc.Instrument):
    """Cancels a scope at one step of the tasks."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope = scope
        self._steps = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps -= 1
        if self._steps == 0:
            self._scope.cancel()


def check_and_remove_written(root: Path) -> None:
    """Check that a write has left nothing or the complete file, and remove it."""
    assert not list(root.rglob(".agent-actors-*"))
    written = root / "new/directory"
    if written.exists():
        assert [(path.name, path.stat().st_size) for path in written.iterdir()] == [
            ("file", 100_000)
        ]
        shutil.rmtree(written)


@pytest.mark.parametrize("operation", ["write", "grep", "exec"])
async def test_cancelled_step_leaves_nothing(
    workspace: ContainerWorkspace, tmp_path: Path, operation: str
) -> None:
    old = {f"new/{operation}.txt": b"old"}

    async def perform() -> None:
        match operation:
            case "write":
                await workspace.write("new/directory/file", b"x" * 100_000)
            case "grep":
                await workspace.grep(GrepQuery(pattern="old"))
            case _:
                await run(workspace, "sleep 7208 & sleep 7208 & cat > /dev/null", stdin=b"x" * 9999)

    for name, data in old.items():
        await workspace.write(name, data)
    step, cancelled = 0, True
    while cancelled:
        step += 1 if operation != "exec" else 4
        with trio.CancelScope() as scope:
            instrument = _CancelAt(scope, step)
            trio.lowlevel.add_instrument(instrument)
            try:
                await perform()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        cancelled = scope.cancelled_caught
        check_and_remove_written(tmp_path)
        assert (await workspace.read(next(iter(old)))).data == b"old"
        assert not sleeping("7208")
    assert step > 5


# Limits.


@pytest.fixture
async def limited(engine: None) -> AsyncIterator[ContainerWorkspace]:
    limits = ProcessLimits(processes=30, memory_bytes=64_000_000, file_bytes=1_000_000)
    opened = ContainerWorkspace(IMAGE, engine="podman", limits=limits)
    yield opened
    await opened.aclose()


async def test_limits_end_what_exceeds_them(limited: ContainerWorkspace) -> None:
    """One container for all limits, because its start takes a moment."""
    result = await run(limited, "head -c 2000000 /dev/zero > large; wc -c < large")
    assert result.stdout == b"1000000\n"
    unenforced = " ".join(limited.describe().unenforced)
    if "processes" not in unenforced:
        result = await run(limited, "for i in $(seq 60); do sleep 7209 & done; echo all started")
        assert b"fork" in result.stderr
        assert b"all started" not in result.stdout
        bomb = "bomb() { bomb | bomb & }; bomb; sleep 7209"
        assert (await run(limited, bomb, timeout=0.5)).end.timed_out
        assert not sleeping("7209")
    if "memory" not in unenforced:
        result = await run(limited, "tail -c 1000000000 /dev/zero; exit $?")
        assert result.end.signal == "SIGKILL"
    assert (await run(limited, "echo alive")).stdout == b"alive\n"


def test_processes_belong_to_their_command() -> None:
    rows = [
        "10 0 aaaa",  # a command
        "11 10 aaaa",
        "12 1 ",  # an orphan without environment
        "20 0 bbbb",  # another command
        "21 20 ",  # its child without environment
        "30 0 ",  # a shell that a person has started
        "31 30 ",
        "40 1 dddd",  # left over from an earlier command
        "not a row",
    ]
    table = "\n".join(rows)
    assert sorted(processes_to_end(table, {"bbbb"})) == [10, 11, 40]
    assert sorted(processes_to_end(table, set())) == [10, 11, 12, 20, 21, 40]


# The life of a container.


async def test_container_lives_from_first_use_to_close(engine: None, tmp_path: Path) -> None:
    mounts: dict[str | os.PathLike[str], str] = {tmp_path: "/project", "/usr": "/host:ro"}
    workspace = ContainerWorkspace(
        IMAGE, "/project", engine="podman", mounts=mounts, allowed_paths=["/tmp", "/host"]
    )
    name = workspace.container.name
    assert name not in containers()
    (tmp_path / "in.txt").write_text("in")
    assert (await workspace.read("/project/in.txt")).data == b"in"
    info = await workspace.write("/tmp/out.txt", b"out")
    assert info.path == "/tmp/out.txt"
    with pytest.raises(WorkspaceError, match="read-only"):
        await workspace.write("/host/out.txt", b"out")
    assert name in containers()
    report = workspace.describe()
    assert (report.kind, report.processes, report.network) == ("podman", "sandboxed", False)
    assert (report.root, report.allowed_paths) == ("/project", ("/tmp", "/host"))
    assert report.limits == ProcessLimits()
    await workspace.aclose()
    await workspace.aclose()
    assert name not in containers()
    with pytest.raises(WorkspaceError, match="closed"):
        await workspace.exec(ProcessSpec(argv="true"))


async def test_ended_container_is_reported(engine: None) -> None:
    workspace = ContainerWorkspace(IMAGE, engine="podman")
    await workspace.stat(".")
    program = workspace.container.engine.program
    await trio.run_process([program, "kill", workspace.container.name], capture_stdout=True)
    for call in (lambda: workspace.stat("."), lambda: run(workspace, "true")):
        with pytest.raises(WorkspaceError, match="has ended") as caught:
            await call()
        assert caught.value.reason == "unavailable"
    await workspace.aclose()
    assert workspace.container.name not in containers()


@pytest.mark.parametrize(
    ("image", "workdir", "message"),
    [
        ("Not an Image", "/w", "invalid reference format"),
        (IMAGE, "/bin/busybox/w", "cannot be used"),
    ],
)
async def test_unusable_container_is_an_error(
    engine: None, image: str, workdir: str, message: str
) -> None:
    workspace = ContainerWorkspace(image, workdir, engine="podman")
    with pytest.raises(WorkspaceError, match=message) as caught:
        await workspace.stat(".")
    assert caught.value.reason == "unavailable"
    await workspace.aclose()


PROGRAM = """
import sys, trio
from agent_actors.domain.workspace.processes import ProcessSpec
from agent_actors.toolbox.workspace.container.workspace import ContainerWorkspace

async def main():
    workspace = ContainerWorkspace(sys.argv[1], engine="podman")
    spec = ProcessSpec(argv="echo begun; setsid sleep 7210 & sleep 7210")
    show = lambda stream, data: print(workspace.container.name, flush=True)
    await workspace.start(spec, show)
    await trio.sleep_forever()

trio.run(main)
"""


def test_killed_program_leaves_no_container(engine: None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, IMAGE], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        name = program.stdout.readline().strip()
        assert name in containers()
        program.send_signal(signal.SIGKILL)
    for _ in range(500):
        if not sleeping("7210"):
            break
        time.sleep(0.02)
    else:
        pytest.fail("a process outlived the program")
    trio.run(attrs.evolve(find_engine("podman")).remove_abandoned)
    assert name not in containers()


@pytest.mark.parametrize(
    ("part", "value", "removed"),
    [
        (0, "another-name", False),
        (1, "another-machine", False),
        (2, "earlier-boot", Path("/etc/machine-id").is_file()),
        (3, "1", False),  # another namespace of process ids
        (5, "1", True),  # the process id has been used again
        (5, None, False),  # this process
    ],
)
async def test_containers_of_living_programs_stay(
    docker: Path, tmp_path: Path, part: int, value: str | None, removed: bool
) -> None:
    engine = find_engine("docker")
    spec = ContainerSpec(
        image="x", mounts=(), limits=ProcessLimits(), network=False, read_only=False, user=""
    )
    label = next(text for text in engine.run_arguments("x", spec, ()) if "owner=" in text)
    parts = label.split("/")
    parts[part] = parts[part] if value is None else value
    if part == 0 and value is not None:
        parts[0] = f"agent-actors.owner={value}"
    log = tmp_path / "removed"
    script = f"case $1 in ps) echo 'old a=b,{'/'.join(parts)},c=d' ;; rm) echo $4 > {log} ;; esac"
    make_program(tmp_path / "docker", f"#!/bin/sh\n{script}\n")
    await engine.remove_abandoned()
    assert (log.read_text() == "old\n" if log.exists() else False) == removed


# Engines and settings.


FAKE = """#!/bin/sh
case $1 in
  info) echo '{}' ;;
  run)
    while [ "$1" != -c ]; do shift; done
    PATH=$PATH_OF_FAKES:$PATH exec /bin/sh "$@"
    ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install an engine that runs the helper on this machine, and finds programs here first."""
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    make_program(tmp_path / "docker", FAKE.replace("$PATH_OF_FAKES", str(fakes)))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    find_engine.cache_clear()
    yield fakes
    find_engine.cache_clear()


def make_program(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)


async def test_output_of_container_is_not_trusted(docker: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    workspace = ContainerWorkspace("image", str(root), engine="docker")
    await workspace.write("file", b"text")
    query = GrepQuery(pattern="text")
    assert len((await workspace.grep(query)).matches) == 1
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("../evil", str(tmp_path / "evil"), "other"):
            tar.add(root / "file", name)
    make_program(docker / "tar", f"#!/bin/sh\ncat {archive}\n")
    assert (await workspace.grep(query)).matches == ()
    make_program(docker / "tar", "#!/bin/sh\necho no archive\n")
    with pytest.raises(WorkspaceError, match="did not send an archive"):
        await workspace.grep(query)
    make_program(docker / "stat", "#!/bin/sh\necho 1 2 3\n")
    with pytest.raises(WorkspaceError, match="invalid reply"):
        await workspace.read("file")
    assert not (tmp_path / "evil").exists()
    unenforced = " ".join(workspace.describe().unenforced)
    assert "memory: " in unenforced
    assert "processes: docker cannot limit" in unenforced
    await workspace.aclose()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "program docker was not found; install the system package"),
        ("echo Cannot connect to the Docker daemon >&2; exit 1", "Cannot connect to the Docker"),
        ("echo no JSON", "output of `info` was not understood"),
    ],
)
def test_unusable_engine_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, message: str
) -> None:
    if script is not None:
        make_program(tmp_path / "docker", f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkspaceError, match=message) as caught:
        ContainerWorkspace("python:3.13", engine="docker")
    assert caught.value.reason == "unavailable"


def test_wrong_arguments_are_refused(engine: None) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"engine": "lxc"}, "engine must be 'docker' or 'podman'"),
        ({"image": "--privileged"}, "image must be the name"),
        ({"network": ("example.com",)}, "cannot restrict the network to some hosts"),
        ({"workdir": "work"}, "absolute paths in the container"),
        ({"workdir": "/"}, "absolute paths in the container"),
        ({"workdir": "/a/../b"}, "absolute paths in the container"),
        ({"workdir": "/proc/self/cwd"}, "files of the kernel"),
        ({"mounts": {".": "work"}}, "needs an absolute path in the container"),
        ({"mounts": {"a,b": "/work"}}, "contains a comma"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ConfigError, match=message):
            build(**{"image": IMAGE, "engine": "podman", **arguments})


def test_table_describes_a_container(engine: None, tmp_path: Path) -> None:
    table = {"type": "podman", "image": IMAGE, "workdir": "/w", "mounts": {"src": "/w"}}
    config = as_workspace(table)
    assert isinstance(config, WorkspaceConfig)
    workspace = make_workspace(config, tmp_path)
    assert isinstance(workspace, ContainerWorkspace)
    (mount,) = workspace.container.spec.mounts
    assert (mount.source, mount.target) == (str(tmp_path / "src"), "/w")
    assert workspace.describe().root == "/w"
