"""The messages and results that a compaction shows in place of the original ones. Pure."""

from typing import Final

import attrs

from agent_actors.domain.blocks import TextBlock, ToolResultBlock
from agent_actors.domain.events import SessionCompacted
from agent_actors.domain.messages import Message

SUMMARY_HEADING: Final = "[Summary of the earlier conversation, which this message replaces.]"
"""The first line of a summary message."""

WINDOW_NOTICE: Final = "[The earlier messages of this conversation are left out.]"
"""The first line of the message that replaces messages without a summary."""


def summary_message(record: SessionCompacted) -> Message:
    """Return the user message that replaces the messages of a compaction."""
    text = f"{SUMMARY_HEADING}\n\n{record.summary}" if record.summary else WINDOW_NOTICE
    return Message("user", (TextBlock(text),))


def cleared_result(block: ToolResultBlock, kept_characters: int) -> ToolResultBlock:
    """Return a tool result with a placeholder instead of its content.

    Args:
        block: The result.
        kept_characters: The number of characters at the beginning that stay.
    """
    text = block.text
    kept = f"{text[:kept_characters]}\n" if kept_characters else ""
    what = "The rest of this result" if kept else "This result"
    placeholder = (
        f"{kept}[{what} of {block.name or 'a tool'}, which had {len(text)} characters, was removed "
        "to save space. Call the tool again if the content is needed.]"
    )
    return attrs.evolve(block, content=placeholder)
