"""The error tree matches its documentation, and each message states the cause and the remedy."""

import ast
import inspect
import re
from typing import Any, get_args

import pytest

from agent_actors import errors
from agent_actors.errors import (
    ActorCrashed,
    AgentError,
    CallClosed,
    ConfigError,
    DeadlineKind,
    HookError,
    MessageError,
    OutputError,
    ProviderDeadlineError,
    ProviderInBandError,
    ProviderStatusError,
    QuestionClosed,
    ReaderStalled,
    RunDeadlineExceeded,
    RuntimeClosed,
    RuntimeShutdown,
    SessionBusy,
    SessionExists,
    SessionFenced,
    SessionStoreError,
    SessionUnknown,
    ToolArgumentsError,
    TurnLimitReached,
    UnknownEventTypeError,
)


def classes() -> dict[str, type[AgentError]]:
    return {
        name: cls
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, AgentError)
    }


def drawn() -> dict[str, str]:
    """Return each error's parent in the drawn tree: the nearest less indented line above."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr] # pyright: ignore[reportOptionalMemberAccess]
        found = re.match(r"([ │├└─]*)([A-Z]\w+)(  |$)", line)
        if found and (found[1] or found[2] == "AgentError"):
            above = [(column, name) for column, name in above if column < len(found[1])]
            parents[found[2]] = above[-1][1] if above else "Exception"
            above.append((len(found[1]), found[2]))
    return parents


@pytest.mark.feature("OAGS-003")
def test_error_tree_is_as_documented() -> None:
    assert drawn() == {name: cls.__bases__[0].__name__ for name, cls in classes().items()}
    assert drawn()["SchemaError"] == "ConfigError"


def test_every_error_has_a_docstring() -> None:
    module = ast.parse(inspect.getsource(errors))
    documented = {
        n.name for n in module.body if isinstance(n, ast.ClassDef) and ast.get_docstring(n)
    }
    assert documented == set(classes())


@pytest.mark.parametrize(
    ("error", "text", "attributes"),
    [
        (ConfigError("bad"), "bad", {}),
        (MessageError("empty", index=3), "empty", {"index": 3}),
        (MessageError("empty"), "empty", {"index": None}),
        (
            UnknownEventTypeError("dream"),
            (
                "unknown event type 'dream': written by a newer version or another program; "
                "load with strict=False to keep it as UnknownEvent"
            ),
            {"type": "dream"},
        ),
        (
            ToolArgumentsError("field a: required", tool="t", field="a"),
            "field a: required",
            {"tool": "t", "field": "a"},
        ),
        (
            ProviderStatusError(
                endpoint="http://e", status=429, body_message="slow down", headers={"a": "b"}
            ),
            "http://e: HTTP 429: slow down",
            {"status": 429, "body_message": "slow down", "headers": {"a": "b"}},
        ),
        (
            ProviderStatusError(endpoint="http://e", status=500, body_message="", headers={}),
            "http://e: HTTP 500: (empty body)",
            {"endpoint": "http://e"},
        ),
        (
            ProviderInBandError("overloaded", endpoint="http://e", code="busy"),
            "http://e: overloaded",
            {"code": "busy"},
        ),
        (
            SessionBusy(session_id="s", run_id="r"),
            (
                "session 's': run r is using it; wait for it, or pass on_busy='queue' to run() or "
                "open_runtime()"
            ),
            {"session_id": "s", "run_id": "r"},
        ),
        (
            SessionBusy(session_id="s", run_id="r", reason="an ancestor holds it"),
            "session 's': run r is using it; an ancestor holds it",
            {},
        ),
        (
            ProviderStatusError(
                endpoint="http://e", status=400, body_message="no", headers={}, hint="try b"
            ),
            "http://e: HTTP 400: no (try b)",
            {"hint": "try b"},
        ),
        (
            CallClosed("c", session_id="s"),
            (
                "session 's': call 'c' does not accept a result: it already has one, its tool runs "
                "in the runtime, or it does not exist"
            ),
            {"call_id": "c", "session_id": "s"},
        ),
        (SessionUnknown("s"), "session 's': no session has this id", {"session_id": "s"}),
        (
            SessionExists("s"),
            (
                "session 's': a session with this id already exists; choose another id, or delete "
                "the session first"
            ),
            {"session_id": "s"},
        ),
        (SessionStoreError("no store", session_id=""), "no store", {"session_id": ""}),
        (
            OutputError("not an int", stop_reason="completed", text="x", messages=("m",)),
            "the run ended with 'completed' and has no output: not an int",
            {
                "fault": "not an int",
                "stop_reason": "completed",
                "text": "x",
                "messages": ("m",),
            },
        ),
        (
            QuestionClosed("q"),
            (
                "question 'q' is not open: it was answered, it timed out, its run ended, or it "
                "does not exist"
            ),
            {"question_id": "q"},
        ),
        (
            TurnLimitReached(3),
            (
                "the client has used its 3 turns (option max_turns); raise or remove the limit, or "
                "use a new client"
            ),
            {"max_turns": 3},
        ),
        (SessionFenced("stale", session_id="s"), "session 's': stale", {"session_id": "s"}),
        (
            HookError("raised", hook="audit", phase="before_tool"),
            "hook audit in before_tool: raised",
            {"hook": "audit", "phase": "before_tool"},
        ),
        (
            RunDeadlineExceeded(1.5),
            "the run did not finish within 1.5 s (option run_timeout)",
            {"seconds": 1.5},
        ),
        (RuntimeShutdown(), "the runtime closed during the run", {}),
        (
            ReaderStalled(60),
            (
                "the reader read no event for 60 s (option reader_stall); "
                "read faster, or use run() if you do not need the events"
            ),
            {"seconds": 60},
        ),
        (
            ActorCrashed("gate"),
            "actor gate crashed; this is a bug in agent_actors, please report it",
            {"actor": "gate"},
        ),
        (
            RuntimeClosed(),
            "the runtime is closed and accepts no new work; open a new runtime",
            {},
        ),
        (
            RuntimeClosed("the gate"),
            "the gate is closed and accepts no new work; open a new runtime",
            {},
        ),
    ],
)
def test_messages_state_cause_and_remedy(
    error: AgentError, text: str, attributes: dict[str, Any]
) -> None:
    assert str(error) == text
    for name, value in attributes.items():
        assert getattr(error, name) == value


@pytest.mark.parametrize("kind", [kind for kind in get_args(DeadlineKind) if kind != "turn"])
def test_a_deadline_names_endpoint_wait_and_option(kind: DeadlineKind) -> None:
    error = ProviderDeadlineError(endpoint="http://e", kind=kind, seconds=2)
    assert str(error).startswith("http://e: waited 2 s for ")
    assert str(error).endswith(f"(option {kind}_timeout)")
    assert (error.kind, error.seconds, error.endpoint) == (kind, 2, "http://e")


def test_unsent_request_is_named_as_such() -> None:
    error = ProviderDeadlineError(endpoint="http://e", kind="turn", seconds=300)
    said = "the request was not sent: the endpoint has refused all requests for 300 s"
    assert str(error) == f"http://e: {said}"


def test_hints_are_added_once() -> None:
    plain = ProviderInBandError("overloaded", endpoint="http://e")
    status = ProviderStatusError(endpoint="e", status=404, body_message="no", headers={})
    for error in (plain, status):
        for hint in ("try later", "or elsewhere", "try later"):
            error.add_hint(hint)
    assert str(plain) == "http://e: overloaded (try later) (or elsewhere)"
    assert str(status) == "e: HTTP 404: no (try later) (or elsewhere)"
    assert status.hint == "try later; or elsewhere"
