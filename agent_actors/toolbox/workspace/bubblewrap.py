"""`BubblewrapWorkspace`: files as in a local workspace, and commands in a bubblewrap sandbox."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from agent_actors.abc.workspace import WorkspaceProcess
from agent_actors.domain.workspace.files import FileLimits
from agent_actors.domain.workspace.processes import (
    OutputStream,
    ProcessLimits,
    ProcessResult,
    ProcessSpec,
)
from agent_actors.domain.workspace.report import MemoryLimit, Network, WorkspaceReport
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.toolbox.workspace.local.confined import DEFAULT_LIMITS, ConfinedFiles
from agent_actors.toolbox.workspace.local.protection import PROTECTED, protected_files
from agent_actors.toolbox.workspace.network.proxy import PROXY_PORT, VARIABLES, HostProxy
from agent_actors.toolbox.workspace.processes.cgroups import find_cgroups
from agent_actors.toolbox.workspace.processes.environment import SANDBOX_HOME, sandbox_environment
from agent_actors.toolbox.workspace.processes.lifeline import Launch
from agent_actors.toolbox.workspace.processes.runner import (
    MEMORY_PER_PROCESS,
    Directory,
    SupervisedProcesses,
    argv_of,
    limits_of,
)
from agent_actors.toolbox.workspace.processes.supervisor import BLOCK, INFO

_LIMITS: Final = ProcessLimits()
# Every namespace, so that a command sees only its own processes, users, mounts and messages.
# `--die-with-parent` refers to the guardian, which has one thread.
_ISOLATION: Final = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--disable-userns",
    "--new-session",
    "--die-with-parent",
    "--hostname",
    "sandbox",
    "--cap-drop",
    "ALL",
)
_LIBRARIES: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/pki",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
_ETC_NETWORK: Final = ("/etc/hosts", "/etc/resolv.conf")
# Files of the kernel that root may write even without any capability.
_KERNEL: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
_PASSWD: Final = "{passwd}"
_GROUP: Final = "{group}"
# dash calls the limit of processes `-p`, other shells `-u`.
_LIMITED: Final = 'ulimit -u "$0" 2>/dev/null || ulimit -p "$0" 2>/dev/null; exec "$@"'
_PROBE_SECONDS: Final = 20
# bwrap, and its process with the id 1 in the sandbox.
_OVERHEAD: Final = 2


class BubblewrapWorkspace(ConfinedFiles):
    """A workspace whose commands run in a sandbox; implements `abc.Workspace`. Needs Linux.

    Commands see the root, the allowed paths, the programs and libraries of `/usr`, and a few files
    of `/etc`. They see no other files, no processes outside the sandbox, and by default no network.
    Their home directory and `/tmp` are empty and are discarded when the command ends. Environment
    variables are removed, except for the locale and the time zone.

    Args:
        root: The root directory, which has the same path inside the sandbox.
        allowed_paths: Other directories whose files may be used, by their absolute paths.
        read_only: True if neither file operations nor commands may change anything.
        protected: The patterns of files that cannot be changed; `()` for none.
        network: True if commands may use the network of this machine; or the hosts that they may
            reach, such as `["pypi.org", "*.pythonhosted.org"]`, through a proxy that the variables
            `http_proxy` and `https_proxy` name. Only ports 80 and 443 of public addresses can be
            reached then.
        limits: The limits of each command.
        file_limits: The limits of file operations.

    Raises:
        WorkspaceError: A directory cannot be opened; or `bwrap` is not installed or cannot create a
            sandbox (reason `unavailable`). Commands are never run without a sandbox instead.
        ConfigError: `network` contains something else than hosts.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        allowed_paths: Iterable[str | os.PathLike[str]] = (),
        *,
        read_only: bool = False,
        protected: Iterable[str] = PROTECTED,
        network: bool | Sequence[str] = False,
        limits: ProcessLimits = _LIMITS,
        file_limits: FileLimits = DEFAULT_LIMITS,
    ) -> None:
        program = find_bubblewrap()
        super().__init__(
            root, allowed_paths, read_only=read_only, protected=protected, limits=file_limits
        )
        self.network: Network = _as_network(network)
        self._processes = _SandboxedProcesses(self, program, limits)

    async def exec(self, spec: ProcessSpec) -> ProcessResult:
        """See `Workspace.exec`."""
        async with self.directory(spec.cwd) as directory:
            return await self._processes.exec(spec, directory)

    async def start(
        self, spec: ProcessSpec, on_output: Callable[[OutputStream, bytes], None]
    ) -> WorkspaceProcess:
        """See `Workspace.start`."""
        async with self.directory(spec.cwd) as directory:
            return await self._processes.start(spec, directory, on_output)

    def describe(self) -> WorkspaceReport:
        """See `Workspace.describe`."""
        newest, refused = self.refusals()
        return WorkspaceReport(
            kind="bubblewrap",
            root=self.root,
            allowed_paths=self.allowed_paths,
            read_only=self.read_only,
            protected=self.protected,
            processes="sandboxed",
            network=self.network,
            limits=self._processes.limits,
            memory_limit=self._processes.memory_limit(),
            unenforced=self._processes.unenforced(),
            refusals=newest,
            refused=refused,
        )

    def refuse_host(self, host: str, why: str) -> None:
        """Record a host that a command tried to reach and that is not allowed."""
        self.refuse("connect", WorkspaceError(why, reason="refused", path=host))

    async def aclose(self) -> None:
        """See `Workspace.aclose`."""
        await self._processes.aclose()
        await super().aclose()


