"""What a session is: the fold of its records. Pure; who stores and who runs is not known here."""

from agent_actors.sessions.fold import REPORTED_UNREADABLE as REPORTED_UNREADABLE
from agent_actors.sessions.fold import UNFINISHED as UNFINISHED
from agent_actors.sessions.fold import SessionState as SessionState
from agent_actors.sessions.fold import fold as fold
