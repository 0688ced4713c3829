"""The exceptions that this package raises.

    AgentError
    ├── ConfigError                  invalid options, tools or arguments
    │   ├── MediaError               an image or a file that cannot be sent
    │   └── SchemaError              an unsupported type hint or JSON Schema
    ├── MessageError                 a message or a conversation that breaks a rule
    ├── EventError                   text that cannot be read as an event
    │   ├── InvalidEventError        the text is not an event
    │   └── UnknownEventTypeError    an event of a type that this version does not know
    ├── ToolArgumentsError           arguments that do not match a tool's schema
    ├── ProviderError                a failed model request; names the endpoint
    │   ├── ProviderConnectError     the connection failed or broke
    │   ├── ProviderStatusError      a response with a status other than 2xx
    │   ├── ProviderProtocolError    a response that violates the protocol
    │   ├── ProviderInBandError      an error reported inside a 200 response
    │   └── ProviderDeadlineError    a timeout: connect, first token, idle or total
    ├── SessionError                 a failed operation on a session; names the session
    │   ├── SessionBusy              another run holds the session
    │   ├── SessionIdle              no run holds the session
    │   ├── SessionSuspended         the session waits for answers or for results of calls
    │   ├── CallClosed               a call of the session does not accept a result
    │   ├── SessionUnknown           no session has this id
    │   ├── SessionExists            a session with this id already exists
    │   ├── SessionStoreError        the store failed to write or read records
    │   └── SessionFenced            a newer lease wrote to the session
    ├── WorkspaceError               a failed operation on a workspace; says why in `reason`
    ├── ToolServerError              a server of remote tools failed or is not available
    ├── OutputError                  a run without an output of the requested type
    ├── HookError                    a hook raised or exceeded its timeout
    ├── CallbackError                a function in an agent's options failed
    ├── QuestionClosed               a question that does not accept an answer
    ├── PromptBlocked                a hook blocked the prompt
    ├── ClientError                  wrong order of `Client` calls, or use by several tasks
    │   └── TurnLimitReached         the client has used all of its `max_turns`
    ├── RunStopped                   the run was stopped from outside
    │   ├── RunDeadlineExceeded      `run_timeout` expired
    │   ├── RuntimeShutdown          the runtime closed
    │   └── ReaderStalled            the reader of the events was too slow
    └── RuntimeFailure               a failure of the runtime itself
        ├── ActorCrashed             an actor's loop raised: a bug in this package
        └── RuntimeClosed            the runtime accepts no more work

Error messages name the expected value, the actual value, where it was found, and a remedy. A failed
tool call does not raise an exception; it produces a tool result with `is_error`.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

DeadlineKind = Literal["connect", "first_token", "idle", "total", "turn"]

_OPTION_OF: Final[dict[DeadlineKind, str]] = {
    "connect": "connect_timeout",
    "first_token": "first_token_timeout",
    "idle": "idle_timeout",
    "total": "total_timeout",
}
_WAITED_FOR: Final[dict[DeadlineKind, str]] = {
    "connect": "a connection",
    "first_token": "the first token",
    "idle": "the next token",
    "total": "the end of the response",
}


class AgentError(Exception):
    """The base class of every exception that this package raises on purpose."""


class ConfigError(AgentError):
    """Invalid options, an invalid tool or an invalid call; raised before any I/O."""


class MediaError(ConfigError):
    """An image or a file that cannot be sent: empty, too large, unreadable or of the wrong type."""


class SchemaError(ConfigError):
    """A type hint that has no JSON Schema, or an invalid or unsupported JSON Schema."""


class MessageError(AgentError):
    """A message, or a conversation, that breaks a rule of conversations.

    Attributes:
        index: Position of the message in the conversation, counted from 0; None for a single
            message.
    """

    def __init__(self, message: str, *, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class EventError(AgentError):
    """Text that cannot be decoded as an event."""


class InvalidEventError(EventError):
    """Text that is not a JSON object with a type, or that has a field of the wrong shape."""


class UnknownEventTypeError(EventError):
    """A well-formed event of a type that this version does not know; raised by strict loading.

    Attributes:
        type: The event's type.
    """

    def __init__(self, type: str) -> None:  # noqa: A002 - the field's name in the JSON form
        super().__init__(
            f"unknown event type {type!r}: written by a newer version or another program; "
            "load with strict=False to keep it as UnknownEvent"
        )
        self.type = type


class ToolArgumentsError(AgentError):
    """Arguments that do not match a tool's schema.

    Attributes:
        tool: Name of the tool.
        field: Path of the invalid field, for example `items[0].name`; empty if the error concerns
            the complete object.
    """

    def __init__(self, message: str, *, tool: str, field: str = "") -> None:
        super().__init__(message)
        self.tool = tool
        self.field = field


class ProviderError(AgentError):
    """A model request failed.

    Attributes:
        endpoint: The endpoint's URL or name.
    """

    def __init__(self, message: str, *, endpoint: str) -> None:
        super().__init__(f"{endpoint}: {message}")
        self.endpoint = endpoint

    def add_hint(self, hint: str) -> None:
        """Append a remedy or an explanation to the message, unless the message contains it.

        Unlike an exception note, the text is part of `str(error)`, and therefore appears in events,
        logs and the command line's output.
        """
        if hint not in str(self):
            Exception.__init__(self, f"{self} ({hint})")


class ProviderConnectError(ProviderError):
    """The connection could not be opened, or it broke before the response was complete."""


class ProviderStatusError(ProviderError):
    """The endpoint responded with a status other than 2xx.

    Attributes:
        status: The HTTP status.
        body_message: The error message from the response body; if there is none, the beginning of
            the body.
        headers: The response's headers; names are in lower case.
        hint: A remedy; empty if none is known.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        status: int,
        body_message: str,
        headers: dict[str, str],
        hint: str = "",
    ) -> None:
        advice = f" ({hint})" if hint else ""
        message = f"HTTP {status}: {body_message or '(empty body)'}{advice}"
        super().__init__(message, endpoint=endpoint)
        self.hint: str = hint
        self.status = status
        self.body_message = body_message
        self.headers = headers

    def add_hint(self, hint: str) -> None:
        """Append a remedy or an explanation to the message and `hint`, unless already present."""
        super().add_hint(hint)
        if hint not in self.hint:
            self.hint = f"{self.hint}; {hint}" if self.hint else hint


