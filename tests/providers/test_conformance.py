"""Decoding conformance in both protocols: the same turn always gives the same blocks.

The tests cover every quirk alone, possible pairs of quirks, and random mixes, with all kinds of
splits. `make test-deep` tries every pair, draws at least `DEEP_EXAMPLES` random mixes and reports
how many passed.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_actors.testing import (
    body_of,
    call,
    check_capture,
    check_turn,
    interleave,
    say,
    think,
    usage,
)
from agent_actors.testing.conformance.checks import QUIRKS, read_body
from agent_actors.testing.conformance.quirks import DistortedTurn
from agent_actors.testing.replies import Protocol
from agent_actors.testing.script import Step
from agent_actors.testing.strategies import distorted_turns, mixes, turns
from tests.sweeps import DEEP

# A turn with every kind of content, including the difficult cases of each.
TURN: Final[tuple[Step, ...]] = (
    think("Let me", " th\U0001f600ink", signature="seal"),
    think("again"),
    say("I look", "."),
    call("find", {"q": "é\U0001f600\n", "n": [1, {}]}, chunks=2),
    interleave(call("now", id="b", chunks=2), call("find", {"q": 2}, id="c", chunks=2)),
    call("find", {"q": 3}),
    say("Ha", "Ha"),
    call("now"),
    usage(30, 12, cache_read_tokens=8, reasoning_tokens=2),
)
EACH: Final = [(protocol, name) for protocol, book in QUIRKS.items() for name in book.quirks]
PAIRED: Final = {
    (protocol, name): [b for a, b in book.pairs() if a == name]
    for protocol, book in QUIRKS.items()
    for name in book.quirks
}
# One in so many pairs is tried.
SAMPLE: Final = 1 if DEEP else 4
DEEP_EXAMPLES: Final = 100_000
# The number of mixes and splits to draw per turn, because drawing a turn takes longest.
# Derandomized
# shards would all draw the same, so there is one; the deep profile has many, for all workers.
TRIES: Final = 4
EXAMPLES: Final = settings().max_examples * TRIES
SHARDS: Final = -(-DEEP_EXAMPLES // len(QUIRKS) // EXAMPLES) if DEEP else 1
CUTS: Final = st.lists(st.integers(0, 2**16), max_size=12)


def check(found: DistortedTurn, split: range | list[int]) -> None:
    check_turn(found.turn, found.body, split, protocol=found.protocol, quirks=found.quirks)


def single_bytes(body: bytes) -> range:
    return range(1, len(body))


def chunks(body: bytes) -> range:
    return range(5, len(body), 11)


def ways(body: bytes) -> Iterator[range]:
    """Yield positions for no split, for single bytes, and for a split every 11 bytes."""
    yield range(0)
    yield single_bytes(body)
    yield chunks(body)


@pytest.mark.parametrize(("protocol", "quirk"), EACH)
def test_a_quirk_alone_changes_no_block(protocol: Protocol, quirk: str) -> None:
    found = QUIRKS[protocol].distorted(TURN, [quirk])
    check(found, range(0))
    check(found, chunks(found.body))


# With tracing, single bytes and thousands of pairs take a minute, and cover no line that the test
# above does not cover.
@pytest.mark.no_cover
@pytest.mark.parametrize(("protocol", "quirk"), EACH)
def test_a_pair_of_quirks_changes_no_block(protocol: Protocol, quirk: str) -> None:
    alone = QUIRKS[protocol].distorted(TURN, [quirk])
    check(alone, single_bytes(alone.body))
    others = PAIRED[protocol, quirk]
    # The sample begins at a different place for each quirk, so that it contains every quirk.
    first = EACH.index((protocol, quirk)) % SAMPLE % max(len(others), 1)
    for other in others[first::SAMPLE]:
        found = QUIRKS[protocol].distorted(TURN, [quirk, other])
        for split in ways(found.body) if DEEP else [chunks(found.body)]:
            check(found, split)


@pytest.mark.no_cover
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("protocol", QUIRKS)
def test_quirks_and_splits_change_no_block(
    protocol: Protocol, shard: int, record_property: Callable[[str, object], None]
) -> None:
    held = 0

    @given(
        turns(finishes=True),
        st.lists(st.tuples(mixes(protocol=protocol), CUTS), min_size=TRIES, max_size=TRIES),
    )
    def passes(turn: list[Step], tries: list[tuple[frozenset[str], list[int]]]) -> None:
        nonlocal held
        for mix, places in tries:
            found = QUIRKS[protocol].distorted(turn, mix)
            check(found, [place % len(found.body) for place in places])
            held += 1

    passes()
    assert held >= EXAMPLES
    record_property("conformance_examples", held)  # the summary of the test run adds these up


@given(st.sampled_from(tuple(QUIRKS)), st.data())
def test_splits_change_nothing_shown(protocol: Protocol, data: st.DataObject) -> None:
    found = data.draw(distorted_turns(protocol=protocol))
    whole, bytewise, _ = (
        read_body(found.body, protocol=protocol, dialect=found.traits.dialect, split=split)
        for split in ways(found.body)
    )
    assert whole == bytewise


@pytest.mark.parametrize("done", [b"data: [DONE]\n\n", b""])
@pytest.mark.parametrize("late", [b'error: {"message":"late"}\n\n', b'data: {"error":"late"}\n\n'])
def test_error_after_end_counts_nowhere(done: bytes, late: bytes) -> None:
    clean = body_of([say("Hi"), usage(3, 1)]).removesuffix(b"data: [DONE]\n\n")
    found = check_capture(clean + done + late + b'data: {"choices":[]}\n\n')
    assert (found.text, found.error) == ("Hi", "")


def test_content_after_error_is_hidden() -> None:
    first, second = (QUIRKS["chat"].frames(QUIRKS["chat"].events((say(text),)))[1] for text in "ab")
    found = check_capture(first + b'error: {"message":"no"}\n\n' + second, random_splits=200)
    assert found.error.endswith("no")
    assert read_body(first + b'error: {"message":"no"}\n\n' + second).text == "a"
