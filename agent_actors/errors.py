"""Every error of the house, named by condition and by side: ours, theirs, the caller's.

    AgentError
    ├── ConfigError                  the caller built something that cannot work
    │   ├── MediaError               an image or a file that cannot be sent
    │   └── SchemaError              a type or schema that has no JSON Schema here
    ├── MessageError                 a message or a chain of messages breaks a rule
    ├── EventError                   text that should be an event
    │   ├── InvalidEventError        it is no event at all
    │   └── UnknownEventTypeError    an event of a type this version does not know
    ├── ToolArgumentsError           arguments that do not fit a tool's schema
    ├── ProviderError                the model's side; names the endpoint
    │   ├── ProviderConnectError     no connection, or it broke
    │   ├── ProviderStatusError      an answer other than 2xx
    │   ├── ProviderProtocolError    an answer that is not the protocol
    │   ├── ProviderInBandError      an error told inside a 200
    │   └── ProviderDeadlineError    nothing came in time: connect, first token, idle, total
    ├── SessionError                 one session; names it
    │   ├── SessionBusy              another run holds it
    │   ├── SessionIdle              no run holds it
    │   ├── SessionSuspended         it waits for answers, or for results of calls
    │   ├── CallClosed               a call of it takes no result
    │   ├── SessionUnknown           nothing is on record under its id
    │   ├── SessionExists            something is on record under its id already
    │   ├── SessionStoreError        the log did not take, or did not give, its records
    │   └── SessionFenced            a newer lease wrote meanwhile
    ├── OutputError                  a run has no output of the type that was asked for
    ├── HookError                    a hook raised or overran its deadline
    ├── QuestionClosed               a question takes no answer any more
    ├── PromptBlocked                a hook refused the prompt
    ├── ClientError                  a Client used in an order, or by tasks, that cannot work
    │   └── TurnLimitReached         it has made its `max_turns`
    ├── RunStopped                   the run was ended from outside
    │   ├── RunDeadlineExceeded      `run_timeout` passed
    │   ├── RuntimeShutdown          its runtime closed
    │   └── ReaderStalled            its reader took nothing for too long
    └── RuntimeFailure               the runtime itself
        ├── ActorCrashed             an actor's own loop raised: a bug of ours
        └── RuntimeClosed            it takes no more work

A message says what was expected, what came, where, and what to do. Tool failures are values
(a tool result with `is_error`), never exceptions of a run.
"""

from collections.abc import Sequence
from typing import Final, Literal

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
    "total": "the end of the answer",
}


class AgentError(Exception):
    """The root of every error that this package raises on purpose."""


class ConfigError(AgentError):
    """Options, a tool or a call that cannot work; raised where it is made, before any I/O."""


class MediaError(ConfigError):
    """An image or a file that cannot be sent: empty, too large, unreadable or not what it says."""


class SchemaError(ConfigError):
    """A type hint or a schema that cannot be turned into, or used as, a JSON Schema."""


class MessageError(AgentError):
    """A message, or a chain of messages, that breaks a rule of conversations.

    Attributes:
        index: Position of the message in its chain, counted from 0; None for a lone message.
    """

    def __init__(self, message: str, *, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class EventError(AgentError):
    """Text read back that should be an event and is not one."""


class InvalidEventError(EventError):
    """Not JSON, not an object, without a type, or with a field of the wrong shape."""


class UnknownEventTypeError(EventError):
    """A well-formed event of a type that this version does not know; raised by strict loading.

    Attributes:
        type: The type that was read.
    """

    def __init__(self, type: str) -> None:  # noqa: A002 - the wire's own name of the field
        super().__init__(
            f"unknown event type {type!r}: written by a newer version, or not an event of ours; "
            "load with strict=False to keep it as UnknownEvent"
        )
        self.type = type


class ToolArgumentsError(AgentError):
    """Arguments that do not fit a tool's schema.

    Attributes:
        tool: Name of the tool.
        field: Path of the offending field, such as `items[0].name`; empty for the whole object.
    """

    def __init__(self, message: str, *, tool: str, field: str = "") -> None:
        super().__init__(message)
        self.tool = tool
        self.field = field


class ProviderError(AgentError):
    """The model's side failed.

    Attributes:
        endpoint: The URL, or the name, of what was asked.
    """

    def __init__(self, message: str, *, endpoint: str) -> None:
        super().__init__(f"{endpoint}: {message}")
        self.endpoint = endpoint


class ProviderConnectError(ProviderError):
    """No connection could be made, or it broke before the answer was whole."""


class ProviderStatusError(ProviderError):
    """The endpoint answered with a status other than 2xx.

    Attributes:
        status: The HTTP status.
        body_message: The error message found in the body, else its beginning.
        headers: The response's headers, names in lower case.
        hint: What the caller can do about it, where that is known; empty otherwise.
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
        told = f"HTTP {status}: {body_message or '(empty body)'}{advice}"
        super().__init__(told, endpoint=endpoint)
        self.hint = hint
        self.status = status
        self.body_message = body_message
        self.headers = headers


class ProviderProtocolError(ProviderError):
    """The endpoint answered 2xx with something that is not the protocol, or cut it short."""


class ProviderInBandError(ProviderError):
    """The endpoint told of an error inside an answer that began with status 200.

    Attributes:
        code: The endpoint's own code, as text; empty if it gave none.
    """

    def __init__(self, message: str, *, endpoint: str, code: str = "") -> None:
        super().__init__(message, endpoint=endpoint)
        self.code = code


class ProviderDeadlineError(ProviderError):
    """Nothing came in time.

    Attributes:
        kind: Which deadline: `connect`, `first_token`, `idle` or `total`; or `turn`, for what never
            was sent, since the endpoint refused everybody.
        seconds: How long was waited, by this call or, for a `turn`, by anybody.
    """

    def __init__(self, *, endpoint: str, kind: DeadlineKind, seconds: float) -> None:
        if kind == "turn":
            what = f"not sent: the endpoint has refused everybody for {seconds:g} s"
        else:
            what = f"waited {seconds:g} s for {_WAITED_FOR[kind]} (option {_OPTION_OF[kind]})"
        super().__init__(what, endpoint=endpoint)
        self.kind: DeadlineKind = kind
        self.seconds = seconds


class SessionError(AgentError):
    """One session cannot do what was asked.

    Attributes:
        session_id: The session; empty where it is none in particular.
    """

    def __init__(self, message: str, *, session_id: str) -> None:
        super().__init__(f"session {session_id!r}: {message}" if session_id else message)
        self.session_id = session_id


class SessionBusy(SessionError):
    """Another run holds the session.

    Attributes:
        run_id: The run that holds it.
    """

    def __init__(self, *, session_id: str, run_id: str, reason: str = "") -> None:
        why = reason or "wait for it, or pass on_busy='queue' to run() or open_runtime()"
        super().__init__(f"run {run_id} is using it; {why}", session_id=session_id)
        self.run_id = run_id


class SessionIdle(SessionError):
    """No run holds the session, and none can be started without an agent."""


class SessionSuspended(SessionError):
    """The session's last run ended with questions or calls that wait; or with none, to resume."""


class CallClosed(SessionError):
    """The call takes no result: it has one, it is none of its caller's, or there is none.

    Attributes:
        call_id: The call.
    """

    def __init__(self, call_id: str, *, session_id: str) -> None:
        super().__init__(
            f"call {call_id!r} waits for no result: it has one, it was never left to its caller, "
            "or there is none",
            session_id=session_id,
        )
        self.call_id = call_id


class SessionUnknown(SessionError):
    """Nothing is on record under this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__("nothing is on record under this id", session_id=session_id)


class SessionExists(SessionError):
    """Something is on record under this id already; choose another, or delete the session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "something is on record under this id already; choose another one, or delete it first",
            session_id=session_id,
        )


