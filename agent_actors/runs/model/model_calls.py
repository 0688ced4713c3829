"""The model calls of one run: attempts, retries after transient failures, and fallback models.

`protocol/retry.py` classifies failures, and the driver owns the history. The ModelStream of an
endpoint keeps the state that all of its sessions share. If a failed attempt has already streamed
part of a response, `attempt.restarted` is emitted before the next attempt.

A run that has switched to a fallback model stays with that model. Otherwise, the failing first
model would delay each turn.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs
import trio

from agent_actors.actors.model_stream import AttemptInfo, ModelStream, describe_failure
from agent_actors.context.sending import messages_to_send
from agent_actors.domain.events import AssistantDelta, AttemptRestarted, EventBuilder
from agent_actors.domain.model import ModelCompleted, ModelRequest, ModelSettings, ToolSpec
from agent_actors.domain.usage import NO_TOKENS, Usage, estimate_tokens
from agent_actors.errors import AgentError, ProviderError
from agent_actors.hooks.phases import Phase
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.response.call_ids import with_unique_ids
from agent_actors.protocol.retry import LONGEST_PAUSE, RetryPolicy, Verdict, judge
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.run_hooks import HookBlock
from agent_actors.runs.model.budget import Budget, BudgetExhausted
from agent_actors.runs.model.callbacks import system_prompt_of
from agent_actors.runs.model.guarded_calls import GuardedCalls
from agent_actors.runs.output.event_mailbox import RunSink
from agent_actors.sessions.skills import append_skills_prompt

_LOG: Final = logging.getLogger(__name__)

# The number of times that a call waiting its turn may be refused before its pauses grow. When many
# sessions start at once, few calls are refused more often than this by chance, and the others need
# not wait for seconds.
_EVEN_PAUSES = 2


@attrs.define(eq=False)
class _Call:
    """One model call: the state of all its attempts with one model.

    Attributes:
        began: The start time of the call, by trio's clock.
    """

    began: float
    # The number of responses that the endpoint had begun to send, to any caller, when this call
    # began or last failed.
    answers: int
    tries: int = 0
    failures: int = 0
    # Consecutive refusals, without a response from the endpoint to any caller in between.
    refusals: int = 0


class ModelCaller:
    """The model calls of one run.

    Args:
        context: The context of the run.
        budget: The budget of the run; an attempt that it does not allow is not made.
    """

    __slots__ = (
        "_answered",
        "_context",
        "_first_key",
        "_guards",
        "_limits",
        "_model_index",
        "_models",
        "_number",
        "_policy",
        "_retries_left",
        "_services",
        "_sink",
        "_system_prompt",
        "_usage",
        "_void",
    )

    def __init__(self, context: RunContext, budget: Budget) -> None:
        options = context.options
        self._context = context
        self._services = context.services
        self._usage = context.usage
        self._limits = budget
        self._models = (options, *options.fallback_options)
        self._model_index = 0
        self._policy: RetryPolicy = options.retry_policy
        self._retries_left = self._policy.run_budget
        self._sink: RunSink | None = None
        # The sink of the successful attempt, if there is one.
        self._answered: RunSink | None = None
        # The number of failed attempts of this model call so far.
        self._void = 0
        # The number of the current model call in the run, and the idempotency key of its first
        # request.
        self._number = 0
        self._first_key = ""
        # None until the first model call.
        self._system_prompt: str | None = None
        self._guards = GuardedCalls(context) if options.guardrails else None

    async def call(self, tools: tuple[ToolSpec, ...]) -> ModelCompleted | HookBlock:
        """Make the run's next model call, inside its hooks.

        Args:
            tools: The tools that the model may call.

        Returns:
            The response, whose call ids are unique in the session, or the reason why a hook ended
            the run.

        Raises:
            ProviderError: The last attempt with the last model failed. The notes describe all
                attempts.
            HookError: A hook failed.
            CallbackError: The function that makes the system prompt, or a guardrail, failed.

        Cancellation: the connection is closed before this method returns. `partial_usage_records`
        then returns the usage of the partial response.
        """
        context, options = self._context, self._context.options
        self._usage.model_calls += 1
        context.events.next_iteration(self._usage.model_calls)
        session = context.opened_session
        state, hooks = session.state, context.hooks
        if self._system_prompt is None:
            own = await system_prompt_of(context)
            project = context.project
            self._system_prompt = own if project is None else project.knowledge.prompt(own)
        request = ModelRequest(
            messages=messages_to_send(
                session.history(),
                options.resume_window,
                state.memo,
                resend_refused=options.resends_refused,
                head=state.head,
            ),
            settings=self._settings(options),
            system_prompt=_system_prompt(context, self._system_prompt, state.skills),
            tools=tools,
            turn=state.turns + 1,
            known_call_ids=state.call_ids,
            idempotency_key=self._services.ids.new(),
            output=options.output_schema,
            memo=state.memo,
        )
        if self._guards is not None:
            answer = await self._guards.call(partial(self._in_hooks, request))
        elif hooks is None:
            answer = await self._without_hooks(request)
        else:
            answer = await hooks.call_model(request, self.complete)
        if isinstance(answer, HookBlock):
            return answer
        if hooks is not None and hooks.withholds and answer.text:
            delta: EventBuilder = partial(AssistantDelta, text=answer.text)
            await context.journal.show((context.events.build(delta),))
        return with_unique_ids(answer, turn=request.turn, known=request.known_call_ids)

    async def _in_hooks(self, request: ModelRequest) -> ModelCompleted | HookBlock:
        hooks = self._context.hooks
        if hooks is None:
            return await self._without_hooks(request)
        return await hooks.call_model(request, self.complete)

    async def _without_hooks(self, request: ModelRequest) -> ModelCompleted | HookBlock:
        try:
            return await self.complete(request)
        except BudgetExhausted as full:
            return HookBlock(Phase.WRAP_MODEL_CALL.value, "<any>", str(full), budget=full.what)

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Send a request, with retries and fallback models, and return the response.

        Hooks may call this method again in the same model call. In that case, the response that was
        shown before is discarded, and the request gets a new idempotency key.

        Args:
            request: The request, with the settings of the first model. All attempts with one model
                share its idempotency key.

        Raises:
            BudgetExhausted: The limits do not allow the request: the method was called again, or
                other agents under the same ancestors have used them up.
            ProviderError: The last attempt with the last model failed. The notes describe all
                attempts.

        Cancellation: the connection is closed before this method returns. `partial_usage_records`
        then returns the usage of the partial response.
        """
        if self._number == self._usage.model_calls:  # a `wrap_model_call` hook called again
            request = await self._again(request)
        else:
            if self._sink is not None:  # a hook replaced a failed call with its own response
                await self._record(*self.partial_usage_records())
            self._void, self._answered = 0, None
            self._number, self._first_key = self._usage.model_calls, request.idempotency_key
        while True:
            options = self._models[self._model_index]
            if self._model_index:
                request = attrs.evolve(request, settings=self._settings(options))
            try:
                return await self._ask(options, request)
            except ProviderError as error:
                if self._model_index + 1 == len(self._models) or self._is_used_up(error):
                    raise
                self._model_index += 1
                # The fallback request gets another key, so that a strict gateway does not mistake
                # it for the first request.
                request = attrs.evolve(request, idempotency_key=self._services.ids.new())
                fallback = self._models[self._model_index]
                _LOG.debug("model %s replaces %s", fallback.model, options.model)
                await self._restart(f"{error}; continuing with {fallback.model}")
                self._usage.switch_pricing(fallback.prices)
                if self._usage.reporter is not None:
                    self._usage.reporter.options = fallback

    async def ask_silently(self, options: AgentOptions, request: ModelRequest) -> str:
        """Send a request whose response is not part of the conversation, and return its text.

        Nothing of the response is shown. Its usage is recorded with the run's next commit.

        Args:
            options: The endpoint and the timeouts.
            request: The request.

        Raises:
            ProviderError: The request failed, or the model refused to respond.

        Cancellation: the connection is closed before this method returns.
        """
        try:
            answer = await self._ask(options, request, shows=False)
        except ProviderError:
            self._context.journal.add(
                *self.partial_usage_records(), *self._usage.records_of_unanswered()
            )
            raise
        self._answered = None
        self._context.journal.add(*self._usage.records_of_pending())
        if answer.refused or not answer.text.strip():
            why = answer.finish_reason if answer.refused else "the response is empty"
            raise ProviderError(f"no usable response: {why}", endpoint=options.model)
        return answer.text

    def partial_usage_records(self) -> list[EventBuilder]:
        """Return the usage record of a partial response; empty if nothing was received."""
        tokens, self._sink = self._shown_tokens(), None
        return [] if tokens is NO_TOKENS else [self._usage.enter_usage(tokens)]

    def _shown_tokens(self) -> Usage:
        """Return the estimated usage of the current or failed attempt; may be zero."""
        if self._sink is None or not self._sink.characters:
            return NO_TOKENS
        tokens = estimate_tokens(self._sink.characters)
        return Usage(output_tokens=tokens, estimated=True)

    def _is_used_up(self, error: ProviderError) -> bool:
        """Return whether the limits forbid another attempt, and if so, add a note to the error."""
        what = self._limits.refuses_request(self._shown_tokens())
        note = f"not retried, since the budget is used up ({what})"
        if what and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        return bool(what)

    async def _again(self, request: ModelRequest) -> ModelRequest:
        what = self._limits.refuses_request(self._shown_tokens() + self._usage.pending_usage)
        if what:
            raise BudgetExhausted(what)
        await self._restart("a hook repeats the model call")
        if request.idempotency_key != self._first_key:
            return request
        return attrs.evolve(request, idempotency_key=self._services.ids.new())

    def _settings(self, options: AgentOptions) -> ModelSettings:
        if not options.sends_cache_key:
            return options.settings
        key = self._context.spec.session_id
        extra_body = {"prompt_cache_key": key, **options.settings.extra_body}
        return attrs.evolve(options.settings, extra_body=extra_body)

    def _bounded(self, request: ModelRequest) -> ModelRequest:
        settings = self._limits.cap_output_tokens(request.settings)
        return request if settings is request.settings else attrs.evolve(request, settings=settings)

    async def _ask(
        self, options: AgentOptions, request: ModelRequest, *, shows: bool = True
    ) -> ModelCompleted:
        stream = self._services.endpoints.get(options)
        call = _Call(trio.current_time(), stream.answers)
        while True:
            self._sink = self._make_sink(shows=shows)
            self._limits.begin_request()
            try:
                answer = await stream.stream(
                    self._bounded(request),
                    self._sink,
                    options.deadlines,
                    AttemptInfo(call.tries > 0, self._model_index > 0, self._policy.patience),
                )
            except AgentError as error:
                if not isinstance(error, ProviderError):
                    raise
                verdict = judge(error, now=self._services.wall_clock())
                pause = self._pause(call, verdict, stream)
                if pause is None or self._is_used_up(error):
                    _explain(error, call, verdict, self._policy)
                    if _LOG.isEnabledFor(logging.DEBUG):
                        why = describe_failure(error)
                        _LOG.debug("attempt %d failed (%s), no retry", call.tries, why)
                    raise
                if _LOG.isEnabledFor(logging.DEBUG):
                    why = describe_failure(error)
                    _LOG.debug("attempt %d failed (%s), retry in %.3f s", call.tries, why, pause)
                await self._restart(str(error))
                await trio.sleep(pause)
                # The runtime drops an endpoint that was not used for a minute.
                stream = self._services.endpoints.get(options)
            except Exception as error:
                # The provider may be the caller's own code, but the public API only raises
                # subclasses of one base error.
                raise ProviderError(
                    f"the provider raised {type(error).__name__}: {error}",
                    endpoint=stream.provider.name,
                ) from error
            else:
                self._usage.set_pending(answer.usage)
                self._answered, self._sink = self._sink, None
                return answer

    def _pause(self, call: _Call, verdict: Verdict, stream: ModelStream) -> float | None:
        """Return the seconds until the next attempt; None if there is no further attempt."""
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
        if used_up or not self._retries_left or not stream.take_retry():
            return None
        self._retries_left -= 1
        if verdict.after is None:
            return policy.pause(call.refusals + call.failures, self._services.chance())
        # After a refusal, the endpoint's queue waits for the time that the endpoint names.
        return 0.0 if verdict.refused else verdict.after

    def _turn_pause(self, call: _Call, verdict: Verdict) -> float | None:
        """Return the pause for a call that only waits its turn; None if its patience is used up.

        The pause grows with each attempt, even if the endpoint names a time. Otherwise, an endpoint
        that keeps responding with "retry in a second" would get a request every second for minutes.
        The endpoint's queue waits for the named time separately. If the patience ends before the
        pause does, the last attempt is made when the patience ends.
        """
        left = call.began + self._policy.patience - trio.current_time()
        if left <= 0 or (verdict.after or 0.0) > left:
            return None
        grown = max(1, call.tries - _EVEN_PAUSES)
        return min(left, self._policy.pause(grown, self._services.chance()))

    async def _restart(self, reason: str) -> None:
        self._void += 1
        sink, self._answered = self._sink or self._answered, None
        shown = sink is not None and sink.shows and sink.characters > 0
        if self._guards is not None and self._guards.discard_held():
            shown = False
        records = [*self.partial_usage_records(), *self._usage.records_of_pending()]
        if records and shown:
            records.append(partial(AttemptRestarted, attempt=self._void + 1, reason=reason))
        await self._record(*records)

    async def _record(self, *builders: EventBuilder) -> None:
        if builders:
            self._context.journal.add(*builders)
            await self._context.journal.commit()

    def _make_sink(self, *, shows: bool) -> RunSink:
        context = self._context
        silent = context.hooks is not None and context.hooks.withholds
        held = None if self._guards is None else self._guards.held
        return RunSink(
            context.events,
            context.mailbox if held is None or context.mailbox is None else held,
            self._services.bus if held is None else held,
            tool_deltas=context.options.tool_deltas,
            shows=shows and not silent,
            more=self._limits.take_request,
        )


def _system_prompt(context: RunContext, prompt: str, skills: Sequence[str]) -> str:
    if context.project is not None:
        return context.project.system_prompt(prompt, skills, partial(_used_paths, context))
    return append_skills_prompt(prompt, skills)


def _used_paths(context: RunContext) -> list[str]:
    return [path for call in context.usage.tool_calls for path in call.resources.paths]


def _explain(error: ProviderError, call: _Call, verdict: Verdict, policy: RetryPolicy) -> None:
    """Add the number of attempts, and the reason for not waiting as long as the endpoint asked."""
    now = trio.current_time()
    if call.tries > 1:
        error.add_note(f"the call made {call.tries} attempts in {now - call.began:.1f} s")
    if not verdict.again or verdict.after is None:
        return
    if verdict.after > LONGEST_PAUSE:
        limit = f"calls do not wait longer than {LONGEST_PAUSE:g} s"
    elif call.began + policy.patience - now < verdict.after:
        limit = f"a call waits no longer than {policy.patience:g} s in total"
    else:
        return
    error.add_hint(f"the endpoint asks clients to wait {verdict.after:g} s; {limit}")
