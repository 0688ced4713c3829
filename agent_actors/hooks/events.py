"""What a hook is told, one class a phase. What may be rewritten is rewritten by `rewritten`.

The conversation is kept as it is, and turned into dicts when a hook asks for `history`: most never
do.
"""

from typing import ClassVar, Self

import attrs

from agent_actors.codec.openai_messages import MessageDict, messages_from_openai, messages_to_openai
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted
from agent_actors.errors import ConfigError, MessageError
from agent_actors.hooks.decision import HookDecision, MessageDicts
from agent_actors.hooks.phases import Phase


@attrs.frozen(kw_only=True)
class PhaseEvent:
    """What every phase tells.

    Attributes:
        session_id: The session.
        run_id: The run; empty where the session ends, which is part of none.
    """

    phase: ClassVar[Phase]

    session_id: str = ""
    run_id: str = ""

    @property
    def tool(self) -> str:
        """The tool's name, for matchers; empty where there is none."""
        return ""

    @property
    def takes(self) -> str:
        """The field of a decision that rewrites something here; empty: none does."""
        return ""

    def rewritten(self, decision: HookDecision) -> Self:
        """This, as the decision rewrites it; the very same if it rewrites nothing here.

        Raises:
            ConfigError: What it writes cannot stand here.
        """
        del decision
        return self


@attrs.frozen(kw_only=True)
class _WithHistory(PhaseEvent):
    messages: Messages = attrs.field(factory=Messages, repr=False)

    @property
    def history(self) -> list[MessageDict]:
        """The conversation so far, as dicts of OpenAI's chat completions; a copy."""
        return messages_to_openai(self.messages)


@attrs.frozen(kw_only=True)
class SessionStartEvent(PhaseEvent):
    """A session is opened in this runtime.

    Attributes:
        source: `new`, or `resumed` if it has a history.
    """

    phase: ClassVar[Phase] = Phase.SESSION_START
    source: str


@attrs.frozen(kw_only=True)
class UserPromptSubmitEvent(_WithHistory):
    """The caller spoke.

    Attributes:
        prompt: What it said; of a prompt with images and files, its text.
    """

    phase: ClassVar[Phase] = Phase.USER_PROMPT_SUBMIT
    prompt: str

    @property
    def takes(self) -> str:
        """What is rewritten here."""
        return "modified_prompt"

    def rewritten(self, decision: HookDecision) -> Self:
        """With another prompt."""
        if decision.modified_prompt is None:
            return self
        return attrs.evolve(self, prompt=decision.modified_prompt)


@attrs.frozen(kw_only=True)
class BeforeAgentEvent(_WithHistory):
    """A run begins.

    Attributes:
        prompt: What the caller said.
    """

    phase: ClassVar[Phase] = Phase.BEFORE_AGENT
    prompt: str


@attrs.frozen(kw_only=True)
class BeforeModelEvent(PhaseEvent):
    """A request is about to be sent.

    Attributes:
        messages: What is sent, as dicts of OpenAI's chat completions, without the system prompt.
        iteration: The number of the model call in its run.
        rewrites: Whether `modified_messages` counts.
    """

    phase: ClassVar[Phase] = Phase.BEFORE_MODEL
    messages: MessageDicts
    iteration: int
    rewrites: bool = False

    @property
    def takes(self) -> str:
        """Messages, if that is allowed."""
        return "modified_messages" if self.rewrites else ""

    def rewritten(self, decision: HookDecision) -> Self:
        """With other messages, if that is allowed."""
        if decision.modified_messages is None or not self.rewrites:
            return self
        try:
            messages_from_openai(decision.modified_messages).validate()
        except MessageError as error:
            raise ConfigError(f"modified_messages are no conversation: {error}") from error
        return attrs.evolve(self, messages=tuple(decision.modified_messages))


