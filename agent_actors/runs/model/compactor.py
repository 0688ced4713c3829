"""Makes the conversation of a run shorter, as the command `Compact` of the turn machine requires.

The steps are clearing old results and replacing older messages by a summary. Each step is one
record, `session.compacted`. If a step fails, the conversation stays unchanged and the failure is
recorded as a notification. A requested compaction raises the failure instead.
"""

import logging
from functools import partial
from typing import Final

import attrs

from agent_actors.context.summarizing import (
    limited_words,
    summary_messages,
    summary_prompt,
    transcript_chunks,
)
from agent_actors.domain.events import CompactionKind, EventBuilder, Notification, SessionCompacted
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import ModelRequest
from agent_actors.domain.run import CompactionReport
from agent_actors.domain.usage import estimate_tokens
from agent_actors.errors import AgentError, ConfigError, ProviderError
from agent_actors.hooks.decision import Denial
from agent_actors.hooks.events import CompactEvent
from agent_actors.hooks.phases import Phase
from agent_actors.options.compaction import Compaction
from agent_actors.protocol.compaction import (
    CompactionBudget,
    CompactionPlan,
    boundaries_of,
    check_plan,
    results_to_clear,
)
from agent_actors.protocol.overflow import OVERFLOW_HINT, is_context_overflow
from agent_actors.protocol.turn import Compact
from agent_actors.runs.context import RunContext
from agent_actors.runs.model.context_size import (
    conversation_tokens,
    estimated_tokens,
    request_tokens,
)
from agent_actors.runs.model.model_calls import ModelCaller
from agent_actors.sessions.compaction import summary_message

_LOG: Final = logging.getLogger(__name__)

# Clearing results is enough if the request is then at most this share of the limit.
_RELIEF: Final = 0.8
# After a compaction without success, the next one is due when the request has grown by this factor.
_GROWTH: Final = 1.1
# The share of the context window for a part of the transcript, and the characters per token there.
# Scripts with fewer characters per token then fit as well.
_CHUNK_SHARE: Final = 0.5
_CHARACTERS_PER_TOKEN: Final = 3
_SMALLEST_CHUNK: Final = 4_000
# After an overflow, the number of newest responses whose results stay, and the number of characters
# that stay of the results of the last response if it fills more than a quarter of the window.
_OVERFLOW_RESPONSES: Final = 1
_OVERFLOW_CHARACTERS: Final = 2_000
_LAST_SHARE: Final = 0.25
# Tokens per word of a summary, for the maximum length of the response.
_TOKENS_PER_WORD: Final = 2


