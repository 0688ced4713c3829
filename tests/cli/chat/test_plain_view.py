"""The output of events on plain streams."""

import os
import sys
from collections.abc import Generator
from pathlib import Path

import attrs
import pytest

from agent_actors.cli.chat.plain_view import PlainUI
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.events import (
    AssistantDelta,
    AssistantMessage,
    AttemptRestarted,
    EventScope,
    Notification,
    ResultEvent,
    StreamNotice,
    ToolProgress,
    ToolResult,
)
from agent_actors.domain.usage import Usage

HEAD = (EventScope("session", "run", "request"), "id", 0.0)


@attrs.frozen
class Streams:
    """A user interface on files, and the text written to them."""

    ui: PlainUI
    out: Path
    err: Path


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Streams]:
    out, err = tmp_path / "out", tmp_path / "err"
    with (
        out.open("w") as to_out,
        err.open("w") as to_err,
        Path(os.devnull).open() as nothing,
        monkeypatch.context() as patched,
    ):
        patched.setattr(sys, "stdin", nothing)
        patched.setattr(sys, "stdout", to_out)
        patched.setattr(sys, "stderr", to_err)
        yield Streams(PlainUI(EditPreviews(None)), out, err)


async def test_withheld_text_is_printed_once(
    streams: Streams,
) -> None:
    ui = streams.ui
    ui.begin_turn(thinking=False)
    whole = AssistantMessage(*HEAD, blocks=(TextBlock("Withheld."),))
    await ui.show(whole)
    await ui.show(AssistantDelta(*HEAD, text="Shown."))
    await ui.show(attrs.evolve(whole, blocks=(TextBlock("Shown."),)))
    assert streams.out.read_text() == "Withheld.\nShown.\n"
    assert streams.err.read_text() == ""


async def test_notices_and_failures_are_notes(streams: Streams) -> None:
    ui = streams.ui
    ui.begin_turn(thinking=False)
    for event in (
        AssistantDelta(*HEAD, text="Hal"),
        AttemptRestarted(*HEAD, attempt=2, reason="reset"),
        StreamNotice(*HEAD, text="odd\x1b"),
        Notification(*HEAD, text="news"),
        ToolProgress(*HEAD, tool_use_id="c", name="t", progress=1),
        ToolResult(*HEAD, tool_use_id="c", name="t", content="no", is_error=True),
        ResultEvent(
            *HEAD, text="", stop_reason="length", usage=Usage(), iterations=1, duration=0.0
        ),
    ):
        await ui.show(event)
    assert streams.out.read_text() == "Hal\n"
    assert streams.err.read_text().splitlines() == [
        "note: the response was restarted: reset",
        "note: odd\N{REPLACEMENT CHARACTER}",
        "note: news",
        "tool: t: failed",
        "  no",
        "note: the response is incomplete: length",
    ]
