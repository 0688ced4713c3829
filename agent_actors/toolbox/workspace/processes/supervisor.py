"""The program that starts and ends the commands of a workspace. It imports only the stdlib.

The runtime starts this program once per workspace. A separate process has three advantages. It has
one thread, so it can fork and set limits safely. It learns about the end of the runtime, even by
SIGKILL, because the kernel closes the sockets of a process that has ended. And its commands do not
die with a worker thread of the runtime, which is what `PR_SET_PDEATHSIG` would mean there.

For each command, the supervisor forks a *guardian*. The guardian starts the command, waits for its
end and reports it. It adopts all processes that the command leaves behind, so that it can end them
too. The guardian and the runtime share a socket, the *lifeline*:

- The guardian sends one line of JSON when the command has started, or cannot be started, and one
  when it has ended.
- The runtime sends `T` to ask all processes of the command to end (SIGTERM), and `K` to kill them.
- If the runtime closes its side, the guardian kills all processes and ends. It does so even if the
  supervisor has been killed.

A request is one packet on the control socket: a byte, and the descriptors of a file with the
request, the lifeline, the three standard streams and the working directory.

If a sandbox may reach some hosts, the guardian opens a listening socket in the sandbox's network
namespace before the command starts. It sends the socket to the runtime, with the first line.
"""

import array
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from typing import TypedDict

DESCRIPTORS = 6
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIMITS = {
    "cpu_seconds": resource.RLIMIT_CPU,
    "memory_bytes": resource.RLIMIT_AS,
    "file_bytes": resource.RLIMIT_FSIZE,
}
# In the arguments of the sandbox program: the descriptor to which it writes its process id, and the
# descriptor on which it waits before it starts the command.
INFO = "{info}"
BLOCK = "{block}"
# From linux/nsfs.h and linux/in.h.
_NS_GET_USERNS = 0xB701
_IP_FREEBIND = 15
# Seconds between two rounds of killing, for processes that fork faster than they are killed.
_ROUND = 0.002
# How often the end of a sandbox program is looked for.
_ENDINGS = 500
# How often the removal of a cgroup is attempted.
_REMOVALS = 250
# The number of connections to the proxy that wait to be accepted.
_BACKLOG = 128
_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl


class Request(TypedDict):
    """A command to execute; see `lifeline.Launch`."""

    argv: list[str]
    env: dict[str, str]
    limits: dict[str, int]
    data: dict[str, str]
    user: int | None
    group: int | None
    sandbox_processes: int
    cgroups: dict[str, dict[str, str]]
    listen_port: int


def main(control_fd: int) -> None:
    """Fork a guardian for each request, until the runtime closes the control socket."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the runtime
    signal.signal(signal.SIGCHLD, _reap_all)
    with socket.socket(fileno=control_fd) as control:
        while True:
            data, fds = _received(control, 1)
            if not data:
                break
            if len(fds) == DESCRIPTORS and os.fork() == 0:
                control.close()
                _as_guardian(fds)
            for fd in fds:
                os.close(fd)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # The guardians end by themselves, because the runtime has closed their lifelines.
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _received(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive descriptors; `socket.recv_fds` would let the commands inherit them."""
    fds = array.array("i")
    room = socket.CMSG_LEN(DESCRIPTORS * fds.itemsize)
    data, ancillary, _, _ = sock.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
    for _, kind, content in ancillary:
        if kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) // fds.itemsize * fds.itemsize])
    return data, list(fds)


