"""Hooks that the package provides.

Like users' hooks, they use only the public API for hooks. `docs/how-to/hooks.md` shows examples.
"""

from agent_actors.hooks.builtin.audit import AuditLog as AuditLog
from agent_actors.hooks.builtin.goal import Goal as Goal
from agent_actors.hooks.builtin.goal import GoalCheck as GoalCheck
from agent_actors.hooks.builtin.rate_limit import RateLimit as RateLimit
from agent_actors.hooks.builtin.redact import ASSIGNED_SECRET as ASSIGNED_SECRET
from agent_actors.hooks.builtin.redact import SECRET_SHAPES as SECRET_SHAPES
from agent_actors.hooks.builtin.redact import RedactSecrets as RedactSecrets
from agent_actors.hooks.builtin.redact import SecretShape as SecretShape
from agent_actors.hooks.builtin.sanitize import SanitisePrompt as SanitisePrompt
from agent_actors.hooks.builtin.timing import CallTime as CallTime
from agent_actors.hooks.builtin.timing import RunTimes as RunTimes
from agent_actors.hooks.builtin.timing import Timing as Timing
from agent_actors.hooks.builtin.truncate import SELF_BOUNDED as SELF_BOUNDED
from agent_actors.hooks.builtin.truncate import TruncateOutput as TruncateOutput
from agent_actors.hooks.summarization import SummarizationHook as SummarizationHook
