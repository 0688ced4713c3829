"""A set of quirks: which quirks can be combined, in which order, and with what result."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.profiles.dialect import ChatDialect
from agent_actors.testing import body_of, call, finish, interleave, say, think
from agent_actors.testing.conformance.checks import QUIRKS
from agent_actors.testing.conformance.quirks import DistortedTurn, Quirk, book_of, map_calls
from agent_actors.testing.replies import Protocol
from agent_actors.testing.script import Call, Interleave, Step
from agent_actors.testing.strategies import distorted_turns

TURN: list[Step] = [
    think("Hm", signature="seal"),
    say("a\U0001f600", "b"),
    interleave(call("find", {"q": 1}, chunks=2), call("get", {"q": 2}, chunks=2)),
    call("get", {"q": 3}),
    call("h"),
]
EACH = [(protocol, quirk) for protocol, book in QUIRKS.items() for quirk in book.quirks.values()]
CHAT = QUIRKS["chat"]
MESSAGES = QUIRKS["messages"]


def events(protocol: Protocol, *quirks: str) -> list[Any]:
    body = QUIRKS[protocol].distorted(TURN, quirks).body
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]


def entries(*quirks: str) -> list[Any]:
    found: list[Any] = []
    for event in events("chat", *quirks):
        for choice in event["choices"]:
            found += choice["delta"].get("tool_calls") or []
    return found


@pytest.mark.parametrize(("protocol", "quirk"), EACH, ids=lambda one: getattr(one, "name", one))
def test_every_quirk_changes_the_bytes(protocol: Protocol, quirk: Quirk) -> None:
    book = QUIRKS[protocol]
    assert book.distorted(TURN, [quirk.name]).body != book.distorted(TURN).body
    assert quirk.about.endswith(".")
    assert "\n" not in quirk.about
    assert bool(quirk.turns) <= (quirk.shape is not Quirk(name="x", about="X.").shape)


def test_a_turn_without_quirks_is_clean() -> None:
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    assert MESSAGES.distorted(TURN).body == body_of(TURN, "messages").replace(ping, b"")
    pieces = [entry["function"]["arguments"] for entry in entries()]
    assert pieces == ["", '{"q', "", '{"q', '":1}', '":2}', "", '{"q":3}', "", "{}"]
    assert CHAT.distorted("Hi").body == body_of("Hi")


def test_missing_ids_are_generated() -> None:
    (found,) = CHAT.distorted(call("f")).turn
    (kept,) = CHAT.distorted(call("f", id="mine")).turn
    assert isinstance(found, Call)
    assert isinstance(kept, Call)
    assert (found.id, kept.id) == ("call_0_0", "mine")


def test_unknown_quirks_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown quirks"):
        CHAT.distorted(TURN, ["odd"])
    with pytest.raises(ValueError, match="unknown quirks"):
        CHAT.traits(["odd"])


@pytest.mark.parametrize("protocol", QUIRKS)
def test_incompatible_quirks_are_refused(protocol: Protocol) -> None:
    book = QUIRKS[protocol]
    for pair, reason in book.excluded.items():
        assert pair <= book.quirks.keys()
        assert len(pair) == 2
        with pytest.raises(ValueError, match="cannot be combined"):
            book.traits(pair)
        assert reason
        assert len(book.compatible(sorted(pair))) == 1
    count = len(book.quirks)
    assert len(book.pairs()) + len(book.excluded) == count * (count - 1) // 2


def test_first_of_incompatible_quirks_wins() -> None:
    assert MESSAGES.compatible(["cr", "crlf", "pings"]) == {"cr", "pings"}
    assert CHAT.compatible(["no_done", "no_reason", "comments"]) == {"no_done", "comments"}


def test_quirks_apply_in_their_own_order() -> None:
    pair = ["text_in_start", "split_characters"]
    body = MESSAGES.distorted(TURN, pair).body
    assert body == MESSAGES.distorted(TURN, reversed(pair)).body
    begun = [e["content_block"] for e in events("messages", *pair) if "content_block" in e]
    assert begun[1]["text"] == "a\ud83d"


def test_mix_combines_effects() -> None:
    traits = CHAT.traits(["no_ids", "no_reason", "cut_short", "cumulative", "reasoning"])
    assert traits.hides == {"ids", "reason", "raw"}
    assert traits.outcome == "fault"
    assert traits.dialect == ChatDialect(cumulative=True)
    both = CHAT.traits(["cumulative", "short_ids", "error_chunk", "extra_content"])
    assert both.dialect == ChatDialect(cumulative=True, short_call_ids=True)
    assert both.outcome == "error"
    assert list(both.extra) == ["extra_content"]
    assert CHAT.traits([]).dialect is None


def test_two_quirks_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two quirks have the name 'x'"):
        book_of([Quirk(name="x", about="X."), Quirk(name="x", about="Y.")])


def test_calls_are_changed_in_place() -> None:
    steps = (call("a"), say("x"), interleave(call("b"), call("c")), call("d"))
    renamed = map_calls(steps, lambda place, one: call(f"{one.name}{place}"))
    first, _, both, last = renamed
    assert isinstance(both, Interleave)
    assert [one.name for one in (first, *both.calls, last) if isinstance(one, Call)] == [
        "a0",
        "b1",
        "c2",
        "d3",
    ]


def test_calls_keep_order_without_index() -> None:
    pieces = [
        one["delta"].get("partial_json") for one in events("messages", "no_index") if "delta" in one
    ]
    assert [piece for piece in pieces if piece][:4] == ['{"q', '":1}', '{"q', '":2}']
    assert all("index" not in event for event in events("messages", "no_index"))
    assert all("index" not in entry for entry in entries("no_index"))


def test_second_object_repeats_its_tool() -> None:
    found = [(one["index"], one["function"]["arguments"]) for one in entries("joined_calls")]
    assert found[3:8] == [(1, ""), (1, '{"q'), (1, '":2}'), (1, '{"q":3}'), (3, "")]


def test_equal_argument_calls_stay_apart() -> None:
    turn = [call("f", {"q": 1}), call("f", {"q": 1}), call("f"), call("f", {"q": 2})]
    body = CHAT.distorted(turn, ["joined_calls"]).body
    assert body.count(b'"type":"function"') == 4


def test_repeated_text_needs_unrepetitive_turn() -> None:
    (found,) = CHAT.distorted(say("ha", "ha", "hat"), ["text_again"]).turn
    assert found == say("ha")
    assert CHAT.distorted(think("ha", "hat"), ["text_again"]).turn == (think("ha"),)
    assert CHAT.distorted(think("hat"), ["text_again"]).body == body_of(think("hat"))


def test_symmetric_name_stays_complete() -> None:
    body = CHAT.distorted([call("aa"), call("a"), call("ab")], ["name_in_two"]).body
    assert b'"name":"aa"' in body
    assert b'"name":"ab"' not in body


def test_unmarked_end_has_no_reason() -> None:
    turn: list[Step] = [say("Hi"), finish("unknown")]
    for quirk in ("reason_with_last", "reason_early", "reason_twice", "reason_stop", "no_reason"):
        assert b'"stop"' not in CHAT.distorted(turn, [quirk]).body


@given(st.sampled_from(tuple(QUIRKS)), st.data())
def test_drawn_turn_uses_its_quirks(protocol: Protocol, data: st.DataObject) -> None:
    some = [*QUIRKS[protocol].quirks][:3]
    found: DistortedTurn = data.draw(distorted_turns(some, protocol=protocol))
    assert found.quirks <= {*some}
    assert found == QUIRKS[protocol].distorted(found.turn, found.quirks)


@pytest.mark.parametrize("quirk", ["cut_short", "quote_lost", "calls_in_tags"])
def test_call_quirk_ignores_plain_turn(quirk: str) -> None:
    assert CHAT.distorted("Hi", [quirk]).body == body_of("Hi")