def _reap_all(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _wake(*_: object) -> None:
    """Receive a signal, so that Python writes to the wakeup descriptor."""


def _as_guardian(fds: list[int]) -> None:
    """Guard one command, in a forked process that never returns."""
    status = 1
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        request_fd, lifeline_fd, *streams, directory = fds
        with open(request_fd, "rb") as file:
            request: Request = json.load(file)
        with socket.socket(fileno=lifeline_fd) as lifeline:
            _Guardian(request, lifeline).guard(streams, directory)
        status = 0
    finally:
        os._exit(status)


class _StartError(Exception):
    """The command cannot be started."""


class _Guardian:
    """Starts one command, reports its end, and ends its processes."""

    def __init__(self, request: Request, lifeline: socket.socket) -> None:
        self._request = request
        self._lifeline = lifeline
        self._leader = 0
        self._begun = time.monotonic()
        self._cgroups: list[str] = []

    def guard(self, streams: list[int], directory: int) -> None:
        """Run the command, and return when all of its processes have ended."""
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, _wake)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        try:
            self._make_cgroups()
            listener = self._start(streams, directory)
            for fd in (*streams, directory):
                os.close(fd)
            self._send({"pid": self._leader, "listens": listener is not None}, listener)
            self._watch(wake)
        except (_StartError, OSError) as error:
            self._leader = 0
            self._kill_all()
            self._send({"error": _reason(error)})
        finally:
            self._kill_all()
            self._remove_cgroups()

    def _watch(self, wake: int) -> None:
        """Report the end of the command and obey the runtime, until the runtime leaves."""
        while True:
            ready, _, _ = select.select([self._lifeline.fileno(), wake], [], [])
            if wake in ready:
                os.read(wake, 4096)
                self._reap()
            if self._lifeline.fileno() in ready and not self._obey():
                return

    def _start(self, streams: list[int], directory: int) -> "socket.socket | None":
        """Start the command; return the listening socket if the request asks for one.

        Raises:
            _StartError: The command cannot be started.
        """
        port = self._request["listen_port"]
        if not port:
            self._fork(streams, directory, {})
            return None
        info_reader, info_writer = os.pipe2(os.O_CLOEXEC)
        block_reader, block_writer = os.pipe2(os.O_CLOEXEC)
        try:
            self._fork(streams, directory, {INFO: info_writer, BLOCK: block_reader})
            os.close(info_writer)
            pid = self._sandbox_pid(info_reader)
            return None if pid is None else self._listen(pid)
        finally:
            os.close(block_writer)  # the command starts now

    def _listen(self, pid: int) -> "socket.socket | None":
        try:
            return _listen_inside(pid, self._request)
        except _StartError:
            if self._ends_soon():
                return None  # the sandbox program failed; its message is the output of the command
            raise

    def _sandbox_pid(self, info_reader: int) -> int | None:
        """Read the id of the first process in the sandbox; None if the sandbox program failed."""
        text = b""
        while True:
            ready, _, _ = select.select([info_reader, self._lifeline.fileno()], [], [])
            if self._lifeline.fileno() in ready:
                raise _StartError("it was ended before it had started")
            data = os.read(info_reader, 4096)
            if not data:
                return None
            text += data
            with contextlib.suppress(ValueError):  # not complete yet
                return int(json.loads(text)["child-pid"])

    def _ends_soon(self) -> bool:
        """Return whether the sandbox program has ended, or ends within a second."""
        for _ in range(_ENDINGS):
            if os.waitid(os.P_PID, self._leader, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return True
            time.sleep(_ROUND)
        return False

    def _fork(self, streams: list[int], directory: int, handed: Mapping[str, int]) -> None:
        """Fork and execute the command.

        Raises:
            _StartError: The command cannot be executed.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self._leader = os.fork()
        if self._leader == 0:
            try:
                for cgroup in self._cgroups:
                    _write(f"{cgroup}/cgroup.procs", "0")
                _execute(self._request, streams, directory, handed)
            except Exception as error:  # noqa: BLE001 - the runtime raises it
                os.write(writing, _reason(error).encode("utf-8", "replace")[:4000])
            finally:
                os._exit(127)
        os.close(writing)
        with open(reading, "rb") as file:
            why = file.read().decode("utf-8", "replace")
        if why:
            raise _StartError(why)

    def _make_cgroups(self) -> None:
        for parent, values in self._request["cgroups"].items():
            path = f"{parent}/agent-actors-{os.getpid()}"
            os.mkdir(path)
            self._cgroups.append(path)
            for name, value in values.items():
                if os.path.exists(f"{path}/{name}"):  # swap may not be accounted
                    _write(f"{path}/{name}", value)

    def _remove_cgroups(self) -> None:
        for path in self._cgroups:
            for _ in range(_REMOVALS):
                try:
                    os.rmdir(path)
                except OSError:  # the kernel has not released the last process yet
                    time.sleep(_ROUND)
                else:
                    break

    def _obey(self) -> bool:
        """Carry out an order of the runtime; return False once the runtime has left."""
        try:
            order = self._lifeline.recv(1)
        except OSError:
            return False
        if order == b"T":
            self._terminate()
        elif order == b"K":
            self._kill_all()
        return bool(order)

    def _terminate(self) -> None:
        # A sandbox program would end its sandbox with SIGKILL, so only the processes inside get
        # the signal.
        own = self._request["sandbox_processes"]
        inside = [pid for pid, generation in _descendants(os.getpid()) if generation > own]
        for pid in inside:
            _send_signal(pid, signal.SIGTERM)
        if not inside:  # the sandbox has not started the command yet
            self._kill_all()

    def _kill_all(self) -> None:
        while True:
            found = _descendants(os.getpid())
            for pid, _ in found:
                _send_signal(pid, signal.SIGKILL)
            self._reap()
            if not found:
                return
            time.sleep(_ROUND)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._leader:
                self._leader = 0
                self._send(
                    {
                        "exit": os.waitstatus_to_exitcode(status),
                        "duration": time.monotonic() - self._begun,
                        "cpu": usage.ru_utime + usage.ru_stime,
                        "memory": usage.ru_maxrss * 1024,
                    }
                )

    def _send(self, message: Mapping[str, object], passed: "socket.socket | None" = None) -> None:
        line = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(OSError):  # the runtime has left
            if passed is None:
                self._lifeline.sendall(line)
            else:
                with passed:
                    socket.send_fds(self._lifeline, [line], [passed.fileno()])


def _listen_inside(pid: int, request: Request) -> socket.socket:
    """Listen on the loopback address in the network namespace of a process.

    Raises:
        _StartError: That is not possible.
    """
    ours, theirs = socket.socketpair()
    # A forked process enters the namespace, because the guardian could not return from it.
    if os.fork() == 0:
        try:
            _change_user(request)
            with _entered_and_listening(pid, request["listen_port"]) as listener:
                socket.send_fds(theirs, [b"\n"], [listener.fileno()])
        except Exception as error:  # noqa: BLE001 - the guardian raises it
            theirs.sendall(_reason(error).encode("utf-8", "replace")[:4000])
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        data, fds = _received(ours, 4096)
    if not fds:
        why = data.decode("utf-8", "replace")
        raise _StartError(f"its network namespace cannot be entered: {why}")
    return socket.socket(fileno=fds[0])


def _entered_and_listening(pid: int, port: int) -> socket.socket:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    # Only a member of the user namespace that owns the network namespace may enter the latter. The
    # first call fails if that is our own user namespace, so we never listen outside a sandbox.
    owner = fcntl.ioctl(network, _NS_GET_USERNS)
    for namespace in (owner, network):
        if _libc.setns(namespace, 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # The loopback interface may not be up yet.
    listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


def _change_user(request: Request) -> None:
    user, group = request["user"], request["group"]
    if user is not None and group is not None:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _execute(
    request: Request, streams: list[int], directory: int, handed: Mapping[str, int]
) -> None:
    """Replace this process by the command."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for target, fd in enumerate(streams):
        os.dup2(fd, target)
    os.fchdir(directory)
    argv = [_passed(item, request["data"], handed) for item in request["argv"]]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, limit in request["limits"].items():
        _, hard = resource.getrlimit(_LIMITS[name])
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(_LIMITS[name], (value, value))
    _change_user(request)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of the user clears it
    os.execvpe(argv[0], argv, request["env"])


def _passed(item: str, data: Mapping[str, str], handed: Mapping[str, int]) -> str:
    """Replace the name of a text or of a descriptor by the number of a descriptor."""
    if item in handed:
        os.set_inheritable(handed[item], True)
        return str(handed[item])
    if item not in data:
        return item
    fd = os.memfd_create("data", 0)
    os.write(fd, data[item].encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return str(fd)


def _reason(error: BaseException) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found.extend(map(int, file.read().split()))
    return found


def _descendants(pid: int) -> list[tuple[int, int]]:
    """Return the processes below a process, each with its generation; a child has generation 1."""
    found: list[tuple[int, int]] = []
    pending = [(pid, 0)]
    while pending:
        parent, generation = pending.pop()
        children = [(child, generation + 1) for child in _children(parent)]
        found += children
        pending += children
    return found


def _send_signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    main(int(sys.argv[1]))
