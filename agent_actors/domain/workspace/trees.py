"""The files of a workspace as a tree, changes between two trees, and the result of a rewind."""

from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from agent_actors.domain.messages import Messages

TreeKind: TypeAlias = Literal["file", "link", "directory"]
"""The kind of an entry; a `link` is a symlink, which is not followed."""

CheckpointPhase: TypeAlias = Literal["before", "after"]
"""The place of a checkpoint: before a run, or after a run or a rewind."""


@attrs.frozen(kw_only=True)
class TreeEntry:
    """A file, symlink or directory of a workspace.

    Attributes:
        path: The path, relative to the root.
        kind: The kind of the entry itself.
        version: A text that differs if the content may have changed; empty for directories.
        size: Size in bytes; 0 unless the entry is a file.
        mode: The permission bits; None if they are not known.
        target: The target of a symlink.
        changed_at: The time of the last change, in seconds since the epoch; None if it is not
            known.
    """

    path: str
    kind: TreeKind
    version: str = ""
    size: int = 0
    mode: int | None = None
    target: str = ""
    changed_at: float | None = None


@attrs.frozen
class FileTree:
    """The entries of a workspace that checkpoints cover, sorted by path.

    Attributes:
        entries: The entries.
        truncated: True if the workspace has more entries.
    """

    entries: tuple[TreeEntry, ...]
    truncated: bool = False


@attrs.frozen
class FileChange:
    """A file that a run changed, or that a rewind restores.

    Attributes:
        path: The file, in the form of `FileInfo.path`.
        kind: `written` if the file was created, replaced, or got another mode.
        text: The new text; None if the file was deleted, is not text, or is too long.
        digest: The digest of a content without `text`, for example `sha256:…`; otherwise empty.
        size: The size in bytes of a content without `text`; otherwise 0.
    """

    path: str
    kind: Literal["written", "deleted"]
    text: str | None = attrs.field(default=None, repr=False)
    digest: str = ""
    size: int = 0


@attrs.frozen(kw_only=True)
class Checkpoint:
    """A copy of the files of a workspace.

    Attributes:
        id: The id, which depends only on the files.
        files: The number of files.
        not_covered: Descriptions of the files that the copy does not contain.
    """

    id: str
    files: int
    not_covered: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class WorkspaceSnapshot:
    """A copy of a workspace's files that another process can restore.

    Attributes:
        path: The file that describes the copy. The contents are in the directory above it.
        files: The number of files.
        not_covered: Descriptions of the files that the copy does not contain.
    """

    path: Path
    files: int
    not_covered: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RestorePlan:
    """The checkpoints that a restoration needs.

    An interval is a pair of consecutive checkpoints.

    Attributes:
        target: The id of the checkpoint to restore.
        last: The id of the newest checkpoint.
        by_agent: The intervals in which the agent worked.
        by_others: The intervals between runs, in which only others changed files.
        others_since: True if only others changed files since the newest checkpoint.
    """

    target: str
    last: str
    by_agent: tuple[tuple[str, str], ...] = ()
    by_others: tuple[tuple[str, str], ...] = ()
    others_since: bool = True


@attrs.frozen(kw_only=True)
class RestoreReport:
    """The result of a restoration.

    Attributes:
        changes: The files that were restored; in a dry run, the files that would be.
        conflicts: The files that the agent changed and others changed later. They are left as they
            are.
        not_covered: Descriptions of the files that cannot be restored.
        before: The checkpoint of the state before the restoration.
        after: The checkpoint of the state after the restoration; in a dry run, `before`.
    """

    changes: tuple[FileChange, ...]
    conflicts: tuple[str, ...]
    not_covered: tuple[str, ...]
    before: Checkpoint
    after: Checkpoint


@attrs.frozen(kw_only=True)
class FileRewind:
    """The result of `runtime.sessions.rewind(…, files=True)`.

    Attributes:
        messages: The conversation after the rewind; in a dry run, the unchanged conversation.
        dry_run: True if nothing was changed.
        changes: The files that were restored; in a dry run, the files that would be.
        conflicts: The files that the agent changed and others changed later. They are left as they
            are.
        not_covered: Descriptions of the files that cannot be restored.
    """

    messages: Messages
    dry_run: bool
    changes: tuple[FileChange, ...]
    conflicts: tuple[str, ...]
    not_covered: tuple[str, ...]