class SessionStoreError(SessionError):
    """The store did not take, or did not give, the session's records.

    After a failed append its outcome is unknown: the next run reads the log's tail again first.
    """


class SessionFenced(SessionError):
    """A newer lease, or another writer, appended meanwhile; what this writer held back is void."""


class OutputError(AgentError):
    """The run ended without an answer of the agent's `output_type`; raised by `result.output`.

    The run itself did not fail: its result has the usage and a history that is valid.

    Attributes:
        fault: What the last answer lacked, and at which path, or why there was none to look at.
        stop_reason: How the run ended: `output_invalid` if the retries were used up.
        text: The text of the last answer.
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


class HookError(AgentError):
    """A hook raised, or overran its deadline.

    Attributes:
        hook: Name of the hook, `<unnamed>` if it has none.
        phase: The phase in which it ran.
    """

    def __init__(self, message: str, *, hook: str, phase: str) -> None:
        super().__init__(f"hook {hook} in {phase}: {message}")
        self.hook = hook
        self.phase = phase


class QuestionClosed(AgentError):
    """The question takes no answer: it has one, it timed out, its run ended, or there is none.

    Attributes:
        question_id: The question.
    """

    def __init__(self, question_id: str) -> None:
        super().__init__(
            f"question {question_id!r} is not open: it was answered, it timed out, its run ended, "
            "or there never was one"
        )
        self.question_id = question_id


class PromptBlocked(AgentError):
    """A hook refused the prompt; the message is its reason."""


class ClientError(AgentError):
    """A `Client` was used in an order, or by several tasks, in a way that cannot work."""


class TurnLimitReached(ClientError):
    """The client has made as many turns as its agent's `max_turns` allows.

    Attributes:
        max_turns: How many.
    """

    def __init__(self, max_turns: int) -> None:
        super().__init__(
            f"the client has made its {max_turns} turns (option max_turns); raise the limit, leave "
            "it out for any number, or use a new client"
        )
        self.max_turns = max_turns


class RunStopped(AgentError):
    """The run was ended from outside before it had an answer; its history is valid."""


class RunDeadlineExceeded(RunStopped):
    """`run_timeout` passed; it bounds a run's model calls and tools together.

    Attributes:
        seconds: The deadline, in seconds.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the run did not finish within {seconds:g} s (option run_timeout)")
        self.seconds = seconds


class RuntimeShutdown(RunStopped):
    """The runtime closed while the run was under way."""

    def __init__(self) -> None:
        super().__init__("the runtime closed while the run was under way")


class ReaderStalled(RunStopped):
    """The reader of a run's events took nothing for longer than `reader_stall`.

    Attributes:
        seconds: How long was waited, by this call or, for a `turn`, by anybody.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the reader took no event for {seconds:g} s (option reader_stall); "
            "read faster, or use run() if you do not need the events"
        )
        self.seconds = seconds


class RuntimeFailure(AgentError):
    """The runtime itself cannot go on."""


class ActorCrashed(RuntimeFailure):
    """An actor's own loop raised. This is a bug of ours; the cause is chained.

    Attributes:
        actor: Name of the actor.
    """

    def __init__(self, actor: str) -> None:
        super().__init__(f"actor {actor} crashed; this is a bug in agent_actors, please report it")
        self.actor = actor


class RuntimeClosed(RuntimeFailure):
    """The runtime is closed, or closing, and takes no new work."""

    def __init__(self, what: str = "the runtime") -> None:
        super().__init__(f"{what} is closed and takes no new work; open a new runtime")
