"""The caller's request for a run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypedDict, cast

import attrs

from agent_actors.actors.question_board import Answer
from agent_actors.actors.run_tree import CallSlots
from agent_actors.actors.session_gate import OnBusy
from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import ENTRY_POINTS, EntryPoint
from agent_actors.errors import ConfigError, MessageError
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import UserInput
from agent_actors.tools.output import ToolOutput

PREPEND_PROMPT: Final = "api.prepend_prompt"
APPEND_PROMPT: Final = "api.append_prompt"
OVERRIDE_PROMPT: Final = "api.override_prompt"
FORCED_TAGS: Final = "api.tags"


class RequestArguments(TypedDict, total=False):
    """The keyword arguments of `run`, `stream` and `query` that describe a request.

    `force_skills` are the names of skills to activate before the first model call. `traits`,
    `channels`, `tags`, `metadata` and `entry_point` describe the request to hooks and tools, which
    find them in `RunInfo`. The metadata `api.override_prompt`, `api.prepend_prompt` and
    `api.append_prompt` change the prompt, and `api.tags` replaces tags.
    """

    force_skills: Sequence[str]
    traits: Sequence[str]
    channels: Sequence[str]
    tags: Mapping[str, str]
    metadata: Mapping[str, JsonValue]
    entry_point: EntryPoint | None


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, str) and isinstance(value, Iterable):
        found = tuple(cast("Iterable[object]", value))
        if all(isinstance(item, str) for item in found):
            return cast("tuple[str, ...]", found)
    raise ConfigError(f"{name} must be a list of strings; got {value!r:.80}")


def _as_skills(value: object) -> tuple[str, ...]:
    return _texts("force_skills", value)


def _as_traits(value: object) -> tuple[str, ...]:
    return _texts("traits", value)


def _as_channels(value: object) -> tuple[str, ...]:
    return _texts("channels", value)


def _as_tags(value: object) -> Mapping[str, str]:
    return _tags("tags", value)


def _as_metadata(value: object) -> JsonObject:
    if not isinstance(value, Mapping):
        raise ConfigError(f"metadata must be a table of JSON values; got {value!r:.80}")
    try:
        return to_json_object(cast("Mapping[str, object]", value))
    except (MessageError, TypeError, ValueError) as error:
        raise ConfigError(f"metadata: {error}") from error


def _tags(name: str, value: object) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        if all(isinstance(key, str) and isinstance(text, str) for key, text in table.items()):
            return dict(cast("Mapping[str, str]", table))
    raise ConfigError(f"{name} must be a table of strings; got {value!r:.80}")


@attrs.frozen(kw_only=True)
class RunRequest:
    """The additional arguments of a request; see `RequestArguments`.

    Raises:
        ConfigError: A value does not have the type of its field.
    """

    force_skills: tuple[str, ...] = attrs.field(default=(), converter=_as_skills)
    traits: tuple[str, ...] = attrs.field(default=(), converter=_as_traits)
    channels: tuple[str, ...] = attrs.field(default=(), converter=_as_channels)
    tags: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_as_tags)
    metadata: JsonObject = attrs.field(factory=dict[str, JsonValue], converter=_as_metadata)
    entry_point: EntryPoint | None = None

    def __attrs_post_init__(self) -> None:
        if self.entry_point is not None and self.entry_point not in ENTRY_POINTS:
            raise ConfigError(
                f"entry_point must be one of {', '.join(ENTRY_POINTS)}; got "
                f"{self.entry_point!r:.80}"
            )
        for key in (OVERRIDE_PROMPT, PREPEND_PROMPT, APPEND_PROMPT):
            if not isinstance(self.metadata.get(key, ""), str):
                raise ConfigError(f"metadata: {key} must be a string")
        if FORCED_TAGS in self.metadata:
            _tags(f"metadata: {FORCED_TAGS}", self.metadata[FORCED_TAGS])

    @property
    def merged_tags(self) -> Mapping[str, str]:
        """The tags of the request; those in the metadata take precedence."""
        forced = self.metadata.get(FORCED_TAGS)
        return {**self.tags, **cast("Mapping[str, str]", forced)} if forced else self.tags

    def changed_prompt(self, prompt: UserInput) -> UserInput:
        """Return the prompt with the changes that the metadata names.

        The prompt is replaced first, and then texts are added before and after it.
        """
        override = self._text(OVERRIDE_PROMPT)
        if override:
            prompt = UserInput(override)
        before, after = self._text(PREPEND_PROMPT), self._text(APPEND_PROMPT)
        if not before and not after:
            return prompt
        text = "\n\n".join(part for part in (before, prompt.text, after) if part)
        if not prompt.blocks:
            return UserInput(text)
        first = (TextBlock(before),) if before else ()
        last = (TextBlock(after),) if after else ()
        return UserInput(text, (*first, *prompt.blocks, *last))

    def _text(self, key: str) -> str:
        return cast(str, self.metadata.get(key, "")).strip()


NO_REQUEST: Final = RunRequest()
"""A request without any of these arguments."""


def run_request(arguments: RequestArguments) -> RunRequest:
    """Return the request for these arguments.

    Raises:
        ConfigError: An argument is not valid.
        TypeError: An argument is unknown.
    """
    if not arguments:
        return NO_REQUEST
    unknown = arguments.keys() - RequestArguments.__annotations__.keys()
    if unknown:
        known = ", ".join(RequestArguments.__annotations__)
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}; known are also: {known}")
    return RunRequest(**arguments)


_NO_RESULTS: Final[Mapping[str, ToolOutput]] = {}


@attrs.define(eq=False)
class HistoryReplacement:
    """A conversation that replaces the history of the session when the run begins.

    Attributes:
        messages: The conversation.
        queued: True if the replacement is part of the run's next commit; set by the run.
        recorded: True if the replacement has been committed; set by the run.
    """

    messages: Messages
    queued: bool = False
    recorded: bool = False


@attrs.frozen(eq=False)
class RunSpec:
    """One request for a run.

    Attributes:
        prompt: The user's input; if it has neither text nor blocks, the run continues without new
            input.
        options: The options of the agent.
        session_id: The id of the session.
        request_id: The id that the caller gave the request.
        on_busy: The policy for a session that another run holds.
        tool_whitelist: The names of the only tools that the run may use; None: all tools.
        answers: The answers to the suspended session's questions, by question id; the run resumes
            the open calls. None for an ordinary run.
        results: The results of calls that the suspended run left to its caller, by call id. Only
            used together with `answers`.
        max_tool_rounds: The maximum number of tool rounds, for a run started by `Client` or
            `query()`. None for a run started by `Runtime`, which only `max_iterations` limits.
        client_side_tools: True if the caller executes all tool calls (manual mode).
        replace_history: A conversation that replaces the session's history; None: the history
            stays.
        deps: The dependencies for tools, hooks and functions of the options; never recorded. None:
            those of the run that starts this run, if there is one.
        slot: The slot, among the root run's agents, of a run that `Task` started; its usage also
            counts against the limits of its ancestors. None for any other run.
        target: The name of the agent, among those of the options, that runs instead of the agent
            itself; None: the agent itself.
        compact: The caller's instructions, which may be empty, for a run that only makes the
            conversation shorter; None for any other run.
        request: The other arguments of the request.
    """

    prompt: UserInput
    options: AgentOptions
    session_id: str
    request_id: str
    on_busy: OnBusy
    tool_whitelist: Sequence[str] | None = None
    answers: Mapping[str, Answer] | None = None
    results: Mapping[str, ToolOutput] = _NO_RESULTS
    max_tool_rounds: int | None = None
    client_side_tools: bool = False
    replace_history: HistoryReplacement | None = None
    deps: object = attrs.field(default=None, repr=False)
    slot: CallSlots | None = None
    target: str | None = None
    compact: str | None = None
    request: RunRequest = NO_REQUEST

    @property
    def must_exist(self) -> bool:
        """True if the session must exist, because the agent's `resume` option names it."""
        return self.options.resume == self.session_id

    @property
    def from_client(self) -> bool:
        """True if `Client` or `query()` started the run."""
        return self.max_tool_rounds is not None

    @property
    def json_failures(self) -> bool:
        """True if tool failures are reported as `{"error", "tool"}` (automatic mode)."""
        return self.from_client and not self.client_side_tools

    @property
    def max_iterations(self) -> int:
        """The maximum number of model calls in the run."""
        if self.max_tool_rounds is None:
            return self.options.max_iterations
        return self.max_tool_rounds + 1  # one call after each round, plus the first call

    @property
    def replacement(self) -> Messages | None:
        """The conversation that replaces the history; None if the history stays."""
        return None if self.replace_history is None else self.replace_history.messages
