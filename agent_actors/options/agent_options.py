"""AgentOptions: what an agent is, as a frozen definition that any number of runs share.

No run state lives here. Everything is checked where it is made, so that a mistake shows before
the first request. Durations are in seconds, `math.inf` for none; None means "not sent".
"""

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import attrs

from agent_actors.context.resume_window import RESUME_MAX_BYTES, RESUME_MAX_EVENTS, Recall
from agent_actors.domain.json import JsonValue
from agent_actors.domain.limits import (
    DEFAULT_TOOL_TIMEOUT,
    NO_LIMITS,
    Prices,
    Timeouts,
    UsageLimits,
)
from agent_actors.domain.model import ModelSettings, OutputSchema, ToolChoice, ToolSpec
from agent_actors.domain.run import OutputT_co
from agent_actors.domain.urls import public_url
from agent_actors.errors import ConfigError
from agent_actors.hooks.registry import NO_HOOKS, HookChain, Hooks, compile_hooks
from agent_actors.options.converters import as_items, as_path, as_policy, as_stop, as_tools
from agent_actors.options.loading import fields_of_environ, fields_of_file, named
from agent_actors.options.typed_kwargs import OptionFields
from agent_actors.options.validation import fault_of, fault_of_keywords, fault_of_types
from agent_actors.permissions import CanUseTool, PermissionPolicy
from agent_actors.protocol.retry import RetryPolicy
from agent_actors.runtime.wiring import NOT_GIVEN, Resolved, default_model, resolve_provider
from agent_actors.tools import Tool
from agent_actors.tools.output_spec import OutputSpec, as_output_spec

if TYPE_CHECKING:
    import httpx

# What local servers expect: some refuse an empty key, none looks at it.
NO_API_KEY: Final = NOT_GIVEN

# What a run does where a person has to be asked.
OnAsk: TypeAlias = Literal["wait", "suspend"]
OnSuspended: TypeAlias = Literal["raise", "deny"]

_NewOutputT = TypeVar("_NewOutputT")

_NO_HEADERS: Final[Mapping[str, str]] = {}
_NO_BODY: Final[Mapping[str, JsonValue]] = {}


def _shown(url: str) -> str:
    return repr(public_url(url))


def _as_fallbacks(
    fallbacks: "str | AgentOptions[object] | Iterable[str | AgentOptions[object]]",
) -> "tuple[str | AgentOptions[object], ...]":
    if isinstance(fallbacks, str | AgentOptions):
        return (fallbacks,)
    found = as_items("fallbacks", "models' names, or of AgentOptions", fallbacks)
    for item in found:
        if not isinstance(item, str | AgentOptions):
            raise ConfigError(
                "AgentOptions: fallbacks must hold models' names, or AgentOptions; "
                f"got {item!r:.80}"
            )
    return cast("tuple[str | AgentOptions[object], ...]", found)