class ProviderProtocolError(ProviderError):
    """The endpoint responded with 2xx, but the response violates the protocol or is incomplete."""


class ProviderInBandError(ProviderError):
    """The endpoint reported an error inside a response that began with status 200.

    Attributes:
        code: The endpoint's error code, as text. If the failure was reported by a finish reason,
            this is the finish reason in lower case. Empty if the endpoint sent neither.
    """

    def __init__(self, message: str, *, endpoint: str, code: str = "") -> None:
        super().__init__(message, endpoint=endpoint)
        self.code = code


class ProviderDeadlineError(ProviderError):
    """A deadline of a model request expired.

    Attributes:
        kind: The deadline: `connect`, `first_token`, `idle` or `total`. `turn` means that the
            request was not sent, because the endpoint kept refusing all requests.
        seconds: How many seconds this request waited; for `turn`, how many seconds the endpoint has
            been refusing all requests.
    """

    def __init__(self, *, endpoint: str, kind: DeadlineKind, seconds: float) -> None:
        if kind == "turn":
            what = (
                f"the request was not sent: the endpoint has refused all requests for {seconds:g} s"
            )
        else:
            what = f"waited {seconds:g} s for {_WAITED_FOR[kind]} (option {_OPTION_OF[kind]})"
        super().__init__(what, endpoint=endpoint)
        self.kind: DeadlineKind = kind
        self.seconds = seconds


class SessionError(AgentError):
    """An operation on a session failed.

    Attributes:
        session_id: The session; empty if the error does not concern a particular session.
    """

    def __init__(self, message: str, *, session_id: str) -> None:
        super().__init__(f"session {session_id!r}: {message}" if session_id else message)
        self.session_id = session_id


class SessionBusy(SessionError):
    """Another run holds the session.

    Attributes:
        run_id: The run that holds the session.
    """

    def __init__(self, *, session_id: str, run_id: str, reason: str = "") -> None:
        why = reason or "wait for it, or pass on_busy='queue' to run() or open_runtime()"
        super().__init__(f"run {run_id} is using it; {why}", session_id=session_id)
        self.run_id = run_id


class SessionIdle(SessionError):
    """No run holds the session, and no run can be started without an agent."""


class SessionSuspended(SessionError):
    """The session's last run was suspended and must be resumed.

    The run ended with open questions or calls. Even if all of them have been answered since, the
    session still needs to be resumed.
    """


class CallClosed(SessionError):
    """The call does not accept a result.

    The call already has a result, is executed by the runtime, or does not exist.

    Attributes:
        call_id: The call.
    """

    def __init__(self, call_id: str, *, session_id: str) -> None:
        super().__init__(
            f"call {call_id!r} does not accept a result: it already has one, its tool runs in the "
            "runtime, or it does not exist",
            session_id=session_id,
        )
        self.call_id = call_id


class SessionUnknown(SessionError):
    """No session has this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__("no session has this id", session_id=session_id)


class SessionExists(SessionError):
    """A session with this id already exists; choose another id or delete the session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "a session with this id already exists; choose another id, or delete the session first",
            session_id=session_id,
        )


class SessionStoreError(SessionError):
    """The store failed to write or read the session's records.

    After a failed append, the store may or may not contain the records. The next run therefore
    reads the end of the log again.
    """


class SessionFenced(SessionError):
    """A newer lease or another writer appended to the session; unwritten records are discarded."""


