"""What a session is: the fold of its records. Pure; who stores and who runs is not known here."""

from agent_actors.sessions.state import REPORTED_UNREADABLE as REPORTED_UNREADABLE
from agent_actors.sessions.state import UNFINISHED as UNFINISHED
from agent_actors.sessions.state import SessionState as SessionState
from agent_actors.sessions.state import fold as fold
