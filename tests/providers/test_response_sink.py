"""The first character of a body is found however it arrives, and endless responses are rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import ProviderProtocolError
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.providers import response_sink as reading
from agent_actors.providers.anthropic.response import MessageResponseParser
from agent_actors.providers.openai_chat.response import ChatResponseParser
from agent_actors.providers.response_sink import DroppingSink, ResponseSink, begin_body
from tests.providers.anthropic import answers as messages
from tests.providers.openai_chat import answers as chat

blanks = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"\t", b"\xef\xbb\xbf", b"\xef", b"\xbb"])
).map(b"".join)


def begun(body: bytes, reads: list[int]) -> tuple[bytes, bytes]:
    kept, first, at = b"", b"", 0
    for size in [*reads, len(body) + 1]:
        data, at = body[at : at + size], at + size
        if first:
            kept += data
        else:
            kept, first = begin_body(kept, data)
    return kept, first


@given(blanks, st.binary(max_size=5), st.lists(st.integers(1, 4), max_size=30))
def test_body_kind_is_independent_of_splits(before: bytes, rest: bytes, reads: list[int]) -> None:
    assert begun(before + b"x" + rest, reads) == begun(before + b"x" + rest, [])


def test_blank_lines_are_skipped_and_marks_kept() -> None:
    kept = b""
    for _ in range(1000):
        kept, first = begin_body(kept, b" \r\n\n" * 20 + b" " * 20)
        assert (len(kept), first) == (4, b"")
    assert begin_body(kept, b"\n{") == (b"{", b"{")
    assert begin_body(b"\xef\xbb", b"\xbfdata: x") == (b"\xef\xbb\xbfdata: x", b"d")
    # A blank before the field's name makes it another field, so the blank must be kept.
    assert begin_body(b"", b"\n data: x") == (b" data: x", b"d")


X = "x" * 100
TAGS = ChatDialect(text_tool_calls="tags")
HARMONY = ChatDialect(text_tool_calls="harmony")


Sink = ResponseSink[ChatResponseParser] | ResponseSink[MessageResponseParser]


def feed(sink: Sink, more: bytes, times: int) -> None:
    for _ in range(times):
        sink.feed(more)


def refuse(sink: Sink, more: bytes) -> None:
    """Check that the sink accepts data within its limit and rejects data beyond it."""
    feed(sink, more, 20)
    with pytest.raises(
        ProviderProtocolError, match=r"the response is too long: [45]... characters"
    ):
        feed(sink, more, 60)


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MAX_ANSWER", 4000)
    monkeypatch.setattr(reading, "_MEASURED_EVERY", 1000)


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize(
    ("dialect", "first", "more"),
    [
        (ChatDialect(), "a", chat.text(X)),
        (ChatDialect(), "a", chat.chunk({"reasoning": X})),
        (ChatDialect(), "a", chat.calls(chat.entry(0, "c", "f", X))),
        (TAGS, "<tool_call>", chat.text(X)),
        (HARMONY, "commentary to=functions.f json{", chat.text(f'"{X}",')),
    ],
)
def test_endless_response_is_abandoned(dialect: ChatDialect, first: str, more: object) -> None:
    sink = ResponseSink(
        DroppingSink(),
        lambda _: ChatResponseParser(chat.REQUEST, endpoint="e", dialect=dialect),
        endpoint="e",
    )
    sink.start(200, {})
    sink.feed(chat.sse(chat.text(first), done=False))
    refuse(sink, chat.sse(more, done=False))


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize(
    ("block", "more"),
    [
        ({"type": "text", "text": ""}, messages.text(X)),
        ({"type": "thinking", "thinking": ""}, messages.thought(X)),
        (messages.tool_use(), messages.arguments(X)),
        ({"type": "server_tool_use", "input": {}}, messages.arguments(X)),
        ({"type": "new", "content": ""}, messages.add(0, {"type": "new_delta", "content": X})),
    ],
)
def test_endless_anthropic_response_is_abandoned(block: object, more: object) -> None:
    sink = ResponseSink(
        DroppingSink(),
        lambda _: MessageResponseParser(messages.REQUEST, endpoint="e"),
        endpoint="e",
    )
    sink.start(200, {})
    sink.feed(messages.sse(messages.begin(), messages.start(0, block)))
    refuse(sink, messages.frame(more))