@attrs.frozen(kw_only=True, eq=False)
class AgentOptions(Generic[OutputT_co]):
    """The definition of an agent.

    Where its requests go is settled here, once: what is given counts first, then the environment
    (`AGENT_ACTORS_BASE_URL`, `AGENT_ACTORS_MODEL`, `AGENT_ACTORS_API_KEY`), then the provider's own
    variables (such as `OPENAI_API_KEY`), then its profile.

    Args:
        model: The model's name, as the endpoint knows it. Required, unless environment or profile
            name one.
        base_url: The endpoint, such as `http://localhost:1234/v1`. Required without `provider`;
            with a profile, the gateway to use in its place.
        provider: The name of a provider profile, such as `ollama` or `anthropic`; a
            `ProviderProfile`; a `ModelProvider` of your own, or an object with only `complete` or
            `stream`.
        system_prompt: Sent first with every request, and never stored; empty: none.
        tools: Tools, or any objects of the `ToolProtocol`'s shape; names must differ.
        max_tokens: The most tokens of one answer.
        temperature: 0 is sent as 0.
        top_p: Nucleus sampling.
        stop: Text, or texts, at which an answer ends.
        seed: For endpoints that sample repeatably.
        presence_penalty: Between -2 and 2.
        frequency_penalty: Between -2 and 2.
        tool_choice: `auto`, `none`, `required` or the name of a tool.
        parallel_tool_calls: Whether one answer may hold several calls.
        extra_body: Further fields of the request's body, sent as they are.
        api_key: Sent as a bearer token, or raw under `api_key_header`; empty: none is sent. The
            default stands for none given, and local endpoints take it for a key.
        api_key_header: The header for the raw key; None: as the profile has it, else
            `Authorization: Bearer`.
        headers: Further headers.
        include_usage: Ask the endpoint to report tokens (`stream_options.include_usage`).
        http_client: Your own `httpx.AsyncClient`; it is used as it is, and not closed.
        cwd: The working directory that tools are told; by default the process's.
        agent_name: Stands on every event.
        max_iterations: The most model calls of a run.
        auto_execute_tools: For `Client` and `query`: whether tools run by themselves. Else the
            caller gets each call, carries it out and adds the result.
        max_tool_iterations: For these: the most rounds of tools of one turn, in place of
            `max_iterations`; the model is asked once more, so that its last reply is read.
        max_turns: For `Client`: the most turns; None: any number.
        run_timeout: For a whole run, model and tools together.
        connect_timeout: For a connection.
        first_token_timeout: From the start of a request to the first piece of the answer.
        idle_timeout: Between two pieces; comments and pings do not count.
        total_timeout: For one answer.
        tool_timeout: For a tool call, unless the tool names its own deadline.
        max_retries: Further tries of one model call, after a failure that may pass; 0: none.
        fallbacks: Models to go over to when the one before has failed for good: names of models at
            this endpoint, or other options, of which the endpoint, the sampling and the deadlines
            count. A run that went over stays there.
        hooks: What stands in the run's way: a `Hook`, a mapping from phases to functions, or any
            number of both; the first is the outermost.
        hook_timeout: How long one call of a hook may take that names no deadline of its own.
        permissions: What calls may do: a `PermissionPolicy`, or the name of a mode; None: anything.
        can_use_tool: Asked about a call in a person's place, sync or async.
        on_ask: Where a person has to be asked: `wait` for the answer, or `suspend` the run.
        on_suspended: What a prompt meets on a session that waits for answers: `raise`, or `deny`
            the open calls and go on.
        question_timeout: How long a question waits for its answer; none by then is a no.
        allow_message_rewrite: Whether `modified_messages` in a hook's decision counts.
        withhold_deltas: Show an answer only when the `after_model` hooks have seen it, and whole.
        resume_max_events: The most messages of a session that are sent; `math.inf`: any number. The
            newest go, no tool use without its result, and what the last word of the user's began
            always goes whole. What is kept is not changed by it.
        resume_max_bytes: The most bytes of them, as JSON; `math.inf`: any number.
        reader_stall: How long a reader of events may take none.
        tool_deltas: Emit `tool.delta` events while a call's arguments stream in.
        allow_lenient_tool_json: Carry out a call whose arguments are nearly JSON (a comma too many,
            single quotes, a text without quotes, a fence of code) where only one reading fits; the
            call is marked `repaired`. What is not whole never runs.
        output_type: What the last answer has to be: an attrs class, a dataclass, a TypedDict or a
            list of such; an `OutputSpec` for what a type checker takes for no class (unions,
            literals) and for a JSON Schema. `result.output` is then of that type. None: any text.
        output_retries: How often a run asks again for an answer that does not fit, telling the
            model what is wrong; each counts as an iteration.
        limits: What one run may use; it then ends with `budget:<what>` as its stop reason.
        session_limits: What all runs of the session may use together: `budget:session_<what>`.
        prices: What tokens cost; needed for a limit on cost and for a result's `cost`.

    Attributes:
        resolved: Where the requests go, by which key, and in which dialect; None with a provider of
            your own.

    Raises:
        ConfigError: Naming the field, what was expected and what came; or the environment variable
            in which a key is missing.
    """

    model: str = ""
    base_url: str = attrs.field(default="", repr=_shown)
    provider: object | None = None
    system_prompt: str = ""
    tools: tuple[Tool, ...] = attrs.field(default=(), converter=as_tools)
    max_tokens: int | None = 4096
    temperature: float | None = 0.7
    top_p: float | None = None
    stop: tuple[str, ...] = attrs.field(default=(), converter=as_stop)
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    extra_body: Mapping[str, JsonValue] = _NO_BODY
    api_key: str = attrs.field(default=NO_API_KEY, repr=False)
    api_key_header: str | None = None
    headers: Mapping[str, str] = attrs.field(default=_NO_HEADERS, repr=False)
    include_usage: bool = True
    http_client: "httpx.AsyncClient | None" = None
    cwd: Path = attrs.field(default=None, converter=as_path)
    agent_name: str | None = None
    max_iterations: int = 25
    auto_execute_tools: bool = False
    max_tool_iterations: int = 5
    max_turns: int | None = None
    run_timeout: float = math.inf
    connect_timeout: float = Timeouts().connect
    first_token_timeout: float = Timeouts().first_token
    idle_timeout: float = Timeouts().idle
    total_timeout: float = Timeouts().total
    tool_timeout: float = DEFAULT_TOOL_TIMEOUT
    max_retries: int = RetryPolicy().max_retries
    fallbacks: "tuple[str | AgentOptions[object], ...]" = attrs.field(
        default=(), converter=_as_fallbacks
    )
    hooks: Hooks = ()
    hook_timeout: float = 60.0
    permissions: PermissionPolicy | None = attrs.field(default=None, converter=as_policy)
    can_use_tool: CanUseTool | None = None
    on_ask: OnAsk = "wait"
    on_suspended: OnSuspended = "raise"
    question_timeout: float = 300.0
    allow_message_rewrite: bool = False
    withhold_deltas: bool = False
    resume_max_events: float = RESUME_MAX_EVENTS
    resume_max_bytes: float = RESUME_MAX_BYTES
    reader_stall: float = 60.0
    tool_deltas: bool = False
    allow_lenient_tool_json: bool = False
    output_type: type[OutputT_co] | OutputSpec[OutputT_co] | None = None
    output_retries: int = 2
    limits: UsageLimits = NO_LIMITS
    session_limits: UsageLimits = NO_LIMITS
    prices: Prices | None = None

    # Made once here, since every run and every request needs them.
    tools_by_name: Mapping[str, Tool] = attrs.field(init=False, repr=False)
    tool_specs: tuple[ToolSpec, ...] = attrs.field(init=False, repr=False)
    settings: ModelSettings = attrs.field(init=False, repr=False)
    deadlines: Timeouts = attrs.field(init=False, repr=False)
    recall: Recall = attrs.field(init=False, repr=False)
    retry_policy: RetryPolicy = attrs.field(init=False, repr=False)
    hook_chain: HookChain = attrs.field(init=False, repr=False)
    fallback_options: "tuple[AgentOptions, ...]" = attrs.field(init=False, repr=False)
    resolved: Resolved | None = attrs.field(init=False, repr=False)
    output: OutputSpec[OutputT_co] | None = attrs.field(init=False, repr=False)

    if not TYPE_CHECKING:  # there, the fields themselves say what may be given

        def __new__(cls, *args: object, **fields: object) -> "AgentOptions[object]":
            """Refuse what is no field, before attrs does so with a bare `TypeError`."""
            if args or not fields.keys() <= _FIELDS:
                raise ConfigError(f"AgentOptions: {_fault_of_call(args, fields)}")
            return object.__new__(cls)

    def __attrs_post_init__(self) -> None:
        _check(fault_of_types(self))
        _set(self, "tools_by_name", {tool.name: tool for tool in self.tools})
        _resolve(self)
        _check(fault_of(self))
        _set(self, "tool_specs", tuple(tool.spec for tool in self.tools))
        _set(self, "settings", _settings_of(self))
        _set(self, "output", as_output_spec(self.output_type))
        _set(self, "recall", Recall(self.resume_max_events, self.resume_max_bytes))
        _set(
            self,
            "deadlines",
            Timeouts(
                connect=self.connect_timeout,
                first_token=self.first_token_timeout,
                idle=self.idle_timeout,
                total=self.total_timeout,
            ),
        )
        if self.permissions is not None:
            can_ask = self.can_use_tool is not None or self.on_ask == "suspend"
            self.permissions.check(can_ask, self.tools)
        _set(self, "retry_policy", _retry_policy(self))
        _set(self, "hook_chain", compile_hooks(self.hooks) if self.hooks else NO_HOOKS)
        _set(self, "fallback_options", tuple(_fallback(self, item) for item in self.fallbacks))

    @overload
    def evolve(
        self,
        *,
        output_type: type[_NewOutputT] | OutputSpec[_NewOutputT],
        **changes: Unpack[OptionFields],
    ) -> "AgentOptions[_NewOutputT]": ...
    @overload
    def evolve(self, **changes: Unpack[OptionFields]) -> "AgentOptions[OutputT_co]": ...
    def evolve(self, **changes: object) -> "AgentOptions[object]":
        """The same options, but for these fields; checked like new ones.

        What was found for a field that nobody gave is found anew, but for the model: to another
        provider, pass its model as well.

        Raises:
            ConfigError: As for new options.
        """
        return _evolved(self, changes)

    @overload
    @classmethod
    def from_env(
        cls,
        *,
        output_type: type[_NewOutputT] | OutputSpec[_NewOutputT],
        **fields: Unpack[OptionFields],
    ) -> "AgentOptions[_NewOutputT]": ...
    @overload
    @classmethod
    def from_env(cls, **fields: Unpack[OptionFields]) -> "AgentOptions": ...
    @classmethod
    def from_env(cls, **fields: object) -> "AgentOptions[object]":
        """Options from the environment: `AGENT_ACTORS_` and a field's name in capitals.

        `AGENT_ACTORS_TEMPERATURE=0.2`, `AGENT_ACTORS_PROVIDER=ollama`; numbers, texts and switches
        (`true`, `false`), `none` and `inf` where a field takes them, and `fallbacks` with commas. A
        blank variable is not set.

        Args:
            **fields: Further fields; they count before the environment.

        Raises:
            ConfigError: A variable cannot be read as its field, cannot hold it, or is nearly the
                name of one; or as for new options.
        """
        return _made({**fields_of_environ(os.environ), **fields})

    @overload
    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        output_type: type[_NewOutputT] | OutputSpec[_NewOutputT],
        **fields: Unpack[OptionFields],
    ) -> "AgentOptions[_NewOutputT]": ...
    @overload
    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], **fields: Unpack[OptionFields]
    ) -> "AgentOptions": ...
    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **fields: object) -> "AgentOptions[object]":
        """Options from a file: YAML, TOML or JSON, with these fields' names.

        It is read at once, which blocks for a moment. In `model`, `base_url`, `api_key` and the
        values of `headers`, `${NAME}` is taken from the environment. `cwd` is taken from the file's
        own folder. What is no data (tools, hooks, functions, clients, types) is passed beside it.

        Args:
            path: The file, named `.yaml`, `.yml`, `.toml` or `.json`.
            **fields: Further fields; they count before the file's.

        Raises:
            ConfigError: Naming the file: it cannot be read, is of another form, has a field that
                there is none of, or holds what cannot work.
        """
        found = fields_of_file(path, os.environ, _made)
        with named(os.fspath(path)):
            return _made({**found, **fields})

    @property
    def output_schema(self) -> OutputSchema | None:
        """What a model is told of `output_type`; None if it names none."""
        return None if self.output is None else self.output.schema

    @property
    def retries_of_output(self) -> int | None:
        """How often an answer that does not fit is asked for again; None: any answer will do."""
        return None if self.output is None else self.output_retries