@attrs.frozen(kw_only=True)
class AfterModelEvent(PhaseEvent):
    """An answer is whole, and not yet recorded.

    Attributes:
        answer: The answer.
        text: Its text, as it will be kept.
        iteration: The number of the model call in its run.
    """

    phase: ClassVar[Phase] = Phase.AFTER_MODEL
    answer: ModelCompleted
    text: str
    iteration: int

    @property
    def takes(self) -> str:
        """What is rewritten here."""
        return "modified_output"

    def rewritten(self, decision: HookDecision) -> Self:
        """With another text."""
        text = decision.modified_output
        if text is None:
            return self
        if not isinstance(text, str):
            raise ConfigError(f"an answer is text; modified_output is a {type(text).__name__}")
        return attrs.evolve(self, text=text)


@attrs.frozen(kw_only=True)
class PreToolUseEvent(_WithHistory):
    """A tool is about to be called.

    Attributes:
        tool_name: The tool.
        tool_input: Its arguments, checked against its schema; a copy of one's own.
        tool_use_id: The call.
        recheck: True if this hook has seen the call before, and a later one rewrote it since: only
            a refusal counts.
        nested: True if it is a call of a run that a tool of this hook's run started, directly or
            through others: only a refusal counts. The event's ids and messages are those of that
            run; `ctx` is that of this hook's own.
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
        """What is rewritten here."""
        return "modified_input"

    def rewritten(self, decision: HookDecision) -> Self:
        """With other arguments."""
        if decision.modified_input is None:
            return self
        return attrs.evolve(self, tool_input=decision.modified_input)


@attrs.frozen(kw_only=True)
class PostToolUseEvent(_WithHistory):
    """A tool was called.

    Attributes:
        tool_name: The tool.
        tool_input: The arguments that it got.
        tool_use_id: The call.
        tool_result: What the model will be told.
        is_error: Whether the call failed.
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
        """What is rewritten here."""
        return "modified_output"

    def rewritten(self, decision: HookDecision) -> Self:
        """With another result."""
        if decision.modified_output is None:
            return self
        return attrs.evolve(self, tool_result=decision.modified_output)


@attrs.frozen(kw_only=True)
class StopEvent(PhaseEvent):
    """The model has said its last word in this run.

    Attributes:
        text: The text of its last answer.
        stop_reason: Why the run ends.
    """

    phase: ClassVar[Phase] = Phase.ON_STOP
    text: str
    stop_reason: str


@attrs.frozen(kw_only=True)
class CompactEvent(_WithHistory):
    """The history is about to be compacted."""

    phase: ClassVar[Phase] = Phase.ON_COMPACT


@attrs.frozen(kw_only=True)
class SubagentStartEvent(PhaseEvent):
    """A tool of this run starts a run, while this one is alive and in the same runtime.

    Attributes:
        agent_name: The name of the agent that is started; empty if it has none.
        prompt: What it is told.
        subagent_session_id: Its session.
        tool_use_id: The call that starts it.
    """

    phase: ClassVar[Phase] = Phase.SUBAGENT_START
    agent_name: str
    prompt: str
    subagent_session_id: str
    tool_use_id: str


@attrs.frozen(kw_only=True)
class SubagentStopEvent(PhaseEvent):
    """That run has ended; told once for each `subagent_start`, also if this run ended before it.

    Attributes:
        agent_name: The name of the agent.
        subagent_session_id: Its session.
        tool_use_id: The call that started it.
        stop_reason: Why it ended; `error` if it failed.
        text: The text of its last answer.
    """

    phase: ClassVar[Phase] = Phase.SUBAGENT_STOP
    agent_name: str
    subagent_session_id: str
    tool_use_id: str
    stop_reason: str
    text: str = ""


@attrs.frozen(kw_only=True)
class AfterAgentEvent(PhaseEvent):
    """A run has ended.

    Attributes:
        text: The text of its last answer.
        stop_reason: Why it ended; `error` if it failed.
        error: What it failed with; None if it did not.
    """

    phase: ClassVar[Phase] = Phase.AFTER_AGENT
    text: str
    stop_reason: str
    error: Exception | None = None


@attrs.frozen(kw_only=True)
class SessionEndEvent(PhaseEvent):
    """A session leaves this runtime; what is stored of it stays.

    Attributes:
        reason: `evicted`, `deleted` or `closed`.
    """

    phase: ClassVar[Phase] = Phase.SESSION_END
    reason: str
