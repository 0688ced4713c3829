"""The policy of a run: its agent's, narrowed for the run, under that of the run around it."""

from agent_actors.permissions import PermissionMode, PermissionPolicy
from agent_actors.runtime.actors import Actors
from agent_actors.runtime.spec import RunSpec


def policy_of(actors: Actors, spec: RunSpec) -> PermissionPolicy | None:
    """What the calls of a run may do; None: anything.

    A run that a tool started is bound by the policy of the run around it, whatever its own agent
    says: what may not be done may not be had done.
    """
    policy = spec.options.permissions
    parent = spec.node.parent
    above = None if parent is None else actors.policies.get(parent.run_id)
    if above is not None:
        policy = (policy or PermissionPolicy(mode=PermissionMode.BYPASS)).under(above)
    if spec.tool_whitelist is not None:
        policy = policy or PermissionPolicy(mode=PermissionMode.BYPASS)
        policy = policy.narrowed(spec.tool_whitelist)
    if policy is not None:
        actors.policies[spec.node.run_id] = policy
    return policy
