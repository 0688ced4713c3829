"""The conformance checks report responses that violate them, and check captures."""

from collections.abc import Sequence

import attrs
import pytest

from agent_actors.domain.blocks import TextBlock, ToolUseBlock
from agent_actors.domain.model import ModelCompleted, ModelDelta
from agent_actors.errors import ProviderInBandError, ProviderProtocolError
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.providers.openai_chat.response import ChatResponseParser
from agent_actors.testing import (
    assembled,
    body_of,
    call,
    check_capture,
    check_turn,
    finish,
    hang,
    say,
    think,
    usage,
)
from agent_actors.testing.conformance import QUIRKS, read_body, split_body
from agent_actors.testing.replies import Protocol
from agent_actors.testing.script import Step, Turn

TURN: list[Step] = [
    think("Hm."),
    say("Hello", "!"),
    call("find", {"q": 1}, id="a"),
    call("now", id="b"),
    usage(3, 4),
]
BODY = body_of(TURN)


def broken(turn: Turn, body: bytes = BODY, split: Sequence[int] = (), **more: str) -> str:
    quirks = [more["quirk"]] if "quirk" in more else []
    with pytest.raises(AssertionError) as caught:
        check_turn(turn, body, split, quirks=quirks)
    return str(caught.value)


class Forgetful(ChatResponseParser):
    """A parser that loses the deltas of a read that begins with a quotation mark."""

    def feed(self, data: bytes) -> Sequence[ModelDelta]:
        shown = super().feed(data)
        return () if data.startswith(b'"') else shown


class Hasty(ChatResponseParser):
    """A parser that fails if a read ends in the middle of a line."""

    def feed(self, data: bytes) -> Sequence[ModelDelta]:
        if data.endswith(b'"con'):
            raise ProviderProtocolError("too short", endpoint=self._endpoint)
        return super().feed(data)


@pytest.mark.parametrize("protocol", QUIRKS)
def test_response_blocks_equal_turn_blocks(protocol: Protocol) -> None:
    body = body_of(TURN, protocol)
    blocks = assembled(body, protocol=protocol, split=[5, 9, 3])
    assert blocks[1:] == (
        TextBlock("Hello!"),
        ToolUseBlock("a", "find", {"q": 1}, '{"q":1}'),
        ToolUseBlock("b", "now", {}, "{}"),
    )
    check_turn(TURN, body, [7], protocol=protocol)


def test_invalid_response_is_raised() -> None:
    with pytest.raises(ProviderProtocolError):
        assembled(b"<html>")
    with pytest.raises(ProviderInBandError):
        assembled(b'{"error":{"message":"no"}}')


def test_a_body_is_cut_only_within_itself() -> None:
    assert split_body(b"abc", [2, 0, 2]) == [b"", b"ab", b"c"]
    for places in ([4], [-1, 2]):
        with pytest.raises(ValueError, match="cannot be cut"):
            assembled(b"abc", split=places)


def test_endless_turn_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="hangs"):
        check_turn([say("Hi"), hang()], BODY)


@pytest.mark.parametrize(
    ("turn", "wrong"),
    [
        ([*TURN, say("more")], "blocks: expected"),
        ([think("Hm"), *TURN[1:]], "streamed thinking: expected 'Hm', got 'Hm.'"),
        ([TURN[0], say("Hello"), *TURN[2:]], "streamed text: expected 'Hello', got 'Hello!'"),
        ([*TURN, finish("length")], "reason: expected 'length', got 'tool_calls'"),
        ([*TURN, usage(3, 5)], "usage: expected Usage(input_tokens=3, output_tokens=5"),
        ([*TURN[:3], call("now", id="c")], "ids: expected ['a', 'c'], got ['a', 'b']"),
        ([*TURN[:3], call("now", {"x": 1}, id="b")], "('call', 'now', {'x': 1}"),
        (TURN[:3], "blocks: expected"),
    ],
)
def test_differences_from_turn_are_reported(turn: list[Step], wrong: str) -> None:
    assert wrong in broken(turn)


def test_unknown_ids_need_only_be_valid() -> None:
    check_turn([*TURN[:2], call("find", {"q": 1}), call("now", id="")], BODY)
    check_turn(call("f"), BODY_WITHOUT_ID, quirks=["no_ids"])
    check_turn(
        call("f", id="call_before"), body_of(call("f", id="call_before")), quirks=["id_known"]
    )


BODY_WITHOUT_ID = body_of(call("f", id=""))