class OutputError(AgentError):
    """The run ended without an output of the agent's `output_type`; raised by `result.output`.

    The run itself did not fail: its result contains the usage and a valid history.

    Attributes:
        fault: The validation error and its path, or the reason why there was no output to validate.
        stop_reason: The run's stop reason: `output_invalid` if the retries were used up.
        text: The text of the last response.
        messages: The session's complete history after the run, a `Messages`. `result.messages` is
            the same history with its precise type.
    """

    def __init__(
        self,
        fault: str,
        *,
        stop_reason: str,
        text: str = "",
        messages: Sequence[object] | None = None,
    ) -> None:
        super().__init__(f"the run ended with {str(stop_reason)!r} and has no output: {fault}")
        self.fault = fault
        self.stop_reason = stop_reason
        self.text = text
        self.messages = messages


WorkspaceFailure: TypeAlias = Literal[
    "invalid",
    "not_found",
    "refused",
    "protected",
    "exists",
    "changed",
    "not_a_file",
    "not_a_directory",
    "not_empty",
    "too_large",
    "limit",
    "unavailable",
    "failed",
]


class WorkspaceError(AgentError):
    """An operation on a workspace failed.

    Attributes:
        reason: `invalid` if the path or pattern cannot name anything; `refused` if the path or host
            is outside the workspace; `protected` if the file is read-only for agents; `exists` or
            `changed` if the file is not as the caller expects; `limit` if too many processes are
            running; `unavailable` if a program or privilege is missing; `failed` for errors of the
            operating system.
        path: The path, as the caller passed it; empty if the error concerns no path.
    """

    def __init__(self, message: str, *, reason: WorkspaceFailure, path: str = "") -> None:
        super().__init__(message)
        self.reason: WorkspaceFailure = reason
        self.path = path


class ToolServerError(AgentError):
    """A server of remote tools failed, did not answer, or returned an error.

    Attributes:
        server: The name of the server; empty if it has none.
    """

    def __init__(self, message: str, *, server: str = "") -> None:
        super().__init__(message)
        self.server = server


class HookError(AgentError):
    """A hook raised or exceeded its timeout.

    Attributes:
        hook: Name of the hook; `<unnamed>` if it has none.
        phase: The phase in which the hook ran.
    """

    def __init__(self, message: str, *, hook: str, phase: str) -> None:
        super().__init__(f"hook {hook} in {phase}: {message}")
        self.hook = hook
        self.phase = phase


class CallbackError(AgentError):
    """A function in an agent's options raised, exceeded its timeout, or returned a wrong value.

    Attributes:
        function: The function: `system_prompt`, `offered of TOOL`, or `guardrail NAME`.
    """

    def __init__(self, message: str, *, function: str) -> None:
        super().__init__(f"the function {function} failed: {message}")
        self.function = function


class QuestionClosed(AgentError):
    """The question does not accept an answer.

    The question was already answered, timed out, belongs to a run that has ended, or does not
    exist.

    Attributes:
        question_id: The question.
    """

    def __init__(self, question_id: str) -> None:
        super().__init__(
            f"question {question_id!r} is not open: it was answered, it timed out, its run ended, "
            "or it does not exist"
        )
        self.question_id = question_id


class PromptBlocked(AgentError):
    """A hook blocked the prompt; the error message is the reason.

    Attributes:
        reason: The hook's reason; a generated text if the hook gave none.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ClientError(AgentError):
    """`Client` methods were called in the wrong order, or by several tasks at the same time."""


class TurnLimitReached(ClientError):
    """The client has made as many turns as its agent's `max_turns` allows.

    Attributes:
        max_turns: The limit.
    """

    def __init__(self, max_turns: int) -> None:
        super().__init__(
            f"the client has used its {max_turns} turns (option max_turns); raise or remove the "
            "limit, or use a new client"
        )
        self.max_turns = max_turns


class RunStopped(AgentError):
    """The run was stopped from outside before it completed; its history is valid."""


class RunDeadlineExceeded(RunStopped):
    """`run_timeout`, which limits the total time of a run's model calls and tools, expired.

    Attributes:
        seconds: The deadline, in seconds.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the run did not finish within {seconds:g} s (option run_timeout)")
        self.seconds = seconds


class RuntimeShutdown(RunStopped):
    """The runtime closed during the run."""

    def __init__(self) -> None:
        super().__init__("the runtime closed during the run")


class ReaderStalled(RunStopped):
    """The reader of a run's events read no event for longer than `reader_stall`.

    Attributes:
        seconds: The value of `reader_stall`, in seconds.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the reader read no event for {seconds:g} s (option reader_stall); "
            "read faster, or use run() if you do not need the events"
        )
        self.seconds = seconds


class RuntimeFailure(AgentError):
    """The runtime itself failed or is closed."""


class ActorCrashed(RuntimeFailure):
    """An actor's loop raised. This is a bug in this package; the cause is chained.

    Attributes:
        actor: Name of the actor.
    """

    def __init__(self, actor: str) -> None:
        super().__init__(f"actor {actor} crashed; this is a bug in agent_actors, please report it")
        self.actor = actor


class RuntimeClosed(RuntimeFailure):
    """The runtime is closed or closing, and accepts no new work."""

    def __init__(self, what: str = "the runtime") -> None:
        super().__init__(f"{what} is closed and accepts no new work; open a new runtime")
