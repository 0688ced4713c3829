"""`Container`: one container, which one or several workspaces use."""

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors.domain.workspace.processes import ProcessLimits
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.toolbox.workspace.container.engine import (
    ContainerSpec,
    Engine,
    EngineName,
    Mount,
    engine_environment,
    find_engine,
)
from agent_actors.toolbox.workspace.container.helper import Helper, Reply, shell_arguments
from agent_actors.toolbox.workspace.container.processes import ProcessTable
from agent_actors.toolbox.workspace.local.protection import protected_files
from agent_actors.toolbox.workspace.processes.lifeline import Launch, Supervisor

_LIMITS: Final = ProcessLimits()
# Characters that have a meaning in the engines' option `--mount`.
_SPECIAL: Final = frozenset(',"\n\r\0')
_READ_ONLY: Final = ":ro"
_NAME_BYTES: Final = 8


class Container:
    """A container that starts when it is first used, and ends with its owner.

    The owner is the object that calls `aclose`: a `ContainerWorkspace`, or your program if several
    workspaces share the container, for example those of all sessions of one user. The container
    also ends when the program is killed. It sees no files of the machine except `mounts`, and no
    environment variables.

    Args:
        image: The name of the image. It must contain a POSIX shell, tar and the coreutils.
        engine: The engine: `docker` or `podman`.
        mounts: The directories of this machine that the container sees: the path here, and the
            absolute path in the container. `:ro` at its end makes the directory read-only.
        limits: The limits of the processes. Memory and the number of processes are limited for the
            container as a unit.
        network: True if the container may use the network; False for no network.
        read_only: True if the files of the image and the mounts cannot be changed.
        user: The user of all processes, as `uid:gid` or a name; by default the image's own user.

    Raises:
        WorkspaceError: The engine is not installed, or does not answer (reason `unavailable`).
        ConfigError: An argument is not valid.
    """

    def __init__(
        self,
        image: str,
        *,
        engine: EngineName = "docker",
        mounts: Mapping[str | os.PathLike[str], str] | None = None,
        limits: ProcessLimits = _LIMITS,
        network: bool = False,
        read_only: bool = False,
        user: str = "",
    ) -> None:
        if not image or image.startswith("-"):
            raise ConfigError(f"image must be the name of a container image; got {image!r:.80}")
        if network not in (True, False):
            raise ConfigError(
                "network must be True or False: a container workspace cannot restrict the network "
                f"to some hosts; got {network!r:.80}"
            )
        found = tuple(_mount(os.fspath(path), target) for path, target in (mounts or {}).items())
        self.engine: Engine = find_engine(engine)
        self.spec: ContainerSpec = ContainerSpec(
            image=image,
            mounts=tuple(attrs.evolve(one, read_only=one.read_only or read_only) for one in found),
            limits=limits,
            network=network,
            read_only=read_only,
            user=user,
        )
        self.name: str = f"agent-actors-{secrets.token_hex(_NAME_BYTES)}"
        self._supervisor = Supervisor()
        self.helper: Helper = Helper(self._supervisor)
        self.table: ProcessTable = ProcessTable(self.helper)
        # Held while a file operation takes several requests that must not interleave.
        self.writing: trio.Lock = trio.Lock()
        self._starting = trio.Lock()
        self._protected: tuple[str, ...] = ()
        self._started = False
        self._closed = False

    def protect(self, patterns: Iterable[str]) -> None:
        """Keep commands from changing the files of mounts that patterns name, as of the start."""
        self._protected = tuple(patterns)

    async def ask(self, *words: str, data: bytes = b"", merge: bool = False) -> Reply:
        """Call a function of the helper, after starting the container; see `Helper.ask`."""
        await self.start()
        return await self.helper.ask(*words, data=data, merge=merge)

    async def start(self) -> None:
        """Start the container unless it has been started.

        The first start of a program removes the containers of programs that were killed.

        Raises:
            WorkspaceError: The container cannot be started, or has been closed.

        Cancellation: the container is removed.
        """
        if self._started:
            return
        async with self._starting:
            # Another call may have started the container while this one waited.
            if not self._started:
                await self._start()
                self._started = True

    async def _start(self) -> None:
        if self._closed:
            raise WorkspaceError("the container is closed", reason="unavailable")
        await self.engine.remove_abandoned()
        mounts = await trio.to_thread.run_sync(self._all_mounts)
        spec = attrs.evolve(self.spec, mounts=mounts)
        arguments = self.engine.run_arguments(self.name, spec, shell_arguments(self.helper.token))
        launch = Launch(argv=arguments, env=engine_environment(), limits={})
        try:
            await self.helper.start(launch)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.helper.aclose()
                await self.engine.remove([self.name])
            raise

    async def aclose(self) -> None:
        """End all processes and remove the container; may be repeated.

        Cancellation: ignored, for at most a few seconds.
        """
        self._closed = True
        with trio.CancelScope(shield=True):
            async with self._starting:
                removed = await self.helper.aclose()
                await self._supervisor.aclose()
                if self._started and not removed:
                    await self.engine.remove([self.name])
                self._started = False

    def _all_mounts(self) -> tuple[Mount, ...]:
        """Return the mounts, and further ones that cover protected files in them."""
        found = list(self.spec.mounts)
        for mount in self.spec.mounts:
            if mount.read_only:
                continue
            root = Path(mount.source)
            for path, pinned in protected_files(root, self._protected):
                target = f"{mount.target}/{path.relative_to(root)}"
                if not _SPECIAL.intersection(f"{path}{target}"):
                    found.append(Mount(str(path), target, read_only=not pinned))
        return tuple(found)


def _mount(source: str, target: str) -> Mount:
    path = os.path.abspath(source)  # noqa: PTH100 - pathlib would not remove `..`
    read_only = target.endswith(_READ_ONLY)
    inside = target.removesuffix(_READ_ONLY)
    if not inside.startswith("/") or inside == "/" or ".." in inside.split("/"):
        raise ConfigError(
            f"mounts: {source!r} needs an absolute path in the container, not {target!r:.200}"
        )
    if _SPECIAL.intersection(path + inside):
        raise ConfigError(
            f"mounts: {source!r} cannot be mounted: its path contains a comma, quote or line break"
        )
    return Mount(path, inside.rstrip("/"), read_only)
