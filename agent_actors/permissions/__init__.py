"""Permissions: rules for a model's tool calls, as values and pure functions.

Public as `agent_actors.permissions`. This package does not ask questions, wait or read a clock. The
runtime calls the policy, forwards its questions and keeps the remembered decisions.

When a policy is set for an agent, `policy.check(has_approver, tools)` validates it, and
`policy.unknown(tools, whitelist)` lists names for a log message. For a run, use
`policy.under(parent)` if another run started it, and `policy.narrowed(whitelist)` if it has a
whitelist; the model is offered `policy.offered(tools)`. For a call, without an await in between:

    verdict = policy.decide(call, tool, DecisionContext(cwd, session_id, grants, now))
    grants = grants.spent(verdict.grant)    # of an Allow or a Deny

An `Ask` is passed to the `can_use_tool` function, whose result is read by `as_decision`. If that
function decides to ask, the question is passed to a person, whose answer is read by `read_answer`.
The decision is evaluated in the situation at that time, which may have changed since the question:

    verdict, grants = policy.settle(decision, ask, call, tool, DecisionContext(...))

If an `Allow` has an `input`, the new input must be validated and pass the permission checks again.
"""

from agent_actors.permissions.decisions import CHOICES as CHOICES
from agent_actors.permissions.decisions import Allow as Allow
from agent_actors.permissions.decisions import Ask as Ask
from agent_actors.permissions.decisions import CanUseTool as CanUseTool
from agent_actors.permissions.decisions import Deny as Deny
from agent_actors.permissions.decisions import PermissionDecision as PermissionDecision
from agent_actors.permissions.decisions import PermissionRequest as PermissionRequest
from agent_actors.permissions.decisions import Verdict as Verdict
from agent_actors.permissions.decisions import as_decision as as_decision
from agent_actors.permissions.decisions import read_answer as read_answer
from agent_actors.permissions.grants import NO_GRANTS as NO_GRANTS
from agent_actors.permissions.grants import DecisionContext as DecisionContext
from agent_actors.permissions.grants import Grant as Grant
from agent_actors.permissions.grants import Grants as Grants
from agent_actors.permissions.grants import GrantStore as GrantStore
from agent_actors.permissions.grants import Remember as Remember
from agent_actors.permissions.modes import MODES as MODES
from agent_actors.permissions.modes import Effect as Effect
from agent_actors.permissions.modes import PermissionMode as PermissionMode
from agent_actors.permissions.modes import effect_of as effect_of
from agent_actors.permissions.policy import PermissionPolicy as PermissionPolicy
from agent_actors.permissions.rules import Rule as Rule
from agent_actors.permissions.shell.programs import SAFE_COMMANDS as SAFE_COMMANDS
from agent_actors.permissions.shell.programs import read_only_commands as read_only_commands
from agent_actors.permissions.terminal_approver import InteractiveApprover as InteractiveApprover
