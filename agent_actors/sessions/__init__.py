"""The state of a session, computed from its records. Pure: independent of stores and runs."""

from agent_actors.sessions.state import REPORTED_UNREADABLE as REPORTED_UNREADABLE
from agent_actors.sessions.state import UNFINISHED as UNFINISHED
from agent_actors.sessions.state import SessionState as SessionState
from agent_actors.sessions.state import fold as fold
