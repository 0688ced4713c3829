"""The law of decoding: a turn gives the same blocks whatever its quirks, however it is split."""

from collections.abc import Iterable
from itertools import combinations
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.model import ModelDelta, TextDelta, ThinkingDelta, UsageDelta
from agent_actors.testing import call, finished, interleave, say, think, usage
from agent_actors.testing.quirks_messages import (
    EXCLUDED,
    QUIRKS,
    DistortedTurn,
    compatible,
    distorted,
)
from agent_actors.testing.script import Say, Step, Think
from agent_actors.testing.strategies import distorted_turns, splits
from tests.providers.anthropic.answers import read_all, told

# One of everything, with what is hard about each.
TURN: Final[tuple[Step, ...]] = (
    think("Let me", " th\U0001f600ink", signature="seal"),
    think("again"),
    say("I look", "."),
    call("find", {"q": "é\U0001f600\n", "n": [1, {}]}, chunks=3),
    interleave(call("now", id="b", chunks=2), call("find", {"q": 2}, id="c", chunks=4)),
    say("Done."),
    usage(30, 12, cache_read_tokens=8, reasoning_tokens=2),
)
PAIRS: Final = [
    frozenset(pair) for pair in combinations(sorted(QUIRKS), 2) if frozenset(pair) not in EXCLUDED
]


def check(turn: tuple[Step, ...], quirks: frozenset[str], reads: Iterable[bytes]) -> None:
    expected = finished(turn, call_id="call_0_{}".format)
    ends = "no_message_delta" not in quirks
    if not (expected.blocks or ends):
        return  # nothing at all was said, not even how it ended
    seen, answer = read_all(reads)
    assert told(answer.blocks) == told(expected.blocks)
    assert text_of(seen) == "".join(step.text for step in turn if isinstance(step, Say))
    assert thoughts_of(seen) == "".join(step.text for step in turn if isinstance(step, Think))
    if ends:
        assert answer.finish_reason == expected.finish_reason
    if ends and expected.usage.total_tokens and not expected.usage.estimated:
        counted = [delta.usage for delta in seen if isinstance(delta, UsageDelta)]
        assert counted[-1] == answer.usage == expected.usage


def text_of(deltas: Iterable[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def thoughts_of(deltas: Iterable[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta))


def every_way(body: bytes) -> Iterable[list[bytes]]:
    yield [body]
    yield [body[at : at + 1] for at in range(len(body))]


@pytest.mark.parametrize("quirk", sorted(QUIRKS))
def test_a_quirk_alone_changes_no_block(quirk: str) -> None:
    quirks = frozenset({quirk})
    for reads in every_way(distorted(TURN, quirks)):
        check(TURN, quirks, reads)


def test_a_pair_of_quirks_changes_no_block() -> None:
    for pair in PAIRS:
        check(TURN, pair, [distorted(TURN, pair)])


@given(distorted_turns(max_quirks=8), st.data())
def test_quirks_and_splits_change_no_block(found: DistortedTurn, data: st.DataObject) -> None:
    check(found.turn, found.quirks, data.draw(splits(found.body)))


@given(distorted_turns(max_quirks=8))
def test_how_the_bytes_are_split_changes_nothing_that_is_shown(found: DistortedTurn) -> None:
    if "no_message_delta" in found.quirks and not finished(found.turn, call_id=str).blocks:
        return  # nothing at all was said, not even how it ended
    whole, *others = [read_all(reads) for reads in every_way(found.body)]
    assert others == [whole]


def test_pairs_that_do_not_go_together_are_refused_with_the_reason() -> None:
    for pair, reason in EXCLUDED.items():
        with pytest.raises(ValueError, match=reason):
            distorted("Hello", pair)
        assert len(compatible(sorted(pair))) == 1
