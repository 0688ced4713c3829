"""The caller's request for a run."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from agent_actors.actors.question_board import Answer
from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.messages import Messages
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import UserInput
from agent_actors.tools.output import ToolOutput

_NO_RESULTS: Final[Mapping[str, ToolOutput]] = {}


@attrs.define(eq=False)
class HistoryReplacement:
    """A conversation that replaces the history of the session when the run begins.

    Attributes:
        messages: The conversation.
        queued: True if the replacement is part of the run's next commit; set by the run.
        recorded: True if the replacement has been committed; set by the run.
    """

    messages: Messages
    queued: bool = False
    recorded: bool = False


@attrs.frozen(eq=False)
class RunSpec:
    """One request for a run.

    Attributes:
        prompt: The user's input; if it has neither text nor blocks, the run continues without new
            input.
        options: The options of the agent.
        session_id: The id of the session.
        request_id: The id that the caller gave the request.
        on_busy: The policy for a session that another run holds.
        tool_whitelist: The names of the only tools that the run may use; None: all tools.
        answers: The answers to the suspended session's questions, by question id; the run resumes
            the open calls. None for an ordinary run.
        results: The results of calls that the suspended run left to its caller, by call id. Only
            used together with `answers`.
        max_tool_rounds: The maximum number of tool rounds, for a run started by `Client` or
            `query()`. None for a run started by `Runtime`, which only `max_iterations` limits.
        client_side_tools: True if the caller executes all tool calls (manual mode).
        replace_history: A conversation that replaces the session's history; None: the history
            stays.
    """

    prompt: UserInput
    options: AgentOptions
    session_id: str
    request_id: str
    on_busy: OnBusy
    tool_whitelist: Sequence[str] | None = None
    answers: Mapping[str, Answer] | None = None
    results: Mapping[str, ToolOutput] = _NO_RESULTS
    max_tool_rounds: int | None = None
    client_side_tools: bool = False
    replace_history: HistoryReplacement | None = None

    @property
    def must_exist(self) -> bool:
        """True if the session must exist, because the agent's `resume` option names it."""
        return self.options.resume == self.session_id

    @property
    def from_client(self) -> bool:
        """True if `Client` or `query()` started the run."""
        return self.max_tool_rounds is not None

    @property
    def json_failures(self) -> bool:
        """True if tool failures are reported as `{"error", "tool"}` (automatic mode)."""
        return self.from_client and not self.client_side_tools

    @property
    def max_iterations(self) -> int:
        """The maximum number of model calls in the run."""
        if self.max_tool_rounds is None:
            return self.options.max_iterations
        return self.max_tool_rounds + 1  # one call after each round, plus the first call

    @property
    def replacement(self) -> Messages | None:
        """The conversation that replaces the history; None if the history stays."""
        return None if self.replace_history is None else self.replace_history.messages