class _SandboxedProcesses(SupervisedProcesses):
    """Runs commands with `bwrap`.

    Args:
        workspace: The workspace.
        program: The path of `bwrap`.
        limits: The limits of each command.
    """

    def __init__(self, workspace: BubblewrapWorkspace, program: str, limits: ProcessLimits) -> None:
        hosts = workspace.network
        proxy = None if isinstance(hosts, bool) else HostProxy(hosts, workspace.refuse_host)
        super().__init__(limits, proxy=proxy)
        self._cgroups = find_cgroups()
        self._workspace = workspace
        self._program = program
        owner = Path(workspace.root).stat()
        # The kernel does not limit the number of root's processes. If the files belong to somebody
        # else, commands run as that user.
        switches = os.geteuid() == 0 and owner.st_uid != 0
        self._user = (owner.st_uid, owner.st_gid) if switches else None

    def unenforced(self) -> tuple[str, ...]:
        """Return the limits that this machine does not enforce; see `WorkspaceReport`."""
        found = ["protected: commands can create missing protected files, and change nested ones"]
        if not self._cgroups.memory:
            found.append(MEMORY_PER_PROCESS)
        if os.geteuid() == 0 and self._user is None and not self._cgroups.pids:
            found.append("processes: this program and the files of the workspace belong to root")
        return tuple(found)

    def memory_limit(self) -> MemoryLimit:
        """Return what the limit of memory applies to."""
        per_command = self._cgroups.memory and self.limits.memory_bytes is not None
        return "per_command" if per_command else super().memory_limit()

    def launch_of(self, spec: ProcessSpec, directory: Directory) -> Launch:
        """Return what the supervisor executes: `bwrap` with the command."""
        uid, gid = self._user or (os.getuid(), os.getgid())
        command = argv_of(spec)
        if self.limits.processes is not None and not self._cgroups.pids:
            # Outside the sandbox, a limit would count all processes of the user.
            command = ("/bin/sh", "-c", _LIMITED, str(self.limits.processes), *command)
        limits = limits_of(self.limits)
        if self._cgroups.memory:
            limits.pop("memory_bytes", None)
        proxy: tuple[str, ...] = ()
        variables = spec.env
        if self._proxy is not None:
            proxy = ("--info-fd", INFO, "--block-fd", BLOCK)
            variables = {**VARIABLES, **spec.env}
        return Launch(
            # Nothing secret may be in the arguments, which other users of the machine can read.
            argv=(self._program, *proxy, *self._mounts(directory), "--", *command),
            env=sandbox_environment(variables),
            limits=limits,
            data={
                _PASSWD: f"root:x:0:0:::\nagent:x:{uid}:{gid}:agent:{SANDBOX_HOME}:/bin/sh\n",
                _GROUP: f"root:x:0:\nagent:x:{gid}:\n",
            },
            user=self._user,
            sandbox_processes=_OVERHEAD,
            cgroups=self._cgroups.values_of(self.limits, _OVERHEAD),
            listen_port=0 if self._proxy is None else PROXY_PORT,
        )

    def _mounts(self, directory: Directory) -> Iterator[str]:
        workspace = self._workspace
        yield from _ISOLATION
        if workspace.network is not True:
            yield "--unshare-net"
        yield from ("--ro-bind", "/usr", "/usr")
        for library in map(Path, _LIBRARIES):
            if library.is_symlink():
                yield from ("--symlink", str(library.readlink()), str(library))
            else:
                yield from ("--ro-bind-try", str(library), str(library))
        for name in (*_ETC, *(_ETC_NETWORK if workspace.network is True else ())):
            yield from ("--ro-bind-try", os.path.realpath(name), name)
        yield from ("--ro-bind-data", _PASSWD, "/etc/passwd")
        yield from ("--ro-bind-data", _GROUP, "/etc/group")
        yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
        for name in _KERNEL:
            yield from ("--ro-bind-try", name, name)
        yield from ("--tmpfs", SANDBOX_HOME)
        bind = "--ro-bind" if workspace.read_only else "--bind"
        for root in (*workspace.allowed_paths, workspace.root):
            yield from (bind, root, root)
        if not workspace.read_only:
            yield from self._protections()
        yield from ("--remount-ro", "/", "--chdir", directory.path)

    def _protections(self) -> Iterator[str]:
        """Yield mounts that keep commands from changing or moving the protected files."""
        workspace = self._workspace
        for root in (workspace.root, *workspace.allowed_paths):
            for path, pinned in protected_files(Path(root), workspace.protected):
                yield from ("--bind" if pinned else "--ro-bind", str(path), str(path))


def _as_network(value: bool | Sequence[str]) -> Network:
    """Return the network rule of a sandbox.

    Raises:
        ConfigError: The value is neither a boolean nor a sequence of hosts.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        raise ConfigError(
            f"network must be True, False or a sequence of hosts; got {value!r:.80}. Write "
            f"[{value!r:.80}]"
        )
    return tuple(value)


@cache
def find_bubblewrap() -> str:
    """Return the path of `bwrap`, after creating a sandbox with it once per process.

    Raises:
        WorkspaceError: It is not installed, or cannot create a sandbox (reason `unavailable`).
    """
    program = shutil.which("bwrap")
    if program is None:
        raise WorkspaceError(
            "the program bwrap was not found; install the system package `bubblewrap`",
            reason="unavailable",
        )
    argv = [program, *_ISOLATION, "--unshare-net", "--ro-bind", "/", "/", "--", "/bin/true"]
    try:
        done = subprocess.run(
            argv, capture_output=True, check=False, timeout=_PROBE_SECONDS, env={}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    else:
        if done.returncode == 0:
            return program
        why = done.stderr.decode("utf-8", "replace").strip()
    raise WorkspaceError(
        f"bwrap cannot create a sandbox on this machine: {why}. Unprivileged user namespaces must "
        "be allowed",
        reason="unavailable",
    )
