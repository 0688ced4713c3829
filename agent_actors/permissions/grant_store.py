"""What was decided in a runtime, for as long as it holds."""

import attrs
import trio

from agent_actors.permissions.grants import NOTHING_REMEMBERED, Remembered


@attrs.define(eq=False)
class Memory:
    """What was decided in a runtime, for as long as it holds.

    Attributes:
        remembered: The decisions.
    """

    remembered: Remembered = NOTHING_REMEMBERED

    def forget(self, session_id: str) -> None:
        """The session has left the runtime."""
        if self.remembered:
            self.remembered = self.remembered.forget(session_id).expire(trio.current_time())