def test_repeated_ids_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Repeating(ChatResponseParser):
        def finish(self) -> ModelCompleted:
            answer = super().finish()
            return attrs.evolve(answer, blocks=(*answer.blocks[:3], *answer.blocks[2:3]))

    monkeypatch.setattr("agent_actors.testing.conformance.checks.ChatResponseParser", Repeating)
    told = broken([*TURN[:3], call("find", {"q": 1}), TURN[-1]])
    assert "ids of calls must be unique and not empty, got ['a', 'a']" in told


def test_failure_is_reported() -> None:
    assert "parsing failed: ProviderProtocolError" in broken("Hi", b"data: nothing\n\n")


def test_a_quirk_that_fails_must_fail() -> None:
    assert "expected the endpoint's error, got Reading(" in broken(TURN, quirk="error_chunk")
    other = b'data: {"error":"something else"}\n\n'
    assert "got 'ProviderInBandError" in broken("Hi", other, quirk="error_chunk")
    found = QUIRKS["chat"].distorted("Hi", ["error_chunk"])
    assert "before the error differs" in broken("Hello", found.body, quirk="error_chunk")
    check_turn("Hi there", found.body, quirks=["error_chunk"])  # cut by its error


def test_spoiling_quirk_must_spoil() -> None:
    assert "('fault', 'now')" in broken(TURN, quirk="cut_short")


def test_empty_result_may_be_none() -> None:
    check_turn([], b"data: [DONE]\n\n", quirks=["no_reason"])
    check_turn([], body_of([]), quirks=["no_reason"])


def test_unexpected_extras_are_reported() -> None:
    found = QUIRKS["chat"].distorted(TURN, ["extra_content"])
    check_turn(found.turn, found.body, quirks=found.quirks)
    assert "thought_signature" in broken(TURN, found.body)
    assert "blocks" in broken(TURN, quirk="extra_content")


def test_failing_cuts_are_minimized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_actors.testing.conformance.checks.ChatResponseParser", Forgetful)
    at = BODY.index(b'"Hello"') + len(b'"Hello')
    message = broken(TURN, split=[1, 30, 90, at, at + 50])
    assert "streamed text: expected 'Hello!', got ''" in message
    assert message.endswith(f"""cut at {at}: {BODY[at - 24 : at]!r} | {BODY[at : at + 24]!r})""")
    check_turn(TURN, BODY, [1, 30, 90])


def test_failure_without_cuts_shows_none() -> None:
    assert broken("Hi", split=[3, 9]).endswith(f"({len(BODY)} bytes, in one read)")


# With tracing, a split at every position takes seconds, and covers no line of its own.
@pytest.mark.no_cover
@pytest.mark.parametrize("protocol", QUIRKS)
def test_capture_is_independent_of_splits(protocol: Protocol) -> None:
    found = check_capture(body_of(TURN, protocol), protocol=protocol)
    assert (found.text, found.thinking, found.finish_reason) == ("Hello!", "Hm.", "tool_calls")
    assert (found.usage.input_tokens, found.error, len(found.blocks)) == (3, "", 4)


def test_consistently_failing_capture_passes() -> None:
    body = QUIRKS["chat"].distorted(TURN, ["error_chunk"]).body
    assert "the model gave up" in check_capture(body).error
    assert "contained neither a response" in check_capture(b"").error
    assert check_capture(b"{").error


def test_capture_may_need_a_profile() -> None:
    body = QUIRKS["chat"].distorted(say("ha", "haha"), ["cumulative"]).body
    assert check_capture(body).text != "hahaha"
    assert check_capture(body, dialect=ChatDialect(cumulative=True)).text == "hahaha"
    assert read_body(body, dialect=ChatDialect(cumulative=True), split=[9]).text == "hahaha"


def test_split_dependent_capture_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_actors.testing.conformance.checks.ChatResponseParser", Forgetful)
    with pytest.raises(AssertionError, match="the split changes the response") as caught:
        check_capture(BODY)
    assert str(caught.value).count(" | ") == 1


def test_failing_split_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_actors.testing.conformance.checks.ChatResponseParser", Hasty)
    with pytest.raises(AssertionError, match="too short"):
        check_capture(BODY)


def test_large_capture_is_cut_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_actors.testing.conformance.checks.EVERY_POSITION_BYTES", 16)
    read: list[int] = []

    class Counting(ChatResponseParser):
        def close(self) -> Sequence[ModelDelta]:
            read.append(1)
            return super().close()

    monkeypatch.setattr("agent_actors.testing.conformance.checks.ChatResponseParser", Counting)
    body = body_of("Hi")
    check_capture(body, random_splits=5)
    assert 16 <= len(read) <= 16 + 7
