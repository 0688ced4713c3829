"""Counts the usage of a run (requests, tokens, tool calls), and builds records from its entries.

The turn machine's entries are converted to records here. Each model call and each failed attempt
gets a usage record. Until it is written, requests and tool calls are *unrecorded*: counted against
the run but not yet in the session state.
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
from agent_actors.domain.model import FinishReason, StopDetails
from agent_actors.domain.run import ToolCallResult
from agent_actors.domain.usage import NO_TOKENS, Usage
from agent_actors.protocol.turn import AnswerEntry, CallEntry, Entry, ResultEntry, UserEntry
from agent_actors.runs.model.token_reports import TokenReporter
from agent_actors.runs.tools.call_records import CallRecords


@attrs.define(eq=False)
class UsageAccounting:
    """The usage of one run so far.

    Attributes:
        counted_in: The usage of the run whose `Task` call started this run, in which this run's
            usage is counted as well; None if it is counted in no other run.
        prices: The current token prices; None if they are unknown.
        model_calls: The number of model calls that were started.
        usage: The tokens of the model calls that have ended, and of abandoned attempts.
        text: The text of the last response.
        finish_reason: The reason why the last response ended; `unknown` before the first response.
        stop_details: The endpoint's explanation, if the last response was refused or filtered.
        damaged_lines: The number of data lines, in all responses, that could not be read
            completely.
        call_records: The events that tools and hooks recorded for open calls.
        reporter: Reports the tokens of each model call; None if nothing asks for them.
    """

    prices: Prices | None = None
    model_calls: int = 0
    usage: Usage = NO_TOKENS
    text: str = ""
    finish_reason: FinishReason = "unknown"
    stop_details: StopDetails | None = None
    damaged_lines: int = 0
    counted_in: "UsageAccounting | None" = attrs.field(default=None, kw_only=True)
    # The usage of the agents that `Task` started, at any depth; None if it started none.
    _nested: Spent | None = attrs.field(default=None, init=False)
    call_records: CallRecords = attrs.field(factory=CallRecords, init=False)
    reporter: TokenReporter | None = attrs.field(default=None, init=False)
    _cost: float = attrs.field(default=0.0, init=False)
    _requests: int = attrs.field(default=0, init=False)
    _begun_calls: int = attrs.field(default=0, init=False)
    # Unrecorded requests and calls; see the module docstring.
    _unrecorded_requests: int = attrs.field(default=0, init=False)
    _unrecorded_calls: int = attrs.field(default=0, init=False)
    # The usage of a response that was received but not yet counted, since hooks may still discard
    # it.
    _pending: Usage | None = attrs.field(default=None, init=False)
    _calls: dict[str, ToolCallResult | None] = attrs.field(
        factory=dict[str, "ToolCallResult | None"], init=False
    )

    @property
    def tool_calls(self) -> tuple[ToolCallResult, ...]:
        """The results of all calls that have ended, in the order of the calls."""
        return tuple(call for call in self._calls.values() if call is not None)

    @property
    def cost(self) -> float | None:
        """The cost of `usage`; None without prices."""
        return None if self.prices is None else self._cost

    def spent(self, answer: Usage = NO_TOKENS) -> Spent:
        """Return the run's usage so far, including a response that is not counted yet."""
        cost = self._cost + self._cost_of(answer)
        own = Spent(self._requests, self._begun_calls, self.usage + answer, cost)
        return own if self._nested is None else own + self._nested

    def unrecorded(self, answer: Usage = NO_TOKENS) -> Spent:
        """Return the unrecorded usage, including a response that is not counted yet."""
        own = Spent(
            self._unrecorded_requests, self._unrecorded_calls, answer, self._cost_of(answer)
        )
        return own if self._nested is None else own + self._nested

    @property
    def usage_total(self) -> Usage:
        """The tokens of this run and of the agents that `Task` started, at any depth."""
        return self.usage if self._nested is None else self.usage + self._nested.usage

    def begin_request(self) -> None:
        """Count one request of a model call: the first request, or a retry after a failure."""
        self._requests += 1
        self._unrecorded_requests += 1
        if self.counted_in is not None:
            self.counted_in.add_nested(requests=1)

    def set_pending(self, usage: Usage) -> None:
        """Keep the usage of a received response until its usage record is built."""
        self._pending = usage

    @property
    def pending_usage(self) -> Usage:
        """The usage of the response that is not counted yet; zero if there is none."""
        return self._pending or NO_TOKENS

    def begin_tools(self, calls: int) -> None:
        """Count the tool calls of a response, before the response itself is counted."""
        self._begun_calls += calls
        self._unrecorded_calls += calls
        if self.counted_in is not None:
            self.counted_in.add_nested(tool_calls=calls)

    def add_nested(
        self,
        *,
        requests: int = 0,
        tool_calls: int = 0,
        usage: Usage = NO_TOKENS,
        cost: float | None = None,
    ) -> None:
        """Count the usage of an agent that this run started, here and in all ancestors.

        Args:
            requests: Requests that start.
            tool_calls: Tool calls that start.
            usage: Tokens of a model call that has ended.
            cost: The cost of the tokens; None: computed with the prices of each ancestor.
        """
        own_cost = self._cost_of(usage) if cost is None else cost
        added = Spent(requests, tool_calls, usage, own_cost)
        self._nested = added if self._nested is None else self._nested + added
        if self.counted_in is not None:
            self.counted_in.add_nested(
                requests=requests, tool_calls=tool_calls, usage=usage, cost=cost
            )

    def switch_pricing(self, prices: Prices | None) -> None:
        """Switch to the prices of a fallback model; keep the current prices if either has none."""
        if self.prices is not None and prices is not None:
            self.prices = prices

    def records(self, entries: Iterable[Entry]) -> list[EventBuilder]:
        """Count entries, and return their records."""
        return [builder for entry in entries for builder in self._enter(entry)]

    def enter_usage(self, usage: Usage) -> EventBuilder:
        """Count the tokens of a model call, and return its record with the unrecorded counts."""
        self.usage += usage
        cost: float | None = None
        if self.prices is not None:
            cost = self.prices.cost(usage)
            self._cost += cost
        if self.counted_in is not None and usage is not NO_TOKENS:
            self.counted_in.add_nested(usage=usage, cost=cost)
        if self.reporter is not None and usage is not NO_TOKENS:
            self.reporter.report(usage, cost)
        draft: EventBuilder = partial(
            UsageEvent,
            usage=usage,
            total=self.usage,
            requests=self._unrecorded_requests,
            tool_calls=self._unrecorded_calls,
            cost=cost,
        )
        self._unrecorded_requests = self._unrecorded_calls = 0
        self._pending = None
        return draft

    def records_of_unanswered(self) -> list[EventBuilder]:
        """Return the record for requests and calls that have none; empty if all have one."""
        if self._pending is not None:
            return [self.enter_usage(self._pending)]
        unrecorded = self._unrecorded_requests or self._unrecorded_calls
        return [self.enter_usage(NO_TOKENS)] if unrecorded else []

    def records_of_pending(self) -> list[EventBuilder]:
        """Return the record for a response that was replaced by another; empty if none was."""
        return [] if self._pending is None else [self.enter_usage(self._pending)]

    def summary(self) -> "UsageAccounting":
        """Return a copy without the results of tool calls."""
        return UsageAccounting(self.prices, self.model_calls, self.usage, self.text)

    def _cost_of(self, usage: Usage) -> float:
        return 0.0 if self.prices is None else self.prices.cost(usage)

    def _enter(self, entry: Entry) -> list[EventBuilder]:
        match entry:
            case UserEntry(text=text, blocks=blocks):
                return [partial(UserMessage, text=text, blocks=blocks)]
            case AnswerEntry(answer=answer):
                self.text = answer.text
                self.finish_reason = answer.finish_reason
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
                recorded = self.call_records.end(result.id)
                return [*recorded, _result_draft(result, synthetic=synthetic)]


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
        complete_bytes=result.complete_bytes,
        synthetic=synthetic,
        untrusted=result.untrusted,
    )
