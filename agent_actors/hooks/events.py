"""The events that hooks receive, one class per phase.

`rewritten` applies a decision to an event. Because most hooks do not read `history`, the
conversation is converted to dicts only when a hook does.
"""

from typing import ClassVar, Self

import attrs

from agent_actors.codec.openai_messages import MessageDict, messages_from_openai, messages_to_openai
from agent_actors.domain.events import CompactionKind
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted
from agent_actors.errors import ConfigError, MessageError
from agent_actors.hooks.decision import HookDecision, MessageDicts
from agent_actors.hooks.phases import Phase
from agent_actors.protocol.compaction import CompactionTrigger


@attrs.frozen(kw_only=True)
class PhaseEvent:
    """The fields that the events of all phases have.

    Attributes:
        session_id: The session.
        run_id: The run; empty for the end of a session, which does not belong to a run.
    """

    phase: ClassVar[Phase]

    session_id: str = ""
    run_id: str = ""

    @property
    def tool(self) -> str:
        """The tool's name, for matchers; empty for events without a tool."""
        return ""

    @property
    def takes(self) -> str:
        """The name of the decision's field that rewrites this event; empty if there is none."""
        return ""

    def rewritten(self, decision: HookDecision) -> Self:
        """Apply the decision to this event; return the same object if nothing changes.

        Raises:
            ConfigError: The new value is not valid for this event.
        """
        del decision
        return self


@attrs.frozen(kw_only=True)
class _WithHistory(PhaseEvent):
    messages: Messages = attrs.field(factory=Messages, repr=False)

    @property
    def history(self) -> list[MessageDict]:
        """The conversation so far, as new dicts in the format of OpenAI's chat completions."""
        return messages_to_openai(self.messages)


@attrs.frozen(kw_only=True)
class SessionStartEvent(PhaseEvent):
    """A session was opened in this runtime.

    Attributes:
        source: `new`, or `resumed` if the session has a history.
    """

    phase: ClassVar[Phase] = Phase.SESSION_START
    source: str


@attrs.frozen(kw_only=True)
class UserPromptSubmitEvent(_WithHistory):
    """The caller sent a prompt.

    Attributes:
        prompt: The prompt; for a prompt with images and files, its text.
    """

    phase: ClassVar[Phase] = Phase.USER_PROMPT_SUBMIT
    prompt: str

    @property
    def takes(self) -> str:
        """The name of the decision's field that rewrites this event."""
        return "modified_prompt"

    def rewritten(self, decision: HookDecision) -> Self:
        """Return this event with the decision's prompt."""
        if decision.modified_prompt is None:
            return self
        return attrs.evolve(self, prompt=decision.modified_prompt)


@attrs.frozen(kw_only=True)
class BeforeAgentEvent(_WithHistory):
    """A run starts.

    Attributes:
        prompt: The caller's prompt.
    """

    phase: ClassVar[Phase] = Phase.BEFORE_AGENT
    prompt: str


@attrs.frozen(kw_only=True)
class BeforeModelEvent(PhaseEvent):
    """A request is about to be sent.

    Attributes:
        messages: The messages in the request, without the system prompt, as dicts in the format of
            OpenAI's chat completions.
        iteration: The number of the model call within the run.
        rewrites: True if `modified_messages` is allowed.
    """

    phase: ClassVar[Phase] = Phase.BEFORE_MODEL
    messages: MessageDicts
    iteration: int
    rewrites: bool = False

    @property
    def takes(self) -> str:
        """The name of the decision's field for rewriting; empty if rewriting is not allowed."""
        return "modified_messages" if self.rewrites else ""

    def rewritten(self, decision: HookDecision) -> Self:
        """Return this event with the decision's messages, if rewriting is allowed."""
        if decision.modified_messages is None or not self.rewrites:
            return self
        try:
            messages_from_openai(decision.modified_messages).validate()
        except MessageError as error:
            raise ConfigError(f"modified_messages is not a valid conversation: {error}") from error
        return attrs.evolve(self, messages=tuple(decision.modified_messages))


@attrs.frozen(kw_only=True)
class AfterModelEvent(PhaseEvent):
    """A response is complete and not yet recorded.

    Attributes:
        answer: The response.
        text: The response's text, as it will be stored.
        iteration: The number of the model call within the run.
    """

    phase: ClassVar[Phase] = Phase.AFTER_MODEL
    answer: ModelCompleted
    text: str
    iteration: int

    @property
    def takes(self) -> str:
        """The name of the decision's field that rewrites this event."""
        return "modified_output"

    def rewritten(self, decision: HookDecision) -> Self:
        """Return this event with the decision's text."""
        text = decision.modified_output
        if text is None:
            return self
        if not isinstance(text, str):
            raise ConfigError(f"modified_output must be text here; got {type(text).__name__}")
        return attrs.evolve(self, text=text)


