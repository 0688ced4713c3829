"""A turn is rendered from its events."""

import io
from collections.abc import Callable
from typing import TypeVar, cast

from rich.console import Console, RenderableType

from agent_actors.cli.chat.view import TurnView
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.events import (
    AssistantDelta,
    AssistantMessage,
    AssistantThinking,
    AttemptRestarted,
    ErrorEvent,
    Event,
    EventScope,
    HookEvent,
    Notification,
    ResultEvent,
    StreamNotice,
    ToolProgress,
    ToolResult,
    ToolUse,
)
from agent_actors.domain.usage import Usage

EventT = TypeVar("EventT", bound=Event)
SCOPE = EventScope("session", "run", "request")


def made(kind: type[EventT], **fields: object) -> EventT:
    make = cast(Callable[..., EventT], kind)
    return make(SCOPE, "id", 0.0, **fields)


def lines(shown: list[RenderableType]) -> list[str]:
    console = Console(file=io.StringIO(), width=60)
    with console.capture() as capture:
        for one in shown:
            console.print(one)
    return [line.rstrip() for line in capture.get().splitlines()]


class Seen:
    """A view, and the lines that it has finished."""

    def __init__(self, *, thinking: bool = False) -> None:
        self.view = TurnView(EditPreviews(None), thinking=thinking, since=0.0)

    def feed(self, *events: Event, now: float = 1.0) -> list[str]:
        for event in events:
            self.view.feed(event, now)
        return lines(self.view.take())

    def live(self, now: float = 1.0) -> list[str]:
        return lines(self.view.live(now, height=20))


def say(text: str) -> AssistantDelta:
    return made(AssistantDelta, text=text)


def end(reason: str = "completed") -> ResultEvent:
    return made(
        ResultEvent, text="", stop_reason=reason, usage=Usage(3, 4), iterations=1, duration=1.25
    )


USE = made(ToolUse, tool_use_id="c1", name="find", input={"q": "tea"})
RESULT = made(
    ToolResult, tool_use_id="c1", name="find", content="green\nblack", started_at=1.0, duration=0.2
)


def test_next_block_finishes_the_previous_one() -> None:
    seen = Seen()
    assert seen.feed(say("One *a*.\n\nTw")) == []
    assert seen.live() == ["", "One a.", "", "Tw", "", "⠋ 1 s, Ctrl-C interrupts"]
    assert seen.feed(say("o\n")) == ["", "One a."]
    assert seen.live()[:2] == ["", "Two"]
    whole = made(AssistantMessage, blocks=(TextBlock("One *a*.\n\nTwo\n"),))
    assert seen.feed(whole) == ["", "Two"]
    assert seen.feed(end()) == ["", "1.2 s, 3 tokens in, 4 out", ""]
    assert seen.live(2.1) == ["", "⠙ 2 s, Ctrl-C interrupts"]


def test_withheld_response_is_shown_when_complete() -> None:
    seen = Seen()
    assert seen.feed(made(AssistantMessage, blocks=(TextBlock("One.\n\nTwo."),))) == [
        *("", "One.", "", "Two."),
    ]


def test_call_line_becomes_its_result() -> None:
    seen = Seen()
    assert seen.feed(say("Look:"), USE) == ["", "Look:"]
    assert seen.live(3.0)[:2] == ["", '● find(q="tea")  2 s']
    seen.feed(made(ToolProgress, tool_use_id="c1", name="find", progress={"done": 3}))
    assert seen.live(3.0)[1] == '● find(q="tea")  2 s  {"done": 3}'
    assert seen.feed(made(ToolProgress, tool_use_id="other", name="find", progress=1)) == []
    assert seen.feed(RESULT) == ["", '✓ find(q="tea")  200 ms', "  green", "  black"]


def test_failed_or_skipped_call_says_so() -> None:
    seen = Seen()
    refused = made(ToolResult, tool_use_id="c9", name="fi\x1bnd", content="", is_error=True)
    assert seen.feed(refused) == ["", "✗ fi\N{REPLACEMENT CHARACTER}nd"]
    seen.feed(USE)
    seen.feed(made(ErrorEvent, error="ProviderError", message="gone"))
    assert seen.live() == ["", "⠋ 1 s, Ctrl-C interrupts"]


def test_thinking_is_noted_or_shown() -> None:
    thought = made(AssistantThinking, text="Let me\nsee")
    hidden = Seen()
    assert hidden.feed(thought) == []
    assert hidden.live() == ["", "⠋ thinking 1 s, Ctrl-C interrupts"]
    assert hidden.feed(say("So.")) == []
    assert hidden.live()[-1] == "⠋ 1 s, Ctrl-C interrupts"
    seen = Seen(thinking=True)
    assert seen.feed(say("Hm."), thought) == ["", "Hm.", "", "Let me"]
    assert seen.live()[0] == "see"
    assert seen.feed(made(AssistantThinking, text="!\nYes")) == ["see!"]
    assert seen.feed(say("So.")) == ["Yes"]


def test_restarted_response_drops_unfinished_text() -> None:
    seen = Seen()
    shown = seen.feed(say("Hal"), made(AttemptRestarted, attempt=2, reason="reset\x07"))
    assert shown == ["", "note: the response was restarted: reset\N{REPLACEMENT CHARACTER}"]
    assert seen.feed(say("Whole."), end())[:2] == ["", "Whole."]


def test_notices_are_separate_from_the_response() -> None:
    seen = Seen()
    odd, note = made(StreamNotice, text="odd"), made(Notification, text="news")
    assert seen.feed(say("Text"), odd, note) == ["", "Text", "", "note: odd", "note: news"]
    assert seen.feed(made(HookEvent, hook="h", phase="p", action="a")) == []


def test_early_end_shows_its_reason() -> None:
    assert Seen().feed(end("length"))[1] == "note: the response is incomplete: length"
    assert Seen().feed(end("interrupted"))[1].startswith("note: interrupted;")


def test_calls_stay_apart_from_continuing_text() -> None:
    seen = Seen()
    seen.feed(USE, say("Meanwhile"))
    assert seen.live()[:4] == ["", "Meanwhile", "", '● find(q="tea")  0 s']
