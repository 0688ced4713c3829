"""The tries of one run's model calls: again after a passing failure, then by another model.

Owns what was tried, by whom and how often, within one run; what an endpoint has taught all its
sessions stands with its ModelStream. Which failures are worth another try `protocol/retry.py`
knows, and what becomes of the history the driver. A reader is never lied to: where something of a
try was shown, `attempt.restarted` says that it is void before the next one begins.

A run that went over to a fallback model stays with it: what failed once would hold up each turn.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import trio

from agent_actors.actors.model_stream import ModelStream, Try
from agent_actors.domain.events import AttemptRestarted, EventBuilder
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.usage import NO_TOKENS, Usage, estimate_tokens
from agent_actors.errors import AgentError, ProviderError
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.retry import LONGEST_PAUSE, RetryPolicy, Verdict, judge
from agent_actors.run.model.budget import Budget, NoRoom
from agent_actors.run.model.usage_accounting import Ledger
from agent_actors.run.output.event_mailbox import RunSink
from agent_actors.runtime.lifecycle import Actors

# Refusals of a call that waits its turn before its pauses grow: in a burst of sessions few calls
# are refused more often by chance, and those who are need not wait for seconds.
_EVEN_PAUSES = 2


@attrs.define(eq=False)
class _Call:
    """One model call, over all its tries with one model."""

    began: float
    # The answers that the endpoint had begun, to anybody, when this call began or last failed.
    answers: int
    tries: int = 0
    failures: int = 0
    # Refusals in a row, between which the endpoint answered nobody.
    refusals: int = 0


class Attempts:
    """The model calls of one run.

    Args:
        actors: Whom to ask.
        options: The agent, with its fallbacks.
        ledger: The run's account: requests and the tokens of what was cut off are entered there.
        limits: What the run may still use: a try that they leave no room for is not made.
        make_sink: Makes the sink of one try.
        record: Commits records and shows them.
    """

    def __init__(
        self,
        actors: Actors,
        options: AgentOptions,
        ledger: Ledger,
        limits: Budget,
        *,
        make_sink: Callable[[], RunSink],
        record: Callable[[list[EventBuilder]], Awaitable[None]],
    ) -> None:
        self._actors = actors
        self._ledger = ledger
        self._limits = limits
        self._make_sink = make_sink
        self._record = record
        self._models = (options, *options.fallback_options)
        self._at = 0
        self._policy: RetryPolicy = options.retry_policy
        self._budget = self._policy.run_budget
        self._sink: RunSink | None = None
        # That of the answer, if one was given.
        self._answered: RunSink | None = None
        # How many tries were void so far, of this model call.
        self._void = 0
        # Of this model call: its number in the run, and the key as it was first asked.
        self._number = 0
        self._first_key = ""

    async def answer(self, request: ModelRequest) -> ModelCompleted:
        """Ask until there is an answer.

        Args:
            request: What to ask; its settings are those of the first model. All tries bear its
                key. Asked again in the same model call, which hooks may do, what was shown is void,
                and the key is another.

        Raises:
            NoRoom: Asked again, and the limits leave no room for it; what was shown stands.
            ProviderError: The last failure of the last model; notes tell what was tried.

        Cancellation: the connection is closed before this returns; what was cut off is `cut_off`.
        """
        if self._number == self._ledger.model_calls:  # by whoever stands around
            request = await self._again(request)
        else:
            if self._sink is not None:  # a hook had an answer of its own in place of what failed
                await self._record(self.cut_off())
            self._void, self._answered = 0, None
            self._number, self._first_key = self._ledger.model_calls, request.idempotency_key
        while True:
            options = self._models[self._at]
            if self._at:
                request = attrs.evolve(request, settings=options.settings)
            try:
                return await self._ask(options, request)
            except ProviderError as error:
                if self._at + 1 == len(self._models) or self._is_used_up(error):
                    raise
                self._at += 1
                # What is asked is another request, which a strict gateway must not take for the
                # first one.
                request = attrs.evolve(request, idempotency_key=self._actors.ids.new())
                await self._restart(f"{error}; going on with {self._models[self._at].model}")
                self._ledger.go_over_to(self._models[self._at].prices)

    def cut_off(self) -> list[EventBuilder]:
        """The tokens of an answer that was cut off, as a record; none if nothing had come."""
        tokens, self._sink = self._shown_tokens(), None
        return [] if tokens is NO_TOKENS else [self._ledger.enter_usage(tokens)]

    def _shown_tokens(self) -> Usage:
        """What came of the try under way, or of the one that failed, as far as can be told."""
        if self._sink is None or not self._sink.characters:
            return NO_TOKENS
        tokens = estimate_tokens(self._sink.characters)
        return Usage(output_tokens=tokens, estimated=True)

    def _is_used_up(self, error: ProviderError) -> bool:
        """True if the limits leave no room for another try; the error says so."""
        what = self._limits.refuses_request(self._shown_tokens())
        note = f"not tried again: the budget is used up ({what})"
        if what and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        return bool(what)

    async def _again(self, request: ModelRequest) -> ModelRequest:
        what = self._limits.refuses_request(self._shown_tokens() + self._ledger.owed)
        if what:
            raise NoRoom(what)
        await self._restart("the model is asked once more")
        if request.idempotency_key != self._first_key:
            return request
        return attrs.evolve(request, idempotency_key=self._actors.ids.new())

    def _bounded(self, request: ModelRequest) -> ModelRequest:
        settings = self._limits.bounded(request.settings)
        return request if settings is request.settings else attrs.evolve(request, settings=settings)

    async def _ask(self, options: AgentOptions, request: ModelRequest) -> ModelCompleted:
        call = _Call(trio.current_time(), self._actors.endpoints.get(options).answers)
        while True:
            # Anew for each try: an endpoint is given up when nobody has asked it for a minute.
            stream = self._actors.endpoints.get(options)
            self._sink = self._make_sink()
            self._ledger.begin_request()
            try:
                answer = await stream.stream(
                    self._bounded(request),
                    self._sink,
                    options.deadlines,
                    Try(call.tries > 0, self._at > 0, self._policy.patience),
                )
            except AgentError as error:
                if not isinstance(error, ProviderError):
                    raise
                verdict = judge(error, now=self._actors.wall_clock())
                pause = self._pause(call, verdict, stream)
                if pause is None or self._is_used_up(error):
                    _tell(error, call, verdict)
                    raise
                await self._restart(str(error))
                await trio.sleep(pause)
            except Exception as error:
                # A provider of the caller's own; the face raises errors of one tree only.
                raise ProviderError(
                    f"the provider raised {type(error).__name__}: {error}",
                    endpoint=stream.provider.name,
                ) from error
            else:
                self._ledger.owe(answer.usage)
                self._answered, self._sink = self._sink, None
                return answer

    def _pause(self, call: _Call, verdict: Verdict, stream: ModelStream) -> float | None:
        """Seconds before the next try; None if there is none."""
        call.tries += 1
        others = stream.answers > call.answers
        call.answers = stream.answers
        policy = self._policy
        if not verdict.again or not policy.max_retries:
            return None
        if verdict.after is not None and verdict.after > LONGEST_PAUSE:
            return None
        if verdict.refused and others:
            call.refusals = 0
            return self._turn_pause(call, verdict)
        call.refusals += verdict.refused
        call.failures += not verdict.refused
        used_up = call.refusals + call.failures > policy.max_retries
        if used_up or not self._budget or not stream.take_retry():
            return None
        self._budget -= 1
        if verdict.after is None:
            return policy.pause(call.refusals + call.failures, self._actors.chance())
        # What a refusal asks for, the whole endpoint waits, in line.
        return 0.0 if verdict.refused else verdict.after

    def _turn_pause(self, call: _Call, verdict: Verdict) -> float | None:
        """Seconds for a call that only waits its turn; None if its patience is at an end.

        It grows with the tries, whatever time the endpoint names: one that says "a second" to this
        call for minutes is not asked each second. The named time itself passes in line meanwhile.
        Where patience ends before the pause does, the last try is made then.
        """
        left = call.began + self._policy.patience - trio.current_time()
        if left <= 0 or (verdict.after or 0.0) > left:
            return None
        grown = max(1, call.tries - _EVEN_PAUSES)
        return min(left, self._policy.pause(grown, self._actors.chance()))

    async def _restart(self, reason: str) -> None:
        self._void += 1
        sink, self._answered = self._sink or self._answered, None
        shown = sink is not None and sink.shows and sink.characters > 0
        drafts = [*self.cut_off(), *self._ledger.enter_owed()]
        if drafts:
            restarted = partial(AttemptRestarted, attempt=self._void + 1, reason=reason)
            await self._record([*drafts, restarted] if shown else drafts)


def _tell(error: ProviderError, call: _Call, verdict: Verdict) -> None:
    if call.tries > 1:
        error.add_note(f"tried {call.tries} times in {trio.current_time() - call.began:.1f} s")
    if verdict.again and verdict.after is not None and verdict.after > LONGEST_PAUSE:
        error.add_note(
            f"the endpoint asks to wait {verdict.after:g} s; more than {LONGEST_PAUSE:g} s is not "
            "waited"
        )
