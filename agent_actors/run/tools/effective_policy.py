"""The policy of a run: its agent's, narrowed for the run, under that of the run around it."""

from typing import Final
from weakref import WeakKeyDictionary

from agent_actors.actors.run_tree import RunNode
from agent_actors.permissions import PermissionMode, PermissionPolicy
from agent_actors.run.spec import RunSpec

# The policies of runs, for those that they start. A task that a tool left behind may start one when
# the run around it has ended, or in another runtime: so they last as long as whoever knows the run.
_POLICIES: Final[WeakKeyDictionary[RunNode, PermissionPolicy]] = WeakKeyDictionary()


def policy_of(spec: RunSpec) -> PermissionPolicy | None:
    """What the calls of a run may do; None: anything.

    A run that a tool started is bound by the policy of the run around it, whatever its own agent
    says: what may not be done may not be had done.
    """
    policy = spec.options.permissions
    parent = spec.node.parent
    above = None if parent is None else _POLICIES.get(parent)
    if above is not None:
        policy = (policy or PermissionPolicy(mode=PermissionMode.BYPASS)).under(above)
    if spec.tool_whitelist is not None:
        policy = policy or PermissionPolicy(mode=PermissionMode.BYPASS)
        policy = policy.narrowed(spec.tool_whitelist)
    if policy is not None:
        _POLICIES[spec.node] = policy
    return policy
