"""Finds the checkpoints in a session's records that a rewind of the files needs. Pure.

The records contain a checkpoint before and after each run and each rewind. The interval between the
end of one run and the start of the next one belongs to others: a person, or another session. All
other intervals belong to the agent, also if a crash has left out the end of a run.
"""

from collections.abc import Iterable

from agent_actors.domain.events import AnyEvent, WorkspaceCheckpoint
from agent_actors.domain.workspace.trees import RestorePlan


def restore_plan(records: Iterable[AnyEvent], to_seq: int, root: str) -> RestorePlan | None:
    """Return the checkpoints for a rewind; None if the records contain no suitable checkpoint.

    A record within a run has no checkpoint of its own. The files then get the state that they had
    before the run.

    Args:
        records: The records of the session.
        to_seq: The `seq` of the last record that the rewind keeps.
        root: The root of the workspace. Checkpoints of other workspaces are ignored.
    """
    points = [
        one
        for one in records
        if isinstance(one, WorkspaceCheckpoint) and one.checkpoint_id and one.root == root
    ]
    at = sum((one.seq or 0) <= to_seq for one in points)
    # Between a run and the next one, the agent changes nothing. The later checkpoint contains the
    # changes of others.
    is_idle = at == 0 or points[at - 1].phase == "after"
    if at == len(points) or points[at].phase != "before" or not is_idle:
        at -= 1
    if at < 0:
        return None
    by_agent: list[tuple[str, str]] = []
    by_others: list[tuple[str, str]] = []
    for before, after in zip(points[at:], points[at + 1 :], strict=False):
        idle = before.phase == "after" and after.phase == "before"
        (by_others if idle else by_agent).append((before.checkpoint_id, after.checkpoint_id))
    return RestorePlan(
        target=points[at].checkpoint_id,
        last=points[-1].checkpoint_id,
        by_agent=tuple(by_agent),
        by_others=tuple(by_others),
        others_since=points[-1].phase == "after",
    )
