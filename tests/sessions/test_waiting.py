"""A session that waits for the results of calls and for the answers to questions."""

from typing import TYPE_CHECKING

from agent_actors.domain.events import RunSuspended, SystemInit, UserQuestion
from agent_actors.domain.run import Question
from agent_actors.sessions import fold
from tests.sessions.test_rewind import back
from tests.sessions.test_state import SCOPE, answered, gave, numbered, said, use

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject


def test_open_calls_keep_model_order() -> None:
    log = numbered(said("go"), answered(use("a"), use("b"), use("c")), gave("b"))
    assert [call.id for call in fold(log).open_calls] == ["a", "c"]
    assert fold([*log, *numbered(*log, gave("c"), gave("a"))[-2:]]).open_calls == ()
    assert fold([]).open_calls == ()


def test_only_last_run_has_questions() -> None:
    begun = SystemInit(SCOPE, "id", 1.0, "/", "1")
    asked = UserQuestion(
        SCOPE,
        "id",
        1.0,
        "q1",
        "May I?",
        ("yes",),
        "look",
        {"at": 1},
        "a",
        reason="rule",
        permission=False,
    )
    ended = RunSuspended(SCOPE, "id", 1.0, ("q1", "q2"))
    log = numbered(begun, said("go"), answered(use("a")), asked, ended)
    assert fold(log[:-1]).suspended == {}
    whole = Question(
        "q1", "t", SCOPE.run_id, "May I?", ("yes",), "a", "look", {"at": 1}, "rule", 1.0, False
    )
    assert fold(log).questions("t") == (whole, Question("q2", "t", SCOPE.run_id, ""))
    answered_since = numbered(*log[:-1], gave("a"), ended)
    assert fold(answered_since).suspended["q1"].tool_use_id == ""
    for after in (begun, back(1)):
        assert fold([*log, *numbered(*log, after)[-1:]]).suspended == {}


def test_deferred_calls_keep_recorded_arguments() -> None:
    begun = SystemInit(SCOPE, "id", 1.0, "/", "1")
    left: dict[str, JsonObject] = {
        "a": {"url": "final"},
        "c": {"url": "has a result"},
        "no such": {},
    }
    ended = RunSuspended(SCOPE, "id", 1.0, (), left)
    log = numbered(begun, said("go"), answered(use("a"), use("b"), use("c")), gave("c"), ended)
    state = fold(log)
    assert [(call.id, call.input) for call in state.external.values()] == [("a", {"url": "final"})]
    assert state.is_suspended
    for after in (begun, back(1), gave("a")):
        later = fold([*log, *numbered(*log, after)[-1:]])
        assert (later.is_suspended, dict(later.external)) == (False, {})
    assert fold([*log, *numbered(*log, gave("b"))[-1:]]).is_suspended
    state.external["a"].input["url"] = "written into"
    assert left["a"] == {"url": "final"}
