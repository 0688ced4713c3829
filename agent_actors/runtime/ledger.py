"""What a run has come to so far: its calls, its tokens, its last text; and how entries are kept.

Entries of the turn machine become drafts of records here; the log gives them `seq` and time.
"""

from collections.abc import Iterable
from functools import partial

import attrs

from agent_actors.actors.session_log import Draft
from agent_actors.domain.events import (
    AssistantMessage,
    ToolResult,
    ToolUse,
    UsageEvent,
    UserMessage,
)
from agent_actors.domain.run import ToolCallResult
from agent_actors.domain.usage import Usage
from agent_actors.protocol.turn import AnswerEntry, CallEntry, Entry, ResultEntry, UserEntry


@attrs.define(eq=False)
class Ledger:
    """The running account of one run.

    Attributes:
        model_calls: Model calls begun.
        usage: Tokens of the model calls that have ended.
        text: The text of the last answer.
    """

    model_calls: int = 0
    usage: Usage = Usage()
    text: str = ""
    _calls: dict[str, ToolCallResult | None] = attrs.field(
        factory=dict[str, "ToolCallResult | None"]
    )

    @property
    def tool_calls(self) -> tuple[ToolCallResult, ...]:
        """The calls that have ended, in the model's order."""
        return tuple(call for call in self._calls.values() if call is not None)

    def enter(self, entries: Iterable[Entry]) -> list[Draft]:
        """Take these into account; return the records to keep of them."""
        return [draft for entry in entries for draft in self._enter(entry)]

    def enter_usage(self, usage: Usage) -> Draft:
        """Take the tokens of a model call into account."""
        self.usage += usage
        return partial(UsageEvent, usage=usage, total=self.usage)

    def _enter(self, entry: Entry) -> list[Draft]:
        match entry:
            case UserEntry(text=text, blocks=blocks):
                return [partial(UserMessage, text=text, blocks=blocks)]
            case AnswerEntry(answer=answer):
                self.text = answer.text
                message: Draft = partial(
                    AssistantMessage,
                    blocks=answer.blocks,
                    finish_reason=answer.finish_reason,
                    usage=answer.usage,
                    model=answer.model,
                )
                return [message, self.enter_usage(answer.usage)]
            case CallEntry(call=call):
                self._calls[call.id] = None
                return [partial(ToolUse, tool_use_id=call.id, name=call.name, input=call.input)]
            case ResultEntry(result=result, synthetic=synthetic):
                self._calls[result.id] = result
                return [_result_draft(result, synthetic=synthetic)]


def _result_draft(result: ToolCallResult, *, synthetic: bool) -> Draft:
    return partial(
        ToolResult,
        tool_use_id=result.id,
        name=result.name,
        content=result.content,
        is_error=result.is_error,
        data=result.data,
        started_at=result.started_at,
        completed_at=result.completed_at,
        duration=result.duration,
        synthetic=synthetic,
    )