@attrs.frozen(kw_only=True)
class PreToolUseEvent(_WithHistory):
    """A tool is about to be called.

    Attributes:
        tool_name: The tool's name.
        tool_input: A copy of the arguments, validated against the tool's schema.
        tool_use_id: The call's id.
        recheck: True if this hook has already seen the call, and a later hook has rewritten it
            since. Only a refusal has an effect.
        nested: True for a call in a nested run, which a tool of this hook's run started, directly
            or through other runs. Only a refusal has an effect. The event's ids and messages belong
            to the nested run, and `ctx` belongs to this hook's own run.
    """

    phase: ClassVar[Phase] = Phase.BEFORE_TOOL
    tool_name: str
    tool_input: JsonObject
    tool_use_id: str
    recheck: bool = False
    nested: bool = False

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.tool_name

    @property
    def takes(self) -> str:
        """The name of the decision's field that rewrites this event."""
        return "modified_input"

    def rewritten(self, decision: HookDecision) -> Self:
        """Return this event with the decision's arguments."""
        if decision.modified_input is None:
            return self
        return attrs.evolve(self, tool_input=decision.modified_input)


@attrs.frozen(kw_only=True)
class PostToolUseEvent(_WithHistory):
    """A tool was called.

    Attributes:
        tool_name: The tool's name.
        tool_input: The arguments that the tool received.
        tool_use_id: The call's id.
        tool_result: The result that the model will receive.
        is_error: True if the call failed.
    """

    phase: ClassVar[Phase] = Phase.AFTER_TOOL
    tool_name: str
    tool_input: JsonObject
    tool_use_id: str
    tool_result: str | JsonObject | list[JsonValue]
    is_error: bool = False

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.tool_name

    @property
    def takes(self) -> str:
        """The name of the decision's field that rewrites this event."""
        return "modified_output"

    def rewritten(self, decision: HookDecision) -> Self:
        """Return this event with the decision's result."""
        if decision.modified_output is None:
            return self
        return attrs.evolve(self, tool_result=decision.modified_output)


@attrs.frozen(kw_only=True)
class StopEvent(PhaseEvent):
    """The model sent its final response in the run.

    Attributes:
        text: The text of the final response.
        stop_reason: The reason why the run ends.
    """

    phase: ClassVar[Phase] = Phase.ON_STOP
    text: str
    stop_reason: str


@attrs.frozen(kw_only=True)
class CompactEvent(_WithHistory):
    """The conversation is about to be made shorter.

    Attributes:
        trigger: `threshold`, `overflow` (the endpoint refused a request) or `manual`.
        kind: `summary`, `window` (messages are left out) or `results` (results are cleared).
        tokens: The estimated size of the next request, in tokens.
        replaced: The number of messages that are replaced; 0 if results are cleared.
        summary: The summary that an earlier hook wrote; empty if the model will write it.
    """

    phase: ClassVar[Phase] = Phase.ON_COMPACT
    trigger: CompactionTrigger
    kind: CompactionKind
    tokens: int
    replaced: int = 0
    summary: str = ""

    @property
    def takes(self) -> str:
        """The name of the decision's field that rewrites this event."""
        return "modified_output"

    def rewritten(self, decision: HookDecision) -> Self:
        """Return this event with the decision's summary.

        Raises:
            ConfigError: The summary is not text.
        """
        summary = decision.modified_output
        if summary is None or self.kind != "summary":
            return self
        if not isinstance(summary, str) or not summary.strip():
            raise ConfigError(f"on_compact: the summary must be text; got {summary!r:.80}")
        return attrs.evolve(self, summary=summary)


@attrs.frozen(kw_only=True)
class SubagentStartEvent(PhaseEvent):
    """A tool of this run starts a nested run in the same runtime while this run is active.

    Attributes:
        agent_name: The name of the started agent; empty if it has none.
        prompt: The prompt of the nested run.
        subagent_session_id: The session of the nested run.
        tool_use_id: The id of the call that starts the nested run.
    """

    phase: ClassVar[Phase] = Phase.SUBAGENT_START
    agent_name: str
    prompt: str
    subagent_session_id: str
    tool_use_id: str


@attrs.frozen(kw_only=True)
class SubagentStopEvent(PhaseEvent):
    """A nested run ended. Emitted once per `subagent_start`, even if this run ended earlier.

    Attributes:
        agent_name: The name of the agent.
        subagent_session_id: The session of the nested run.
        tool_use_id: The id of the call that started the nested run.
        stop_reason: The reason why the nested run ended; `error` if it failed.
        text: The text of the nested run's last response.
    """

    phase: ClassVar[Phase] = Phase.SUBAGENT_STOP
    agent_name: str
    subagent_session_id: str
    tool_use_id: str
    stop_reason: str
    text: str = ""


@attrs.frozen(kw_only=True)
class AfterAgentEvent(PhaseEvent):
    """A run ended.

    Attributes:
        text: The text of the run's last response.
        stop_reason: The reason why the run ended; `error` if it failed.
        error: The exception if the run failed; otherwise None.
    """

    phase: ClassVar[Phase] = Phase.AFTER_AGENT
    text: str
    stop_reason: str
    error: Exception | None = None


@attrs.frozen(kw_only=True)
class SessionEndEvent(PhaseEvent):
    """A session leaves this runtime; its stored records are kept.

    Attributes:
        reason: `evicted`, `deleted` or `closed`.
    """

    phase: ClassVar[Phase] = Phase.SESSION_END
    reason: str
