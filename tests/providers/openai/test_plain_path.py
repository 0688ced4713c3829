"""The fast path for chunks that only add text does what the careful path does, whatever comes."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelDelta, ModelFinished, ModelRequest, ModelSettings
from agent_actors.errors import ProviderError
from agent_actors.protocol.sse import SSEDecoder
from agent_actors.providers.openai.answer import AnswerReader
from agent_actors.providers.openai.wire import read_plain

REQUEST = ModelRequest(Messages().user("x"), ModelSettings("m"))

Outcome = tuple[list[ModelDelta], ModelFinished | str]


class CarefulDecoder(SSEDecoder):
    """Finds no read plain."""

    def feed_plain(self, data: bytes) -> list[str] | None:
        return None


def read(pieces: list[bytes], *, careful: bool) -> Outcome:
    """What a reader of an answer shows, and what it comes to."""
    reader = AnswerReader(REQUEST, endpoint="e")
    if careful:
        reader._sse = CarefulDecoder()
    shown: list[ModelDelta] = []
    try:
        for piece in pieces:
            shown += reader.feed(piece)
        shown += reader.close()
        return shown, reader.finish()
    except ProviderError as error:
        return shown, f"{type(error).__name__}: {error}"


def chunk(delta: object, **more: object) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    return "data: " + json.dumps({"id": "r", "model": "m", "choices": [choice]}) + "\n\n"


TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["word ", "", "é", "日本", "\U0001f600", "\ud83d", "\ude00", "error: x", "[DONE]"]
    ),
)


def plain(text: str) -> str:
    return chunk({"content": text})


def odd(text: str) -> list[str]:
    """Chunks with this text that are more than text, or less."""
    return [
        chunk({"content": text, "role": "assistant"}),
        chunk({"content": text, "tool_calls": None, "refusal": None}),
        chunk({"content": text}, finish_reason="stop"),
        chunk({"reasoning_content": text}),
        chunk({"content": text, "reasoning": "hm"}),
        chunk({"content": text, "extra_content": {"s": text}}),
        chunk({"content": [{"type": "text", "text": text}]}),
        chunk({}, message={"content": text}),
    ]


PLAIN = TEXTS.map(plain)
ODD = st.one_of(
    TEXTS.map(odd).flatmap(st.sampled_from),
    st.just(chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]})),
    st.just('data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}\n\n'),
    st.just('data: {"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}\n\n'),
    st.just("data: no json\n\n"),
    st.just("data: [DONE]\n\n"),
    st.just('data: {"error": {"message": "overloaded"}}\n\n'),
    st.just('error: {"message": "bad"}\n\n'),
    st.just('event: error\ndata: {"message": "bad"}\n\n'),
    st.just(": comment\n\n"),
    st.just("id: 7\nretry: 3\n"),
    st.just("data: two\ndata: lines\n\n"),
    st.just("\n"),
)


@given(
    events=st.lists(st.one_of(PLAIN, PLAIN, ODD), max_size=12),
    bom=st.booleans(),
    crlf=st.booleans(),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
)
def test_the_fast_and_the_careful_path_agree_on_any_stream_however_it_is_cut(
    events: list[str], cuts: list[int], *, bom: bool, crlf: bool
) -> None:
    text = "".join(events).replace("\n", "\r\n" if crlf else "\n")
    body = (b"\xef\xbb\xbf" if bom else b"") + text.encode("utf-8", "surrogatepass")
    at = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[one:two] for one, two in pairwise(at)]
    assert read(pieces, careful=False) == read(pieces, careful=True)


@given(events=st.lists(st.one_of(PLAIN, PLAIN, ODD), max_size=6))
def test_they_agree_event_by_event_and_byte_by_byte(events: list[str]) -> None:
    whole = [event.encode("utf-8", "surrogatepass") for event in events]
    body = b"".join(whole)
    single = [body[at : at + 1] for at in range(len(body))]
    assert read(whole, careful=False) == read(whole, careful=True)
    assert read(single, careful=False) == read(single, careful=True)


@pytest.mark.parametrize(
    "line",
    [
        '{"choices": [{"delta": {"content": null}}]}',
        '{"choices": [{"delta": {}}]}',
        '{"choices": [{"delta": {"content": "a", "audio": {}}}]}',
        '{"choices": [{"delta": {"content": "a"}, "usage": {}}]}',
        '{"choices": [{"delta": {"content": "a"}}], "usage": {}}',
        '{"choices": []}',
        '{"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}',
        '{"choices": [{"delta": {"content": "\\ud83d"}}]}',
        "[1]",
        "",
    ],
)
def test_whatever_is_more_than_text_is_not_plain(line: str) -> None:
    text = '{"choices": [{"delta": {"content": "a"}}]}'
    assert read_plain([text, line, text]) == ["a"]
