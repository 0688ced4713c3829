"""What a run is asked to be."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from agent_actors.actors.question_board import Answer
from agent_actors.actors.run_tree import RunNode
from agent_actors.actors.session_gate import OnBusy
from agent_actors.client.tool_results import FaceRun
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import UserInput
from agent_actors.tools.output import ToolOutput

_NO_RESULTS: Final[Mapping[str, ToolOutput]] = {}


@attrs.frozen(eq=False)
class RunSpec:
    """What to run.

    Attributes:
        prompt: What the caller said.
        options: The agent.
        node: The run among its ancestors.
        ancestors: The sessions that the runs around it hold.
        request_id: The caller's id of the request.
        on_busy: What to do if the session is held.
        parent_tool_use_id: The call that started this run; None for a root run.
        answers: To the questions with which the session is suspended, to go on with its open calls;
            None: an ordinary run.
        results: Of calls that the session's last run left to its caller, by the calls' ids; only
            with answers, which may be none.
        tool_whitelist: The only tools that this run is offered, by name; None: all.
        face: What it does otherwise, as a run of `Client` or `query`; None: nothing.
    """

    prompt: UserInput
    options: AgentOptions
    node: RunNode
    ancestors: Sequence[str]
    request_id: str
    on_busy: OnBusy
    parent_tool_use_id: str | None
    tool_whitelist: Sequence[str] | None = None
    answers: Mapping[str, Answer] | None = None
    results: Mapping[str, ToolOutput] = _NO_RESULTS
    face: FaceRun | None = None
