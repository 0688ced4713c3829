"""The parts of a runtime that its runs may use.

Runs only use these parts; `runtime/lifecycle.py` starts and closes them and handles crashes.
"""

from collections.abc import Callable
from typing import Protocol

import attrs

from agent_actors.abc import Instrumentation
from agent_actors.abc.project import ProjectFiles
from agent_actors.actors.hook_bus import HookBus
from agent_actors.actors.kept_results import KeptResults
from agent_actors.actors.log_reader import LogReader
from agent_actors.actors.model_stream import ModelStream
from agent_actors.actors.question_board import QuestionBoard
from agent_actors.actors.resources.checkpoints import Checkpointers
from agent_actors.actors.resources.session_resources import SessionResources
from agent_actors.actors.session_gate import SessionGate
from agent_actors.actors.session_log import SessionLog
from agent_actors.actors.tool_executor import ToolExecutor
from agent_actors.actors.tool_servers.servers import ToolServers
from agent_actors.domain.ids import Ids
from agent_actors.kernel.interrupts import TakeInterrupt
from agent_actors.options.agent_options import AgentOptions
from agent_actors.permissions import GrantStore
from agent_actors.runs.hooks.session_hooks import SessionHooks
from agent_actors.runs.steering import Inbox


class ModelEndpoints(Protocol):
    """The endpoints of a runtime."""

    def get(self, options: AgentOptions) -> ModelStream:
        """Return the actor for the options' endpoint, and start it if it is new."""
        ...


@attrs.frozen(eq=False)
class RunServices:
    """The parts of the runtime that a run may use.

    Attributes:
        gate: Grants sessions to runs; one run holds a session at a time.
        log: Records sessions.
        reader: Reads the records of sessions that the run does not hold.
        bus: Publishes events to subscribers.
        executor: Executes tool calls.
        kept_results: The complete texts of truncated results.
        endpoints: Streams model responses.
        questions: Collects answers from people.
        grants: Remembered permission decisions.
        resources: The workspaces and background commands of sessions.
        checkpointers: The checkpoints of workspaces.
        tool_servers: The connections to servers of remote tools.
        make_project_files: Returns a reader of project files, which reads nothing by itself.
        session_hooks: Fires `session_start` and `session_end`.
        inboxes: The steering inboxes of live runs, by run id.
        ids: Generates ids.
        wall_clock: Returns the seconds since the epoch.
        chance: Returns random numbers from 0 to 1, for the jitter of retries.
        take_interrupt: Called with an error that user code raised, which may contain a Ctrl-C.
        instrumentation: Observes operations; None if the runtime has none.
    """

    gate: SessionGate
    log: SessionLog
    reader: LogReader
    bus: HookBus
    executor: ToolExecutor
    kept_results: KeptResults
    endpoints: ModelEndpoints
    questions: QuestionBoard
    grants: GrantStore
    resources: SessionResources
    checkpointers: Checkpointers
    tool_servers: ToolServers
    make_project_files: Callable[[], ProjectFiles]
    session_hooks: SessionHooks
    inboxes: dict[str, Inbox]
    ids: Ids
    wall_clock: Callable[[], float]
    chance: Callable[[], float]
    take_interrupt: TakeInterrupt
    instrumentation: Instrumentation | None

    def inbox_of(self, session_id: str) -> Inbox | None:
        """Return the inbox of the run that holds the session; None if no run does."""
        return self.inboxes.get(self.gate.holder(session_id) or "")
