"""The engines of containers, Docker and Podman, by their command lines."""

import json
import logging
import os
import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

import attrs
import trio

from agent_actors.domain.workspace.processes import ProcessLimits
from agent_actors.errors import ConfigError, WorkspaceError

EngineName: TypeAlias = Literal["docker", "podman"]
ENGINES: Final[tuple[EngineName, ...]] = ("docker", "podman")

_LABEL: Final = "agent-actors.owner"
_PROBE_SECONDS: Final = 30
_COMMAND_SECONDS: Final = 60.0
_MESSAGE: Final = 2_000
# The helper and the programs that it runs count as processes of the container.
_HELPER_PROCESSES: Final = 8
_OWNER: Final = re.compile(rf"{re.escape(_LABEL)}[=:]([^\s,\]]+)")
_ULIMITS: Final = MappingProxyType(
    {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
)
# More than any command needs. The kernel counts `nproc` for all containers of a user.
_MOST: Final = 32_768
_logger: Final = logging.getLogger(__name__)
# The engine's own settings. Everything else in the environment might be a secret.
_VARIABLES: Final = re.compile(
    r"PATH|HOME|USER|LANG|TMPDIR|DBUS_SESSION_BUS_ADDRESS|XDG_[A-Z_]+|DOCKER_[A-Z_]+|"
    r"CONTAINERS?_[A-Z_]+|REGISTRY_AUTH_FILE|SSH_AUTH_SOCK|(HTTPS?|NO|ALL)_PROXY|"
    r"(https?|no|all)_proxy"
)
# The capabilities that installing packages and changing owners of files require.
_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


@attrs.frozen
class Mount:
    """A directory of the engine's machine that the container sees.

    Attributes:
        source: The absolute path on the machine.
        target: The absolute path in the container.
        read_only: True if the container cannot change the directory.
    """

    source: str
    target: str
    read_only: bool = False


@attrs.frozen(kw_only=True)
class ContainerSpec:
    """The container to start.

    Attributes:
        image: The name of the image.
        mounts: The directories of the machine that the container sees.
        limits: The limits of the processes.
        network: True if the container may use the network.
        read_only: True if the files of the image cannot be changed.
        user: The user of all processes, as `uid:gid` or a name; empty for the image's own user.
    """

    image: str
    mounts: tuple[Mount, ...]
    limits: ProcessLimits
    network: bool
    read_only: bool
    user: str


@attrs.define(eq=False)
class Engine:
    """An engine that has answered.

    Attributes:
        name: The name.
        program: The path of its program.
        limits_memory: True if it limits the memory of a container.
        limits_processes: True if it limits the number of processes of a container.
    """

    name: EngineName
    program: str
    limits_memory: bool
    limits_processes: bool
    _swept: bool = attrs.field(default=False, init=False)

    def run_arguments(self, name: str, spec: ContainerSpec, command: Sequence[str]) -> list[str]:
        """Return the command line that runs `/bin/sh` in a new container, attached to it.

        Args:
            name: The name of the container.
            spec: The container.
            command: The arguments of the shell.
        """
        return [
            self.program,
            "run",
            "--interactive",
            "--rm",
            *("--name", name, "--label", f"{_LABEL}={_this_owner()}"),
            *("--hostname", "sandbox", "--workdir", "/", "--log-driver", "none"),
            *("--no-healthcheck", "--security-opt", "no-new-privileges", "--cap-drop", "ALL"),
            *(f"--cap-add={capability}" for capability in _CAPABILITIES),
            *self._limits(spec.limits),
            *(() if spec.network else ("--network", "none")),
            *(("--read-only", "--tmpfs", "/tmp") if spec.read_only else ()),
            *(("--user", spec.user) if spec.user else ()),
            *self._mounts(spec.mounts),
            *("--entrypoint", "/bin/sh", spec.image, *command),
        ]

    def exec_arguments(self, name: str, command_id: str, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command line that runs `/bin/sh` in a container.

        Args:
            name: The name of the container.
            command_id: The id that marks the processes of the command, in their environment.
            command: The arguments of the shell.
        """
        mark = f"AGENT_ACTORS_COMMAND={command_id}"
        return (self.program, "exec", "--interactive", "--env", mark, name, "/bin/sh", *command)

    async def remove(self, names: Iterable[str]) -> None:
        """Remove containers and end their processes, if they still exist."""
        try:
            await self._call("rm", "--force", "--volumes", *names)
        except WorkspaceError as error:
            # Usually, the container has been removed meanwhile.
            _logger.info("%s", error)

    async def remove_abandoned(self) -> None:
        """Remove the containers of programs on this machine that have ended, once per process."""
        if self._swept:
            return
        self._swept = True
        try:
            form = "{{.Names}} {{.Labels}}"
            shown = await self._call("ps", "--all", "--filter", f"label={_LABEL}", "--format", form)
        except WorkspaceError as error:
            _logger.warning("cannot look for containers of programs that have ended: %s", error)
            return
        found = (line.partition(" ") for line in shown.splitlines())
        abandoned = [name for name, _, labels in found if _is_abandoned(labels)]
        if abandoned:
            _logger.warning("removing containers of programs that have ended: %s", abandoned)
            await self.remove(abandoned)

    async def _call(self, *arguments: str) -> str:
        with trio.move_on_after(_COMMAND_SECONDS):
            done = await trio.run_process(
                [self.program, *arguments],
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                env=engine_environment(),
            )
            if done.returncode == 0:
                return done.stdout.decode("utf-8", "replace")
            why = done.stderr[-_MESSAGE:].decode("utf-8", "replace").strip()
            raise _unavailable(f"`{self.name} {arguments[0]}` failed: {why}")
        raise _unavailable(
            f"`{self.name} {arguments[0]}` did not end within {_COMMAND_SECONDS:.0f} s"
        )

    def _limits(self, limits: ProcessLimits) -> list[str]:
        found = ["--ulimit=core=0:0"]
        if self.name == "podman":
            # Podman asks for more by default than some machines allow, and passes on proxies, whose
            # addresses may contain passwords.
            for name, number in _ULIMITS.items():
                _, hard = resource.getrlimit(number)
                most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
                found.append(f"--ulimit={name}={most}:{most}")
            found.append("--http-proxy=false")
        if limits.file_bytes is not None:
            found.append(f"--ulimit=fsize={limits.file_bytes}:{limits.file_bytes}")
        if limits.memory_bytes is not None and self.limits_memory:
            found += [f"--memory={limits.memory_bytes}", f"--memory-swap={limits.memory_bytes}"]
        if limits.processes is not None and self.limits_processes:
            found.append(f"--pids-limit={limits.processes + _HELPER_PROCESSES}")
        return found

    @staticmethod
    def _mounts(mounts: Iterable[Mount]) -> list[str]:
        found: list[str] = []
        for mount in mounts:
            fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
            fields += ["readonly"] if mount.read_only else []
            found.append(f"--mount={','.join(fields)}")
        return found


@cache
def find_engine(name: EngineName) -> Engine:
    """Return an engine that has answered on this machine; asks it once per process.

    Raises:
        WorkspaceError: The program is not installed, or the engine does not answer (reason
            `unavailable`).
        ConfigError: There is no engine of this name.
    """
    if name not in ENGINES:
        raise ConfigError(f"engine must be 'docker' or 'podman'; got {name!r:.80}")
    program = shutil.which(name)
    if program is None:
        raise _unavailable(f"the program {name} was not found; install the system package `{name}`")
    try:
        done = subprocess.run(
            [program, "info", "--format", "{{json .}}"],
            capture_output=True,
            check=False,
            timeout=_PROBE_SECONDS,
            env=engine_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unavailable(f"{name} does not answer: {error}") from error
    if done.returncode:
        why = done.stderr[-_MESSAGE:].decode("utf-8", "replace").strip()
        raise _unavailable(f"{name} does not answer: {why}")
    memory, processes = _enforced_limits(done.stdout)
    return Engine(name, program, memory, processes)


def engine_environment() -> dict[str, str]:
    """Return the environment variables that the program of an engine receives."""
    return {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}


def _enforced_limits(info: bytes) -> tuple[bool, bool]:
    """Return whether an engine limits memory and processes, from the output of its `info`."""
    try:
        parsed = cast("Mapping[str, object]", json.loads(info))
        host = cast("Mapping[str, object]", parsed.get("host", {}))  # Podman
        controllers = cast("Sequence[str]", host.get("cgroupControllers") or ())
    except (ValueError, AttributeError) as error:
        raise _unavailable(f"the output of `info` was not understood: {error}") from error
    memory = parsed.get("MemoryLimit") is True or "memory" in controllers
    processes = parsed.get("PidsLimit") is True or "pids" in controllers
    return memory, processes


@cache
def _this_owner() -> str:
    """Return what identifies this process on all machines that may use the same engine.

    The parts are the name and the id of the machine, its boot, the namespace of process ids, the
    process id, and the start of the process.
    """
    machine = Path("/etc/machine-id")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    parts = (
        socket.gethostname(),
        machine.read_text("ascii").strip() if machine.is_file() else "",
        boot,
        str(Path("/proc/self/ns/pid").stat().st_ino),
        str(os.getpid()),
        _started(os.getpid()),
    )
    return "/".join(parts)


def _started(pid: int) -> str:
    """Return the time when a process started, in ticks since the boot; empty if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _is_abandoned(labels: str) -> bool:
    """Return whether a container belongs to a process of this machine that has ended.

    Args:
        labels: All labels of the container: `name=value,…` or `map[name:value …]`.
    """
    found = _OWNER.search(labels)
    name, machine, boot, namespace, _, _ = _this_owner().split("/")
    match found[1].split("/") if found else []:
        case [its_name, its_machine, its_boot, its_namespace, pid, started] if pid.isdecimal():
            if (its_name, its_machine) != (name, machine):
                return False
            if its_boot != boot:
                return bool(machine)  # without an id, it may be another machine of this name
            return its_namespace == namespace and _started(int(pid)) != started
        case _:
            return False


def _unavailable(message: str) -> WorkspaceError:
    return WorkspaceError(message, reason="unavailable")
