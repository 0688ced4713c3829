"""The operations of a runtime that an `Instrumentation` observes, and their outcomes."""

from typing import Literal, TypeAlias

import attrs

from agent_actors.domain.json import JsonObject
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.run import ToolCallResult
from agent_actors.domain.usage import Usage


@attrs.frozen
class RunOperation:
    """One run, from the moment at which its driver starts until its end is recorded.

    Attributes:
        session_id: The session.
        run_id: The run.
        request_id: The id that the caller gave the request.
        provider_name: The name of the provider profile, or the class of a custom provider.
        model: The model's name at the endpoint.
        agent_name: The name of the agent; None if it has none.
        parent_run_id: The run whose tool or hook started this run; None for a root run.
        parent_tool_use_id: The call that started this run; None for a root run.
    """

    session_id: str
    run_id: str
    request_id: str
    provider_name: str
    model: str
    agent_name: str | None = None
    parent_run_id: str | None = None
    parent_tool_use_id: str | None = None


@attrs.frozen
class ModelOperation:
    """One attempt of a model call, after the endpoint's queue has admitted it.

    Attributes:
        endpoint: The name of the endpoint: its URL, or the name of a custom provider.
        provider_name: The name of the provider profile, or the class of a custom provider.
        request: The request.
        retry: True if the attempt retries a model call.
        fallback: True if the attempt uses a fallback model.
    """

    endpoint: str
    provider_name: str
    request: ModelRequest
    retry: bool = False
    fallback: bool = False


@attrs.frozen
class ToolOperation:
    """One tool call, including its hooks, permission checks and the wait for a slot.

    Attributes:
        name: The name of the tool that the model requested; the run may have no such tool.
        call_id: The id of the call.
        arguments: The arguments as requested by the model.
        description: The description of the tool; empty if the run has no such tool.
    """

    name: str
    call_id: str
    arguments: JsonObject
    description: str = ""


@attrs.frozen
class HookOperation:
    """One call of a hook.

    Attributes:
        hook: The name of the hook.
        phase: The name of the phase, for example `before_tool`.
    """

    hook: str
    phase: str


@attrs.frozen
class WaitOperation:
    """A wait in a queue.

    Attributes:
        resource: The resource: a session that another run holds, the admission to an endpoint, or
            the slots of a tool call.
    """

    resource: Literal["session", "endpoint", "tool"]


@attrs.frozen
class CommitOperation:
    """One commit of records to the session log.

    Attributes:
        records: The number of records.
    """

    records: int


@attrs.frozen
class RunOutcome:
    """The outcome of a run that ended with a result.

    Attributes:
        stop_reason: The reason why the run ended.
        usage: The tokens of the run.
    """

    stop_reason: str
    usage: Usage


Operation: TypeAlias = (
    RunOperation | ModelOperation | ToolOperation | HookOperation | WaitOperation | CommitOperation
)
Outcome: TypeAlias = RunOutcome | ModelCompleted | ToolCallResult | Exception
