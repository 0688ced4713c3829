"""Truncates tool results that are too long, and keeps their complete texts for later reading.

Results are truncated after the `after_tool` hooks have been called, so that a hook that removes
secrets sees everything that will be kept.
"""

import math
from collections.abc import Callable
from typing import Final

import attrs
import trio

from agent_actors.actors.kept_results import KeptResults
from agent_actors.domain.json import JsonValue
from agent_actors.options.agent_options import AgentOptions
from agent_actors.permissions import PermissionPolicy
from agent_actors.tools.output import ToolOutput
from agent_actors.tools.read_result import (
    NOTICE_BYTES,
    READ_RESULT,
    cut_notice,
    page_notice,
    read_result_tool,
)
from agent_actors.tools.result_text import Content, cut_content, is_small, text_chunks

# The number of threads that measure results is not limited, since waiting for a thread would delay
# other results.
_UNBOUNDED: Final = trio.CapacityLimiter(math.inf)


async def _nothing(call_id: str, offset: int) -> ToolOutput:  # noqa: ASYNC124
    return ToolOutput(f"call {call_id!r} has no result at offset {offset}", is_error=True)


# Represents a run's `ReadResult` tool when asking a policy whether it offers that tool.
_OFFERED: Final = read_result_tool(_nothing)


@attrs.frozen(eq=False)
class ResultLimit:
    """The limit for the results of one session.

    Attributes:
        session_id: The session.
        max_bytes: The maximum number of bytes of text in a result.
        kept: Stores the complete texts.
        readable: Returns whether the model can call `ReadResult`.
    """

    session_id: str
    max_bytes: float
    kept: KeptResults
    readable: Callable[[], bool]

    def fits(self, output: ToolOutput) -> bool:
        """Return whether an output is certainly within the limit, in less than a millisecond."""
        content = output.content
        small = is_small(content, self.max_bytes)
        return small and (output.data is None or is_small(output.data, self.max_bytes))

    async def cut(self, call_id: str, output: ToolOutput) -> tuple[ToolOutput, int]:
        """Return an output within the limit, and the size of the complete text if it was truncated.

        Large values are measured in a thread and in slices, so that other tasks can continue.

        Cancellation: shielded, because the tool has ended and its result must not be lost; keeping
        the text has a time limit.
        """
        if self.max_bytes == math.inf or self.fits(output):
            return output, 0
        with trio.CancelScope(shield=True):
            return await self._cut(call_id, output)
        return output, 0  # only for type checkers, since nothing cancels this scope

    async def read(self, call_id: str, offset: int, total: int) -> ToolOutput:
        """Return the part of a complete text that begins at an offset, with a notice.

        Args:
            call_id: The call whose result was truncated.
            offset: The offset at which to begin, in bytes.
            total: The size of the complete text in bytes.

        Cancellation: safe.
        """
        if offset >= total:
            return ToolOutput(
                f"the result of call {call_id!r} ends at byte {total}; pass a smaller offset",
                is_error=True,
            )
        size = self._room
        found = await self.kept.read(self.session_id, call_id, offset, size)
        if not found:
            return ToolOutput(
                f"the rest of the result of call {call_id!r} is no longer kept; repeat the call "
                "that returned it, and request less data",
                is_error=True,
            )
        # The offset and the end may both lie within a character.
        start = next((at for at, byte in enumerate(found[:4]) if byte & 0xC0 != 0x80), 0)
        text = found[start:].decode(errors="ignore")
        end = offset + start + len(text.encode())
        return ToolOutput(text + page_notice(call_id, offset + start, end, total))

    @property
    def _room(self) -> int:
        return int(self.max_bytes) - NOTICE_BYTES

    async def _cut(self, call_id: str, output: ToolOutput) -> tuple[ToolOutput, int]:
        data, note = await self._cut_data(output.data)
        content, total = await self._cut_content(call_id, output.content)
        if note:
            content = _with_note(content, note)
        return attrs.evolve(output, content=content, data=data), total

    async def _cut_content(self, call_id: str, content: Content) -> tuple[Content, int]:
        chunks, total = await self._measured(content)
        if total <= self.max_bytes:
            return content, 0
        kept = self.readable() and await self.kept.keep(self.session_id, call_id, chunks)
        shown, size = await trio.to_thread.run_sync(
            cut_content, content, chunks, self._room, limiter=_UNBOUNDED
        )
        return _with_note(shown, cut_notice(call_id, size, total, readable=kept)), total

    async def _cut_data(self, data: JsonValue) -> tuple[JsonValue, str]:
        if is_small(data, self.max_bytes):
            return data, ""
        _, total = await self._measured(data if isinstance(data, str | list | dict) else [data])
        if total <= self.max_bytes:
            return data, ""
        return None, f"\n\n[The structured data of this result, {total} bytes, was dropped.]"

    async def _measured(self, content: Content) -> tuple[list[bytes], int]:
        def measure() -> tuple[list[bytes], int]:
            chunks = list(text_chunks(content))
            return chunks, sum(map(len, chunks))

        return await trio.to_thread.run_sync(measure, limiter=_UNBOUNDED)


def can_read_results(
    options: AgentOptions, policy: PermissionPolicy | None, *, client_side_tools: bool
) -> bool:
    """Return whether an agent's model may call `ReadResult` after a result was truncated.

    It may not if the agent has its own tool with that name, if the policy does not offer the tool,
    or if the client executes all calls itself.
    """
    if client_side_tools or READ_RESULT in options.tools_by_name:
        return False
    return policy is None or bool(policy.offered([_OFFERED]))


def _with_note(content: Content, note: str) -> Content:
    if isinstance(content, str):
        return content + note
    if isinstance(content, list):
        return [*content, {"type": "text", "text": note.strip()}]
    return {**content, "notice": note.strip()}
