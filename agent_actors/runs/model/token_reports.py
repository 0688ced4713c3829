"""Reports the tokens of each model call to the agent's callback and to the instrumentation."""

import logging
from typing import Final

import attrs

from agent_actors.abc import Instrumentation
from agent_actors.domain.usage import TokenCallback, TokenStats, Usage
from agent_actors.kernel.interrupts import TakeInterrupt, call_unprotected
from agent_actors.options.agent_options import AgentOptions

_LOG: Final = logging.getLogger(__name__)


@attrs.define(eq=False)
class TokenReporter:
    """Reports the tokens of one run.

    Attributes:
        session_id: The session.
        run_id: The run.
        options: The options of the model that responds; a fallback replaces them.
        callback: The `token_callback` of the agent; None if it has none.
        instrumentation: The instrumentation of the runtime; None if it has none.
        take_interrupt: Called with an error of the callback, which may contain a Ctrl-C.
    """

    session_id: str
    run_id: str
    options: AgentOptions
    callback: TokenCallback | None
    instrumentation: Instrumentation | None
    take_interrupt: TakeInterrupt

    def report(self, usage: Usage, cost: float | None) -> None:
        """Report the tokens of one model call; a failing callback is logged."""
        options = self.options
        stats = TokenStats(
            self.session_id, self.run_id, options.provider_name, options.model, usage, cost
        )
        if self.instrumentation is not None:
            self.instrumentation.count_tokens(stats)
        if self.callback is None:
            return
        try:
            call_unprotected(self.callback, stats)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - user code
            rest = self.take_interrupt(error)
            if rest is not None:
                _LOG.warning(
                    "token_callback raised %s (session %s, run %s)",
                    type(rest).__name__,
                    self.session_id,
                    self.run_id,
                    exc_info=rest,
                )