def as_agent(options: object) -> AgentOptions:
    """Options as all that is inside of a face takes them: nothing there knows the output's type.

    Raises:
        ConfigError: They are something else, of which only the type is told: it may hold a key.
    """
    if not isinstance(options, AgentOptions):
        raise ConfigError(
            f"options must be AgentOptions; got a value of type {type(options).__name__}; write "
            "AgentOptions(model='qwen3-32b', base_url='http://localhost:1234/v1'), for example"
        )
    return cast(AgentOptions, options)


_FIELDS: Final = frozenset(field.name for field in attrs.fields(AgentOptions) if field.init)


def _show_fields() -> None:
    """Tell `help`, and shells that complete names, of the fields: `__new__` takes anything."""
    made = inspect.signature(AgentOptions.__init__)
    _, *fields = made.parameters.values()  # without `self`
    setattr(AgentOptions, "__signature__", made.replace(parameters=fields))  # noqa: B010 - no checker knows it


_show_fields()


def _fault_of_call(args: tuple[object, ...], fields: Iterable[str]) -> str:
    if args:
        return f"its fields are named, as in AgentOptions(model='qwen3-32b'); got {args[0]!r:.80}"
    return fault_of_keywords(fields, _FIELDS)


def _check(fault: str) -> None:
    if fault:
        raise ConfigError(f"AgentOptions: {fault}")


