"""The permission policy that applies to the calls of a run."""

from collections.abc import Sequence

from agent_actors.permissions import PermissionMode, PermissionPolicy


def effective_policy(
    policy: PermissionPolicy | None,
    parent: PermissionPolicy | None,
    whitelist: Sequence[str] | None,
) -> PermissionPolicy | None:
    """Return the policy for the calls of a run; None: no restriction.

    The policy of the parent run also applies to a nested run, so an agent cannot bypass a
    restriction by starting a run.

    Args:
        policy: The policy of the run's own agent.
        parent: The policy of the parent run, even if that run has ended.
        whitelist: The names of the only tools that the run may use; None: all tools.
    """
    if parent is not None:
        policy = (policy or PermissionPolicy(mode=PermissionMode.BYPASS)).under(parent)
    if whitelist is not None:
        policy = policy or PermissionPolicy(mode=PermissionMode.BYPASS)
        policy = policy.narrowed(whitelist)
    return policy
