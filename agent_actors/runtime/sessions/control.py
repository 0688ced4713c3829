"""A session that is held, as a caller sees it: stop the run that holds it, or speak to that run.

It owns nothing. Who holds a session is the gate's to say; how a run is stopped and spoken to stands
in `stopping.py` and `steering.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

from agent_actors.actors.run_tree import RunNode, current_run
from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.run import CancelReason, RunResult
from agent_actors.errors import SessionIdle
from agent_actors.options.agent_options import AgentOptions
from agent_actors.run.prompt import Prompt
from agent_actors.runtime.lifecycle import Actors


class Busy(ABC):
    """What a runtime offers about sessions that are held."""

    _actors: Actors

    @abstractmethod
    def _check_token(self) -> None: ...

    @abstractmethod
    def _live_around(self, node: RunNode | None) -> Sequence[RunNode]: ...

    @abstractmethod
    async def run(
        self,
        prompt: Prompt,
        options: AgentOptions[object],
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        on_busy: OnBusy | None = None,
    ) -> RunResult[object]:
        """Run an agent on a session; see `Runtime`."""

    def is_busy(self, session_id: str) -> bool:
        """True while a run holds the session."""
        return self._actors.gate.is_busy(session_id)

    async def interrupt(self, session_id: str, reason: str = "") -> bool:
        """Stop the run that holds the session, and return when nothing of it is alive.

        What it had finished stays: its prompt, its answers and the results of its calls. Calls that
        were under way are cancelled and answered by an error. Whoever waits for the run gets its
        result, with `stop_reason="interrupted"`. Runs in line are not touched: the next one begins.

        Args:
            session_id: The session.
            reason: Told to the model with each call that was cut off; empty: nothing.

        Returns:
            Whether a run held the session. One that had its answer already has completed.

        Raises:
            SessionBusy: The run that holds it is one around the caller, and would wait for itself.

        Cancellation: safe; the run ends all the same.
        """
        self._check_token()
        ancestors = [node.session_id for node in self._live_around(current_run.get())]
        run_id = self._actors.gate.stop(
            session_id, CancelReason.INTERRUPT, reason, ancestors=ancestors
        )
        run = self._actors.live.get(run_id or "")
        if run is None:
            return False
        await run.settled()
        return True

    async def steer(
        self,
        session_id: str,
        prompt: Prompt,
        options: AgentOptions[object] | None = None,
        *,
        request_id: str | None = None,
    ) -> RunResult[object]:
        """Say something to the run that holds the session, without stopping it.

        The run takes it at its next turn boundary: when its model has answered and the calls of the
        answer have ended, before the model is asked again, or in place of ending. The answer is
        part of that run. If it ends before, the input runs on its own, at the place in line that it
        has had from the beginning. The same as `run(..., on_busy="steer")`, but for the options.

        Args:
            session_id: The session.
            prompt: What the user says.
            options: The agent to run if no run takes the input; None: that of the run which holds
                the session.
            request_id: Stands in the result; None: one is made.

        Returns:
            With `stop_reason="steered"`, as soon as it is on record that the run has taken the
            input; else what the input's own run came to.

        Raises:
            SessionIdle: No run holds the session, and there are no options.
            As `run`.

        Cancellation: the input is taken back, or its own run ends as any does. An input that was
        taken is taken: the result is returned.
        """
        self._check_token()
        if options is None:
            inbox = self._actors.services.inbox_of(session_id)
            if inbox is None:
                raise SessionIdle(
                    "no run holds it that could take the input; pass options to start one",
                    session_id=session_id,
                )
            options = cast("AgentOptions[object]", inbox.agent)
        return await self.run(
            prompt, options, session_id=session_id, request_id=request_id, on_busy="steer"
        )
