"""Quirks are what they are called. That they change no answer is shown with the provider."""

import json
from typing import Any

import pytest
from hypothesis import given

from agent_actors.testing import body_of, call, interleave, say, think
from agent_actors.testing.quirks_messages import (
    EXCLUDED,
    QUIRKS,
    DistortedTurn,
    compatible,
    distorted,
)
from agent_actors.testing.script import Step
from agent_actors.testing.strategies import distorted_turns

TURN: list[Step] = [
    think("Hm"),
    say("a\U0001f600", "b"),
    interleave(call("f", {"q": 1}, chunks=2), call("g", {"q": 2}, chunks=2)),
]


def events(*quirks: str) -> list[Any]:
    lines = distorted(TURN, quirks).splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]


def test_without_quirks_a_turn_is_clean_but_for_its_ping() -> None:
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    assert distorted(TURN) == body_of(TURN, "messages").replace(ping, b"")


@pytest.mark.parametrize("quirk", sorted(QUIRKS))
def test_every_quirk_makes_a_difference(quirk: str) -> None:
    assert distorted(TURN, [quirk]) != distorted(TURN)


def test_unknown_quirks_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown quirks"):
        distorted(TURN, ["odd"])


def test_calls_come_in_order_where_nothing_else_tells_them_apart() -> None:
    pieces = [e["delta"].get("partial_json") for e in events("no_index") if "delta" in e]
    assert [piece for piece in pieces if piece] == ['{"q', '":1}', '{"q', '":2}']
    assert all("index" not in event for event in events("no_index"))


def test_characters_are_cut_in_halves() -> None:
    texts = [e["delta"]["text"] for e in events("split_characters") if "text" in e.get("delta", {})]
    assert texts == ["a\ud83d", "\ude00", "b"]


def test_quirks_apply_in_their_own_order() -> None:
    first, second = ["text_in_start", "split_characters"], ["split_characters", "text_in_start"]
    assert distorted(TURN, first) == distorted(TURN, second)
    begun = [e["content_block"] for e in events(*first) if "content_block" in e]
    assert begun[1]["text"] == "a\ud83d"


def test_of_quirks_that_do_not_go_together_the_first_is_kept() -> None:
    assert compatible(["cr", "crlf", "pings"]) == {"cr", "pings"}
    assert all(pair <= QUIRKS and len(pair) == 2 for pair in EXCLUDED)


@given(distorted_turns(["cr", "crlf", "no_types"]))
def test_a_drawn_turn_is_written_with_its_quirks(found: DistortedTurn) -> None:
    assert found.body == distorted(found.turn, found.quirks)
    assert found.quirks == compatible(found.quirks)
