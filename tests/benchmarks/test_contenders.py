from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contenders import CONTENDERS, LooseSplitter, Splitter
from benchmarks.harness import Endpoint

WORDS = ["a", "b ", "ü\\n", "", "last"]
EVENTS = [b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % word.encode() for word in WORDS]
BODY = b"".join([*EVENTS, b'data: {"choices":[{"delta":{}}]}\n\n', b"data: [DONE]\n\n"])
TEXTS = ["a", "b ", "ü\n", "last"]


def pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted(cut % len(body) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(at)]


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_floors_read_the_same_for_any_split(cuts: list[int]) -> None:
    split = Splitter()
    for piece in pieces(BODY, cuts):
        split.feed(piece)
    assert split.texts == TEXTS


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_socket_floor_sees_the_end(cuts: list[int]) -> None:
    body = b"".join(
        b"%x\r\n%b\r\n" % (len(event) + 2, event + b"\n\n") for event in BODY.split(b"\n\n")[:-1]
    )
    split, fed = LooseSplitter(), b""
    for piece in pieces(body, cuts):
        split.feed(piece)
        fed += piece
        assert split.ended == (b"[DONE]\n\n" in fed)
    assert split.ended
    assert split.texts == TEXTS


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_reads_every_delta(name: str, served: Endpoint) -> None:
    if name == "aiohttp":
        pytest.importorskip("aiohttp")
        pytest.importorskip("uvloop")
    work = served.work("burst/50/20", turns=7, at_once=3, deltas=50)
    cost = CONTENDERS[name](work)
    assert cost.count == 7 * 50
    assert cost.cpu > 0
    assert cost.wall > 0


@pytest.mark.parametrize("name", ["httpx", "engine", "socket", "aiohttp"])
def test_baselines_send_both_requests_of_tool_loop(name: str, served: Endpoint) -> None:
    if name == "aiohttp":
        pytest.importorskip("aiohttp")
        pytest.importorskip("uvloop")
    cost = CONTENDERS[name](served.work("tools/8/50", turns=3, at_once=2, deltas=50))
    assert cost.count == 3 * 50


def test_runtime_runs_tools_then_reads_response(served: Endpoint) -> None:
    cost = CONTENDERS["runtime"](served.work("tools/8/50", turns=3, at_once=2, deltas=50))
    assert cost.count == 3 * 50