def _made(fields: Mapping[str, object]) -> AgentOptions[object]:
    # What no type checker saw is checked where options are made.
    return cast("Callable[..., AgentOptions[object]]", AgentOptions)(**fields)


def _evolved(options: AgentOptions[object], changes: Mapping[str, object]) -> AgentOptions[object]:
    return cast("Callable[..., AgentOptions[object]]", attrs.evolve)(options, **changes)


# A frozen class sets its derived fields this way, in `__attrs_post_init__` only.
_set: Final = object.__setattr__


def _resolve(options: AgentOptions[object]) -> None:
    try:
        resolved = resolve_provider(options)
    except ConfigError as error:
        raise ConfigError(f"AgentOptions: {error}") from error
    _set(options, "resolved", resolved)
    if not options.model.strip():
        _set(options, "model", default_model() if resolved is None else resolved.model)


def _retry_policy(options: AgentOptions[object]) -> RetryPolicy:
    try:
        return RetryPolicy(max_retries=options.max_retries)
    except ConfigError as error:
        raise ConfigError(f"AgentOptions: {error}") from error


def _fallback(options: AgentOptions[object], item: str | AgentOptions[object]) -> AgentOptions:
    # What the answer has to be, the run's own options say: of these nothing depends on it.
    if isinstance(item, str):
        return cast(AgentOptions, attrs.evolve(options, model=item, fallbacks=()))
    if item.fallbacks:
        raise ConfigError(
            f"AgentOptions: the fallback {item.model!r} has fallbacks of its own; list them all "
            "on the agent itself, in order"
        )
    return cast(AgentOptions, item)


def _settings_of(options: AgentOptions[object]) -> ModelSettings:
    resolved = options.resolved
    # Chat completions obey their whole dialect, where the body is made; of Anthropic's protocol
    # this is all there is to obey.
    messages = resolved is not None and resolved.profile.protocol == "anthropic"
    refused = resolved.dialect.refuses if resolved is not None and messages else frozenset[str]()
    return ModelSettings(
        model=options.model,
        max_tokens=options.max_tokens,
        temperature=None if "temperature" in refused else options.temperature,
        top_p=None if "top_p" in refused else options.top_p,
        stop=options.stop,
        seed=options.seed,
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        tool_choice=None if "tool_choice" in refused else options.tool_choice,
        parallel_tool_calls=options.parallel_tool_calls,
        extra_body=options.extra_body,
        lenient_tool_json=options.allow_lenient_tool_json,
    )
