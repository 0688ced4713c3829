"""Idle sessions stay locked for a while."""

from agent_actors.stores.disk.idle_sessions import IdleSessions


def test_session_is_reused_or_released() -> None:
    now = [0.0]
    kept = IdleSessions(lambda: now[0])
    assert not kept
    kept.add("a")
    now[0] = 1.0
    kept.add("b")
    assert kept
    assert (kept.news, kept.due(2.0)) == (True, [])
    assert (kept.news, kept.due(2.0)) == (False, [])
    assert kept.take("a")
    assert not kept.take("a")
    now[0] = 3.0
    assert kept.due(2.0) == ["b"]
    assert not kept.take("b")
    kept.add("c")
    assert kept.due(0.0) == ["c"]
    kept.add("d")
    kept.clear()
    assert not kept


def test_released_session_is_kept_again() -> None:
    now = [0.0]
    kept = IdleSessions(lambda: now[0])
    kept.add("a")
    now[0] = 5.0
    kept.add("a")
    assert kept.due(1.0) == []
