"""Leases the workspace of a run, makes its checkpoints, and records ends of background commands."""

from pathlib import Path

from agent_actors.actors.resources.checkpoints import RunCheckpoints
from agent_actors.actors.resources.session_resources import WorkspaceLease
from agent_actors.domain.events import EventBuilder
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.runs.context import RunContext


async def lease_workspace(context: RunContext) -> None:
    """Lease the workspace of a run, if it has one.

    A nested run shares the workspace of the run that started it, unless its agent has a different
    one.

    Raises:
        ConfigError: The workspace cannot be created as configured.
        WorkspaceError: The factory failed, or the workspace is not available.

    Cancellation: safe; a cancelled call holds nothing.
    """
    options, source = context.options, context.options.workspace
    shared = inherited_workspace(context)
    if shared is not None:
        _use(context, shared.share(options.background_owner))
        return
    if source is None:
        return
    lease = await context.services.resources.lease(
        source, context.snapshot(), options.cwd, options.background_owner
    )
    _use(context, lease)
    lease.record_with(context.note)
    if options.checkpoints is not None:
        _use_checkpoints(context, lease, options.checkpoints)


def _use(context: RunContext, lease: WorkspaceLease) -> None:
    context.workspace = lease
    # Permission rules for paths must mean the files that the tools use.
    context.cwd = Path(lease.describe().root)


def _use_checkpoints(context: RunContext, lease: WorkspaceLease, options: Checkpoints) -> None:
    report = lease.describe()
    if report.read_only and report.processes == "refused":
        return  # no file can change
    checkpointer = context.services.checkpointers.get(options)
    checkpointer.check(lease.source)
    lease.remember(checkpointer)
    context.checkpoints = RunCheckpoints(checkpointer, lease.source)


async def checkpoint_at_start(context: RunContext) -> None:
    """Queue the record of the checkpoint before the run.

    Cancellation: safe.
    """
    if context.checkpoints is not None:
        context.journal.add(await context.checkpoints.begin())


async def checkpoint_at_end(context: RunContext) -> None:
    """Queue the records of the files that the run changed, and of the checkpoint after the run.

    Cancellation: shielded; there is a time limit.
    """
    if context.checkpoints is not None:
        context.journal.add(*await context.checkpoints.end(context.journal.files))


def inherited_workspace(context: RunContext) -> WorkspaceLease | None:
    """Return the lease of the parent run, if this run shares it."""
    parent, source = context.parent, context.options.workspace
    if parent is None or parent.services is not context.services or parent.workspace is None:
        return None
    lease = parent.workspace
    return lease if source is None or lease.fits(source) else None


def background_records(context: RunContext) -> list[EventBuilder]:
    """Return the records of background commands that ended, or were lost, since the last run."""
    recorded = context.opened_session.state.background
    resources, session_id = context.services.resources, context.spec.session_id
    if not recorded and context.workspace is None:
        return []
    return resources.unrecorded(session_id, recorded)
