"""Control of the run that holds a session: detect it, stop it, and find its agent."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from agent_actors.actors.session_gate import SessionGate
from agent_actors.domain.run import CancelReason, RunResult
from agent_actors.errors import SessionIdle
from agent_actors.kernel.request import Request
from agent_actors.options.agent_options import AgentOptions
from agent_actors.runs.steering import Inbox


class SessionControl:
    """Finds and stops the runs that hold sessions.

    Args:
        gate: Tracks which run holds which session.
        live: The runs that are alive, by id.
        inbox: Returns the steering inbox of the run that holds a session; None if no run does.
    """

    def __init__(
        self,
        gate: SessionGate,
        live: Mapping[str, Request[RunResult]],
        inbox: Callable[[str], Inbox | None],
    ) -> None:
        self._gate = gate
        self._live = live
        self._inbox = inbox

    def is_busy(self, session_id: str) -> bool:
        """Return whether a run holds the session."""
        return self._gate.is_busy(session_id)

    async def interrupt(self, session_id: str, reason: str, *, ancestors: Sequence[str]) -> bool:
        """Stop the run that holds a session, and wait until it has ended.

        Args:
            session_id: The session.
            reason: The reason to send to the model in the error result of each interrupted tool
                call; empty: no reason.
            ancestors: The sessions of the live runs that the current code is part of.

        Returns:
            True if a run held the session, even if that run already had its final response and
            completed normally.

        Raises:
            SessionBusy: The session is one of `ancestors`, so the current code would wait for
                itself.

        Cancellation: safe; the run still ends.
        """
        run_id = self._gate.stop(session_id, CancelReason.INTERRUPT, reason, ancestors=ancestors)
        run = self._live.get(run_id or "")
        if run is None:
            return False
        await run.wait_done()
        return True

    def agent_of(self, session_id: str) -> AgentOptions[object]:
        """Return the options of the run that holds a session.

        Raises:
            SessionIdle: No run holds the session.
        """
        inbox = self._inbox(session_id)
        if inbox is None:
            raise SessionIdle(
                "no run holds the session; pass options to start a run", session_id=session_id
            )
        return cast("AgentOptions[object]", inbox.agent)
