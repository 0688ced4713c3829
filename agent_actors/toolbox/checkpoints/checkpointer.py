"""`DirectoryCheckpointer`: checkpoints in a directory of this machine."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import attrs
import trio

from agent_actors.abc.workspace import TreeWorkspace, Workspace
from agent_actors.domain.workspace.trees import (
    Checkpoint,
    FileChange,
    RestorePlan,
    RestoreReport,
    TreeEntry,
)
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.toolbox.checkpoints.directory import CopyDirectory, Place
from agent_actors.toolbox.checkpoints.manifest import (
    Kept,
    Manifest,
    changed_paths,
    shown,
)
from agent_actors.toolbox.checkpoints.planning import (
    IgnoreCheck,
    Step,
    Steps,
    ignore_check,
    is_ignore_file,
    plan_steps,
)
from agent_actors.toolbox.checkpoints.reading import (
    Content,
    read_complete,
    read_group,
    state_of,
    tree_of,
)
from agent_actors.toolbox.checkpoints.restoring import Restorer

T = TypeVar("T")

# Seconds after its last change from which the version of a file identifies its content. The clocks
# of file systems are coarser than that.
_SETTLED: Final = 2.0
# Contents are stored in groups of this size, since each group needs a worker thread.
_GROUP_BYTES: Final = 8_000_000
_GROUP_FILES: Final = 200
# The number of manifests in memory.
_MANIFESTS: Final = 8
# Limits for the texts of changed files. All further contents are described by their digests.
_TEXT_BYTES: Final = 256_000
_TEXTS: Final = 200
_ALL_TEXT_BYTES: Final = 4_000_000


class DirectoryCheckpointer:
    """Keeps checkpoints in a directory; implements `abc.Checkpointer`.

    Args:
        options: The directory and the limits.
    """

    def __init__(self, options: Checkpoints) -> None:
        self._options = options
        self._copies = CopyDirectory(options.directory, options.max_bytes)
        self._manifests: OrderedDict[str, Manifest] = OrderedDict()
        # The last checkpoint of each workspace without trees.
        self._seen: WeakKeyDictionary[Workspace, str] = WeakKeyDictionary()
        # Writers of one process take turns, so that the size of the directory is counted correctly.
        self._writing = trio.CapacityLimiter(1)

    def check(self, workspace: Workspace) -> None:
        """See `Checkpointer.check`."""
        report = workspace.describe()
        directory = self._options.directory.resolve()
        for root in (report.root, *report.allowed_paths):
            if directory.is_relative_to(root):
                raise ConfigError(
                    f"AgentOptions: checkpoints: the directory {directory} must be outside the "
                    f"workspace {root}; pass checkpoints=Checkpoints(directory=...)"
                )

    async def take(self, workspace: Workspace) -> Checkpoint:
        """See `Checkpointer.take`."""
        checkpoint_id, manifest = await self._take(workspace)
        return manifest.info(checkpoint_id)

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """See `Checkpointer.changes`."""
        if before == after:
            await trio.lowlevel.checkpoint()
            return ()
        old, new = await self._manifest(before), await self._manifest(after)
        paths = sorted(changed_paths(old, new))
        return await self._in_thread(partial(self._described, old, new, paths))

    async def restore(
        self, workspace: Workspace, plan: RestorePlan, *, dry_run: bool
    ) -> RestoreReport:
        """See `Checkpointer.restore`."""
        target, last = await self._manifest(plan.target), await self._manifest(plan.last)
        by_agent = await self._changed_in(plan.by_agent)
        by_others = await self._changed_in(plan.by_others)
        present_id, present = await self._take(workspace)
        (by_others if plan.others_since else by_agent).update(changed_paths(last, present))
        rules = await self._ignore_rules(target)
        steps = plan_steps(
            target,
            present,
            by_agent=by_agent,
            by_others=by_others,
            is_ignored=rules,
        )
        steps = await self._with_hidden(workspace, steps)
        restorer = Restorer(workspace, self._content)
        if not dry_run:
            await restorer.run(steps.steps)
        if restorer.failures:
            raise _failed(restorer.failures)
        before = present.info(present_id)
        after = before if dry_run or not steps.steps else await self.take(workspace)
        left = {*restorer.conflicts, *restorer.refused}
        lost = [*steps.lost, *restorer.refused]
        return RestoreReport(
            changes=tuple(_changes(step for step in steps.steps if step.path not in left)),
            conflicts=tuple(sorted((*steps.conflicts, *restorer.conflicts))),
            not_covered=(f"{len(lost)} files have no copy: {shown(lost)}",) if lost else (),
            before=before,
            after=after,
        )

    # Take checkpoints.

    async def _take(self, workspace: Workspace) -> tuple[str, Manifest]:
        root = workspace.describe().root
        tree = await tree_of(workspace, self._options.max_files)
        began = time.time()
        known = await self._known(workspace, root)
        entries: dict[str, Kept] = {}
        changed: list[TreeEntry] = []
        for entry in tree.entries:
            kept = _unchanged(entry, known.get(entry.path))
            if kept is not None:
                entries[entry.path] = kept
            elif entry.size > self._options.max_file_bytes:
                entries[entry.path] = _state(entry, Content(entry.version, None), None, began)
            else:
                changed.append(entry)
        await self._copy(workspace, changed, entries, known, began)
        manifest = Manifest(root, dict(sorted(entries.items())), tree.truncated)
        checkpoint_id = await self._in_thread(partial(self._copies.keep_manifest, manifest))
        self._remember(checkpoint_id, manifest)
        if not isinstance(workspace, TreeWorkspace):
            self._seen[workspace] = checkpoint_id
        return checkpoint_id, manifest

    async def _copy(
        self,
        workspace: Workspace,
        changed: Sequence[TreeEntry],
        entries: dict[str, Kept],
        known: dict[str, Kept],
        began: float,
    ) -> None:
        """Copy the contents of changed files in groups, and add their states to the entries."""
        copied = {one.digest: one for one in known.values() if one.digest} if changed else {}
        for group in _groups(changed):
            paths = [entry.path for entry in group]
            found = await read_group(workspace, paths, self._options.max_file_bytes)
            contents: dict[str, bytes] = {}
            for entry, content in zip(group, found, strict=True):
                if content is None:
                    continue
                entries[entry.path] = _state(entry, content, known.get(entry.path), began)
                if content.data is not None:
                    contents[entry.path] = content.data
            entries.update(
                await self._in_thread(partial(self._keep_all, contents, entries, copied))
            )

    def _keep_all(
        self, contents: dict[str, bytes], entries: dict[str, Kept], copied: dict[str, Kept]
    ) -> dict[str, Kept]:
        """Store the contents that are not stored yet, and return the states with their places."""
        found: dict[str, Kept] = {}
        new: dict[str, bytes] = {}
        for path, data in contents.items():
            same_content = copied.get(sha256(data).hexdigest())
            if same_content is None:
                new[path] = data
            else:
                found[path] = _placed(entries[path], same_content)
        for path, place in zip(new, self._copies.keep(list(new.values())), strict=True):
            if place is not None:
                found[path] = _placed(entries[path], place)
        return found

    async def _known(self, workspace: Workspace, root: str) -> dict[str, Kept]:
        """Return the states in an earlier checkpoint of a workspace, whose copies exist."""
        own = "" if isinstance(workspace, TreeWorkspace) else self._seen.get(workspace, "")
        found = await self._in_thread(lambda: self._copies.in_use(own or self._copies.newest(root)))
        if found is None:
            return {}
        self._remember(*found)
        entries = found[1].entries
        if own or isinstance(workspace, TreeWorkspace):
            return entries
        # Another workspace with the same root may use the same versions for other contents.
        return {
            path: attrs.evolve(kept, version="", settled=False) for path, kept in entries.items()
        }

    # Restore.

    async def _changed_in(self, intervals: Iterable[tuple[str, str]]) -> set[str]:
        """Return the paths that changed in any of the intervals."""
        found: set[str] = set()
        for before, after in intervals:
            if before != after:
                old, new = await self._manifest(before), await self._manifest(after)
                found.update(changed_paths(old, new))
        return found

    async def _with_hidden(self, workspace: Workspace, steps: Steps) -> Steps:
        """Separate files that seem to be missing, but that a `.gitignore` file now excludes."""
        kept: list[Step] = []
        conflicts = list(steps.conflicts)
        for step in steps.steps:
            wanted = step.wanted
            if wanted is None or not await _is_hidden(workspace, step):
                kept.append(step)
            elif not await self._has_content(workspace, step.path, wanted):
                conflicts.append(step.path)
        return Steps(tuple(kept), tuple(conflicts), steps.lost)

    async def _has_content(self, workspace: Workspace, path: str, wanted: Kept) -> bool:
        content = await read_complete(workspace, path, self._options.max_file_bytes)
        return content is not None and content.data == await self._content(wanted)

    async def _ignore_rules(self, target: Manifest) -> IgnoreCheck:
        texts: dict[str, str] = {}
        for path, kept in target.entries.items():
            if is_ignore_file(path) and kept.digest:
                data = await self._content(kept)
                texts[path] = (data or b"").decode("utf-8", "replace")
        return ignore_check(texts)

    # Read copies.

    async def _content(self, kept: Kept) -> bytes | None:
        return await self._in_thread(partial(self._copies.content, kept))

    async def _manifest(self, checkpoint_id: str) -> Manifest:
        known = self._manifests.get(checkpoint_id)
        if known is not None:
            self._manifests.move_to_end(checkpoint_id)
            return known
        found = await self._in_thread(partial(self._copies.manifest, checkpoint_id))
        if found is None:
            raise WorkspaceError(
                f"the checkpoint {checkpoint_id[:12]!r} is not in {self._options.directory}: it "
                "was made elsewhere, or it was removed because the directory was full",
                reason="not_found",
            )
        self._remember(checkpoint_id, found)
        return found

    def _remember(self, checkpoint_id: str, manifest: Manifest) -> None:
        self._manifests[checkpoint_id] = manifest
        self._manifests.move_to_end(checkpoint_id)
        while len(self._manifests) > _MANIFESTS:
            self._manifests.popitem(last=False)

    def _described(
        self, old: Manifest, new: Manifest, paths: Sequence[str]
    ) -> tuple[FileChange, ...]:
        found: list[FileChange] = []
        left, texts = _ALL_TEXT_BYTES, 0
        for path in paths:
            now, before = new.entries.get(path), old.entries.get(path)
            if now is None or now.kind == "directory":
                if before is not None and before.kind != "directory":
                    found.append(FileChange(path, "deleted"))
                continue
            text = None
            if now.digest and texts < _TEXTS and now.size <= min(_TEXT_BYTES, left):
                text = _text(self._copies.content(now))
            if text is not None:
                texts, left = texts + 1, left - now.size
                found.append(FileChange(path, "written", text))
            else:
                found.append(FileChange(path, "written", None, _name_of(now), now.size))
        return tuple(found)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(work, limiter=self._writing)
        except OSError as error:
            raise WorkspaceError(
                f"the checkpoints in {self._options.directory} cannot be used: "
                f"{error.strerror or error}",
                reason="failed",
            ) from error


def _unchanged(entry: TreeEntry, known: Kept | None) -> Kept | None:
    """Return the state of an entry that need not be copied; None if it must be copied."""
    if entry.kind != "file":
        return Kept(kind=entry.kind, version=entry.version, target=entry.target)
    if known is None or not known.settled or not known.digest or known.version != entry.version:
        return None
    return known if known.mode == entry.mode else attrs.evolve(known, mode=entry.mode)


def _groups(changed: Sequence[TreeEntry]) -> Iterator[list[TreeEntry]]:
    """Divide files into groups that are read and stored together."""
    group: list[TreeEntry] = []
    size = 0
    for entry in changed:
        if group and (len(group) >= _GROUP_FILES or size + entry.size > _GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(entry)
        size += entry.size
    if group:
        yield group


def _state(entry: TreeEntry, content: Content, known: Kept | None, now: float) -> Kept:
    return Kept(
        kind="file",
        size=entry.size if content.data is None else len(content.data),
        mode=entry.mode,
        version=content.version or entry.version,
        settled=content.version == entry.version and _is_settled(entry, known, now),
    )


def _placed(kept: Kept, place: Kept | Place) -> Kept:
    return attrs.evolve(kept, digest=place.digest, pack=place.pack, offset=place.offset)


def _is_settled(entry: TreeEntry, known: Kept | None, now: float) -> bool:
    if entry.changed_at is not None:
        return now - entry.changed_at > _SETTLED
    # An unchanged version in the previous checkpoint is older than this read.
    return known is not None and known.version == entry.version


async def _is_hidden(workspace: Workspace, step: Step) -> bool:
    if step.present is not None or step.wanted is None or step.wanted.kind == "directory":
        return False
    return await state_of(workspace, step.path) is not None


def _text(data: bytes | None) -> str | None:
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _name_of(kept: Kept) -> str:
    """Return the digest of a content that is not recorded."""
    if kept.kind == "link":
        return f"link:{kept.target}"
    return f"sha256:{kept.digest}" if kept.digest else f"size:{kept.size}"


def _changes(steps: Iterable[Step]) -> Iterable[FileChange]:
    for step in steps:
        wanted, present = step.wanted, step.present
        if wanted is not None and wanted.kind != "directory":
            yield FileChange(step.path, "written", None, _name_of(wanted), wanted.size)
        elif present is not None and present.kind != "directory":
            yield FileChange(step.path, "deleted")


def _failed(failures: Sequence[WorkspaceError]) -> WorkspaceError:
    first = failures[0]
    more = f"; {len(failures) - 1} more files failed" if len(failures) > 1 else ""
    return WorkspaceError(
        f"not all files were restored: {first}{more}. Repeat the call after the cause is removed",
        reason=first.reason,
        path=first.path,
    )
