"""Permissions: what the calls of a model may do, as values and pure functions.

Public as `agent_actors.permissions`. This room asks nobody, waits for nothing and reads no clock:
the runtime asks the policy, puts its questions to whoever answers, and keeps what is remembered.

Where the policy meets an agent: `policy.check(has_approver, tools)`, and `policy.unknown(tools,
whitelist)` for a line in the log. For a run: `policy.under(parent)` if another run started it,
`policy.narrowed(whitelist)` if it has one, and the model gets `policy.offered(tools)`. For a call,
with nothing awaited between the two:

    verdict = policy.decide(call, tool, DecisionContext(cwd, session_id, grants, now))
    grants = grants.spent(verdict.grant)    # of an Allow or a Deny

An `Ask` goes to the `can_use_tool` function (`as_decision`), and if that hands it on, to a person
(`read_answer`). What they say is settled as things stand then, not as they stood when it was asked:

    verdict, grants = policy.settle(decision, ask, call, tool, DecisionContext(...))

An `Allow` that has an `input` goes back to the schema and the guards with it.
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
from agent_actors.permissions.terminal_approver import InteractiveApprover as InteractiveApprover