class Compactor:
    """Makes the conversation of one run shorter.

    Args:
        context: The context of the run.
        model: Makes the requests for summaries.
    """

    def __init__(self, context: RunContext, model: ModelCaller) -> None:
        options = context.options
        self._context = context
        self._model = model
        self._is_automatic = options.compaction is not None
        self._settings: Compaction = options.compaction or Compaction()
        self._window = self._settings.window(options.profile_window)
        self._limit = self._settings.limit(options.profile_window)
        # The size up to which no further compaction is due.
        self._not_before = 0.0
        # The failure of the last request that was too long, and the model call that made it.
        self._overflow: ProviderError | None = None
        self._overflowed_in = 0

    def is_due(self) -> bool:
        """Return whether the conversation must be made shorter before the next model call."""
        return self._is_automatic and self._tokens() > max(self._limit, self._not_before)

    def takes_overflow(self, error: ProviderError, iteration: int) -> bool:
        """Return whether a compaction should follow the failure of a model call.

        Only the first overflow of a model call leads to a compaction.

        Args:
            error: The failure.
            iteration: The number of the model call.
        """
        options = self._context.options
        if options.on_overflow != "compact" or self._overflowed_in == iteration:
            return False
        self._overflow, self._overflowed_in = error, iteration
        return True

    async def compact(self, command: Compact) -> None:
        """Make the conversation shorter.

        Raises:
            ProviderError: A request was too long and the conversation cannot be made shorter, or
                the request for a requested summary failed.
            ConfigError: The plan of a requested compaction is not valid.
            HookError: A hook failed.
            SessionStoreError, SessionFenced, ReaderStalled: The record was not written.

        Cancellation: safe; the conversation is either unchanged or shorter.
        """
        context = self._context
        before = self._tokens()
        count = len(context.compactions)
        try:
            await self._carry_out(command, before)
        except (ProviderError, ConfigError) as error:
            if command.trigger == "manual":
                raise
            _LOG.warning("session %s was not compacted: %s", context.spec.session_id, error)
            text = f"the conversation was not compacted: {error}"
            failed: EventBuilder = partial(Notification, text=text, data={"compaction": "failed"})
            context.journal.add(failed)
            await context.journal.commit()
        compacted = len(context.compactions) > count
        if command.trigger == "overflow" and not compacted:
            assert self._overflow is not None
            raise self._overflow
        after = context.compactions[-1].tokens_after if compacted else before
        size = max(after, self._tokens())
        self._not_before = 0.0 if compacted and size <= self._limit else size * _GROWTH

    async def _carry_out(self, command: Compact, before: int) -> None:
        count = len(self._context.compactions)
        if await self._clear_results(command, before):
            return
        if len(self._context.compactions) > count:
            before = self._context.compactions[-1].tokens_after
        state = self._context.opened_session.state
        history = state.history()
        budget = CompactionBudget(
            tokens=before,
            limit=self._limit if command.trigger != "overflow" else min(self._limit, before) // 2,
            window=self._window,
            keep=self._settings.keep,
            keep_min=self._settings.keep_min,
            head=state.head,
            boundaries=boundaries_of(history, state.message_seqs(), state.head),
        )
        plan = check_plan(self._planned(history, budget), history, budget)
        if plan.cut:
            await self._replace(command, plan, before)

    def _planned(self, history: Messages, budget: CompactionBudget) -> CompactionPlan:
        try:
            return self._settings.plan(history, budget)
        except AgentError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the compaction strategy raised {type(error).__name__}: {error}"
            ) from error

    async def _clear_results(self, command: Compact, before: int) -> bool:
        """Clear old results if the options allow it; return True if that is enough."""
        history = self._context.messages()
        overflow = command.trigger == "overflow"
        after = _OVERFLOW_RESPONSES if overflow else self._settings.clear_results_after
        if after is None:
            return False
        cleared = results_to_clear(history, after)
        enough = False
        if cleared:
            enough = await self._record_cleared(command, cleared, 0, before)
        if overflow:
            last = _last_response(self._context.messages())
            if conversation_tokens(last) > min(self._window, before) * _LAST_SHARE:
                large = [m.tool_call_id for m in last if len(m.content) > _OVERFLOW_CHARACTERS]
                await self._record_cleared(command, tuple(large), _OVERFLOW_CHARACTERS, before)
        return enough and not overflow

    async def _record_cleared(
        self, command: Compact, cleared: tuple[str, ...], kept: int, before: int
    ) -> bool:
        if not cleared or await self._asks_hooks(command, "results", before, 0) is None:
            return False
        scale = before / max(1, self._estimate())
        gone = sum(
            estimate_tokens(max(0, len(message.content) - kept))
            for message in self._context.messages()
            if message.tool_call_id in cleared
        )
        after = max(0, before - round(gone * scale))
        await self._record(
            command,
            partial(
                SessionCompacted,
                up_to_seq=0,
                summary="",
                kind="results",
                cleared=cleared,
                kept_characters=kept,
                tokens_before=before,
                tokens_after=after,
            ),
            CompactionReport("results", before, after, cleared_results=len(cleared)),
        )
        return after <= self._limit * _RELIEF

    async def _replace(self, command: Compact, plan: CompactionPlan, before: int) -> None:
        state = self._context.opened_session.state
        history, seqs = state.history(), state.message_seqs()
        kind: CompactionKind = "summary" if plan.summarize else "window"
        given = await self._asks_hooks(command, kind, before, plan.cut)
        if given is None:
            return
        older = history[: plan.cut]
        summary = ""
        if plan.summarize:
            words = self._settings.max_summary_words
            summary = limited_words(given or await self._summarize(older, command), words)
        draft = partial(
            SessionCompacted,
            up_to_seq=seqs[plan.cut] - 1,
            summary=summary,
            kind=kind,
            repeated=tuple(seqs[at] for at in plan.pinned),
            tokens_before=before,
        )
        repeated = [history[at] for at in plan.pinned]
        gone = conversation_tokens(older) - conversation_tokens(repeated)
        scale = before / max(1, self._estimate())
        added = conversation_tokens([summary_message(self._preview(draft))])
        after = max(0, before - round((gone - added) * scale))
        if after >= before:
            return  # the summary would be longer than the messages that it replaces
        report = CompactionReport(kind, before, after, plan.cut, summary)
        await self._record(command, partial(draft, tokens_after=after), report)

    async def _summarize(self, older: Messages, command: Compact) -> str:
        context, settings = self._context, self._settings
        options = context.options.summary_options or context.options
        space = min(self._window, max(self._tokens(), 1)) * _CHUNK_SHARE
        characters = max(_SMALLEST_CHUNK, int(space * _CHARACTERS_PER_TOKEN))
        prompt = summary_prompt(
            settings.max_summary_words, settings.instructions, command.instructions
        )
        needed = settings.max_summary_words * _TOKENS_PER_WORD
        most = options.settings.max_tokens
        sampling = attrs.evolve(
            options.settings,
            max_tokens=None if most is None else max(most, needed),
            tool_choice=None,
            parallel_tool_calls=None,
            stop=(),
        )
        summary = ""
        for chunk in transcript_chunks(older, characters):
            request = ModelRequest(
                messages=summary_messages(chunk, summary),
                settings=sampling,
                system_prompt=prompt,
                idempotency_key=context.services.ids.new(),
            )
            summary = await self._model.ask_silently(options, request)
        return summary

    async def _asks_hooks(
        self, command: Compact, kind: CompactionKind, tokens: int, replaced: int
    ) -> str | None:
        """Return the summary that a hook wrote, which may be empty; None if a hook refused."""
        context, hooks = self._context, self._context.hooks
        if hooks is None or not hooks.onion.takes_part(Phase.ON_COMPACT):
            return ""
        decided = await hooks.compact(
            CompactEvent(
                session_id=context.spec.session_id,
                run_id=context.node.run_id,
                messages=context.messages(),
                trigger=command.trigger,
                kind=kind,
                tokens=tokens,
                replaced=replaced,
            )
        )
        return None if isinstance(decided, Denial) else decided.summary

    async def _record(
        self, command: Compact, draft: EventBuilder, report: CompactionReport
    ) -> None:
        context = self._context
        context.journal.add(draft)
        await context.journal.commit()
        context.compactions.append(report)
        _LOG.debug(
            "session %s compacted (%s, %s): %d to %d tokens",
            context.spec.session_id,
            command.trigger,
            report.kind,
            report.tokens_before,
            report.tokens_after,
        )

    def _preview(self, draft: "partial[SessionCompacted]") -> SessionCompacted:
        return draft(self._context.events.scope, "", 0.0)

    def _estimate(self) -> int:
        context = self._context
        return estimated_tokens(context.opened_session.state, context.options)

    def _tokens(self) -> int:
        context = self._context
        return request_tokens(context.opened_session.state, context.options)


def compactor_of(context: RunContext, model: ModelCaller) -> Compactor | None:
    """Return the compactor of a run; None if the run never makes its conversation shorter."""
    options = context.options
    if (
        options.compaction is None
        and options.on_overflow == "error"
        and context.spec.compact is None
    ):
        return None
    return Compactor(context, model)


def explain_overflow(context: RunContext, error: ProviderError) -> bool:
    """Return whether a request was too long; if no compaction follows, add a hint to the error."""
    resolved = context.options.resolved
    texts = () if resolved is None else resolved.profile.overflow_texts
    if not is_context_overflow(error, texts):
        return False
    if context.options.on_overflow == "error":
        error.add_hint(OVERFLOW_HINT)
    return True


def _last_response(history: Messages) -> list[Message]:
    """Return the results of the last response."""
    last: list[Message] = []
    for message in reversed(history):
        if message.role == "assistant":
            break
        if message.role == "tool":
            last.append(message)
    return last
