"""What a run has come to so far: its calls, its tokens, its last text; and how entries are kept.

Entries of the turn machine become drafts of records here; the log gives them `seq` and time. What
was spent goes into the log with the usage record of each model call, or of an attempt of one that
was given up. Until that record is made, requests and tool calls are *untold*: the run counts them
already, and its session's state does not.
"""

from collections.abc import Iterable
from functools import partial

import attrs

from agent_actors.domain.events import (
    AssistantMessage,
    EventBuilder,
    ToolResult,
    ToolUse,
    UsageEvent,
    UserMessage,
)
from agent_actors.domain.limits import Prices, Spent
from agent_actors.domain.model import StopDetails
from agent_actors.domain.run import ToolCallResult
from agent_actors.domain.usage import NO_TOKENS, Usage
from agent_actors.protocol.turn import AnswerEntry, CallEntry, Entry, ResultEntry, UserEntry


@attrs.define(eq=False)
class Ledger:
    """The running account of one run.

    Attributes:
        prices: What tokens cost from here on; None: nothing that is known.
        model_calls: Model calls begun.
        usage: Tokens of the model calls that have ended, and of attempts that were given up.
        text: The text of the last answer.
        stop_details: The endpoint's own words about the last answer, if it was refused or filtered.
        damaged_lines: Data lines of all answers that could not be read completely.
    """

    prices: Prices | None = None
    model_calls: int = 0
    usage: Usage = NO_TOKENS
    text: str = ""
    stop_details: StopDetails | None = None
    damaged_lines: int = 0
    _cost: float = 0.0
    _requests: int = 0
    _begun_calls: int = 0
    # Untold, as the module says.
    _untold_requests: int = 0
    _untold_calls: int = 0
    # What an answer used that has come and is not entered yet; hooks may keep it from being so.
    _owed: Usage | None = None
    _calls: dict[str, ToolCallResult | None] = attrs.field(
        factory=dict[str, "ToolCallResult | None"]
    )

    @property
    def tool_calls(self) -> tuple[ToolCallResult, ...]:
        """The calls that have ended, in the model's order."""
        return tuple(call for call in self._calls.values() if call is not None)

    @property
    def cost(self) -> float | None:
        """What `usage` cost; None without prices."""
        return None if self.prices is None else self._cost

    def spent(self, answer: Usage = NO_TOKENS) -> Spent:
        """What the run used so far, with an answer that is not entered yet."""
        cost = self._cost + self._cost_of(answer)
        return Spent(self._requests, self._begun_calls, self.usage + answer, cost)

    def untold(self, answer: Usage = NO_TOKENS) -> Spent:
        """What of it no usage record tells, with an answer that is not entered yet."""
        return Spent(self._untold_requests, self._untold_calls, answer, self._cost_of(answer))

    def begin_request(self) -> None:
        """A request of a model call begins: its first, or one in place of one that failed."""
        self._requests += 1
        self._untold_requests += 1

    def owe(self, usage: Usage) -> None:
        """An answer has come; whatever is entered next is taken for it."""
        self._owed = usage

    @property
    def owed(self) -> Usage:
        """What that answer used; nothing if there is none."""
        return self._owed or NO_TOKENS

    def begin_tools(self, calls: int) -> None:
        """The calls of an answer begin; told of before the answer is entered."""
        self._begun_calls += calls
        self._untold_calls += calls

    def go_over_to(self, prices: Prices | None) -> None:
        """Another model answers from here on; without prices of its own it costs the same."""
        if self.prices is not None and prices is not None:
            self.prices = prices

    def enter(self, entries: Iterable[Entry]) -> list[EventBuilder]:
        """Take these into account; return the records to keep of them."""
        return [draft for entry in entries for draft in self._enter(entry)]

    def enter_usage(self, usage: Usage) -> EventBuilder:
        """Take the tokens of a model call into account; its record tells what was untold."""
        self.usage += usage
        cost: float | None = None
        if self.prices is not None:
            cost = self.prices.cost(usage)
            self._cost += cost
        draft: EventBuilder = partial(
            UsageEvent,
            usage=usage,
            total=self.usage,
            requests=self._untold_requests,
            tool_calls=self._untold_calls,
            cost=cost,
        )
        self._untold_requests = self._untold_calls = 0
        self._owed = None
        return draft

    def enter_unanswered(self) -> list[EventBuilder]:
        """The record of requests of which nothing came, or nothing was kept, if there are any."""
        if self._owed is not None:
            return [self.enter_usage(self._owed)]
        return [self.enter_usage(NO_TOKENS)] if self._untold_requests else []

    def enter_owed(self) -> list[EventBuilder]:
        """The record of an answer that is given up for another, if there is one."""
        return [] if self._owed is None else [self.enter_usage(self._owed)]

    def _cost_of(self, usage: Usage) -> float:
        return 0.0 if self.prices is None else self.prices.cost(usage)

    def _enter(self, entry: Entry) -> list[EventBuilder]:
        match entry:
            case UserEntry(text=text, blocks=blocks):
                return [partial(UserMessage, text=text, blocks=blocks)]
            case AnswerEntry(answer=answer):
                self.text = answer.text
                self.stop_details = answer.stop_details
                self.damaged_lines += answer.damaged_lines
                message: EventBuilder = partial(
                    AssistantMessage,
                    blocks=answer.blocks,
                    finish_reason=answer.finish_reason,
                    usage=answer.usage,
                    model=answer.model,
                    stop_details=answer.stop_details,
                    damaged_lines=answer.damaged_lines,
                )
                return [message, self.enter_usage(answer.usage)]
            case CallEntry(call=call):
                self._calls[call.id] = None
                return [
                    partial(
                        ToolUse,
                        tool_use_id=call.id,
                        name=call.name,
                        input=call.input,
                        repaired=call.repaired,
                    )
                ]
            case ResultEntry(result=result, synthetic=synthetic):
                self._calls[result.id] = result
                return [_result_draft(result, synthetic=synthetic)]


def _result_draft(result: ToolCallResult, *, synthetic: bool) -> EventBuilder:
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
