"""Hooks that come along, each as a program of a user's own would have it.

They use nothing that a hook of your own could not use. `docs/how-to/hooks.md` shows them at work.
"""

from agent_actors.hooks.shipped.audit import AuditLog as AuditLog
from agent_actors.hooks.shipped.rate_limit import RateLimit as RateLimit
from agent_actors.hooks.shipped.redact import ASSIGNED_SECRET as ASSIGNED_SECRET
from agent_actors.hooks.shipped.redact import SECRET_SHAPES as SECRET_SHAPES
from agent_actors.hooks.shipped.redact import RedactSecrets as RedactSecrets
from agent_actors.hooks.shipped.redact import SecretShape as SecretShape
from agent_actors.hooks.shipped.sanitise import SanitisePrompt as SanitisePrompt
from agent_actors.hooks.shipped.timing import CallTime as CallTime
from agent_actors.hooks.shipped.timing import RunTimes as RunTimes
from agent_actors.hooks.shipped.timing import Timing as Timing
from agent_actors.hooks.shipped.truncate import SELF_BOUNDED as SELF_BOUNDED
from agent_actors.hooks.shipped.truncate import TruncateOutput as TruncateOutput
