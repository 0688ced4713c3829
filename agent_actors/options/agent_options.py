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
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import attrs

from agent_actors.context.resume_window import RESUME_MAX_BYTES, RESUME_MAX_EVENTS, ResumeWindow
from agent_actors.domain.json import JsonValue
from agent_actors.domain.limits import (
    DEFAULT_TOOL_TIMEOUT,
    NO_LIMITS,
    Prices,
    Timeouts,
    UsageLimits,
    find_price_error,
)
from agent_actors.domain.model import ModelSettings, OutputSchema, ToolChoice, ToolSpec
from agent_actors.domain.run import OutputT_co
from agent_actors.domain.urls import public_url
from agent_actors.errors import ConfigError
from agent_actors.hooks.registry import NO_HOOKS, HookChain, Hooks, compile_hooks
from agent_actors.options import field_types as kinds
from agent_actors.options.converters import as_items, as_path, as_policy, as_stop, as_tools
from agent_actors.options.loading import IN_CODE, fields_of_environ, fields_of_file, named
from agent_actors.options.validation import (
    find_key_error,
    find_keyword_error,
    find_model_error,
    find_tool_choice_error,
    find_url_error,
)
from agent_actors.permissions import CanUseTool, PermissionPolicy
from agent_actors.profiles.resolve import (
    NO_API_KEY,
    ResolvedProvider,
    default_model,
    resolve_provider,
)
from agent_actors.protocol.retry import RetryPolicy
from agent_actors.tools import Tool
from agent_actors.tools.output_spec import OutputSpec, as_output_spec

if TYPE_CHECKING:
    import httpx

# How a run behaves when a person has to decide.
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


class OptionFields(TypedDict, total=False):
    """The fields of `AgentOptions` as keywords, for type checkers; nothing here runs.

    `output_type` is missing, because it decides the type of the options. A test compares this table
    with the fields.
    """

    model: str
    base_url: str
    provider: object | None
    system_prompt: str
    tools: Iterable[object]
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: str | Iterable[str]
    seed: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    tool_choice: ToolChoice | None
    parallel_tool_calls: bool | None
    extra_body: Mapping[str, JsonValue]
    api_key: str
    api_key_header: str | None
    headers: Mapping[str, str]
    include_usage: bool
    http_client: "httpx.AsyncClient | None"
    cwd: str | os.PathLike[str] | None
    agent_name: str | None
    max_iterations: int
    auto_execute_tools: bool
    max_tool_iterations: int
    max_turns: int | None
    run_timeout: float
    connect_timeout: float
    first_token_timeout: float
    idle_timeout: float
    total_timeout: float
    tool_timeout: float
    max_retries: int
    fallbacks: "str | AgentOptions[object] | Iterable[str | AgentOptions[object]]"
    hooks: Hooks
    hook_timeout: float
    permissions: PermissionPolicy | str | None
    can_use_tool: CanUseTool | None
    on_ask: OnAsk
    on_suspended: OnSuspended
    question_timeout: float
    allow_message_rewrite: bool
    withhold_deltas: bool
    resume_max_events: float
    resume_max_bytes: float
    reader_stall: float
    tool_deltas: bool
    allow_lenient_tool_json: bool
    output_retries: int
    limits: UsageLimits
    session_limits: UsageLimits
    prices: Prices | None


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

    # The one table of the fields. Validators check types and ranges; `__attrs_post_init__` checks
    # what depends on several fields. Fields with `IN_CODE` cannot come from a file.
    model: str = attrs.field(default="", validator=kinds.TEXT_OR_ENVIRONMENT)
    base_url: str = attrs.field(default="", validator=kinds.TEXT_OR_ENVIRONMENT, repr=_shown)
    provider: object | None = attrs.field(default=None, validator=kinds.PROVIDER)
    system_prompt: str = attrs.field(default="", validator=kinds.TEXT)
    tools: tuple[Tool, ...] = attrs.field(default=(), converter=as_tools, metadata=IN_CODE)
    max_tokens: int | None = attrs.field(
        default=4096, validator=kinds.whole_or_none(1, ", or None to send none")
    )
    temperature: float | None = attrs.field(default=0.7, validator=kinds.number_or_none(0, 2))
    top_p: float | None = attrs.field(default=None, validator=kinds.number_or_none(0, 1))
    stop: tuple[str, ...] = attrs.field(default=(), converter=as_stop, validator=kinds.STOP)
    seed: int | None = attrs.field(default=None, validator=kinds.WHOLE_OR_NONE)
    presence_penalty: float | None = attrs.field(
        default=None, validator=kinds.number_or_none(-2, 2)
    )
    frequency_penalty: float | None = attrs.field(
        default=None, validator=kinds.number_or_none(-2, 2)
    )
    tool_choice: ToolChoice | None = attrs.field(default=None, validator=kinds.TEXT_OR_NONE)
    parallel_tool_calls: bool | None = attrs.field(default=None, validator=kinds.SWITCH_OR_NONE)
    extra_body: Mapping[str, JsonValue] = attrs.field(default=_NO_BODY, validator=kinds.MAPPING)
    api_key: str = attrs.field(default=NO_API_KEY, validator=kinds.KEY, repr=False)
    api_key_header: str | None = attrs.field(default=None, validator=kinds.TEXT_OR_NONE)
    headers: Mapping[str, str] = attrs.field(
        default=_NO_HEADERS, validator=kinds.HEADERS, repr=False
    )
    include_usage: bool = attrs.field(default=True, validator=kinds.SWITCH)
    http_client: "httpx.AsyncClient | None" = attrs.field(
        default=None, validator=kinds.HTTP_CLIENT, metadata=IN_CODE
    )
    cwd: Path = attrs.field(default=None, converter=as_path, validator=kinds.PATH)
    agent_name: str | None = attrs.field(default=None, validator=kinds.TEXT_OR_NONE)
    max_iterations: int = attrs.field(default=25, validator=kinds.whole(1))
    auto_execute_tools: bool = attrs.field(default=False, validator=kinds.SWITCH)
    max_tool_iterations: int = attrs.field(default=5, validator=kinds.whole(0))
    max_turns: int | None = attrs.field(
        default=None, validator=kinds.whole_or_none(1, ", or None for any number")
    )
    run_timeout: float = attrs.field(default=math.inf, validator=kinds.SECONDS)
    connect_timeout: float = attrs.field(default=Timeouts().connect, validator=kinds.SECONDS)
    first_token_timeout: float = attrs.field(
        default=Timeouts().first_token, validator=kinds.SECONDS
    )
    idle_timeout: float = attrs.field(default=Timeouts().idle, validator=kinds.SECONDS)
    total_timeout: float = attrs.field(default=Timeouts().total, validator=kinds.SECONDS)
    tool_timeout: float = attrs.field(default=DEFAULT_TOOL_TIMEOUT, validator=kinds.SECONDS)
    max_retries: int = attrs.field(default=RetryPolicy().max_retries, validator=kinds.WHOLE)
    fallbacks: "tuple[str | AgentOptions[object], ...]" = attrs.field(
        default=(), converter=_as_fallbacks
    )
    hooks: Hooks = attrs.field(default=(), metadata=IN_CODE)
    hook_timeout: float = attrs.field(default=60.0, validator=kinds.SECONDS)
    permissions: PermissionPolicy | None = attrs.field(
        default=None, converter=as_policy, validator=kinds.POLICY
    )
    can_use_tool: CanUseTool | None = attrs.field(
        default=None, validator=kinds.FUNCTION, metadata=IN_CODE
    )
    on_ask: OnAsk = attrs.field(default="wait", validator=kinds.choice("wait", "suspend"))
    on_suspended: OnSuspended = attrs.field(
        default="raise", validator=kinds.choice("raise", "deny")
    )
    question_timeout: float = attrs.field(default=300.0, validator=kinds.SECONDS)
    allow_message_rewrite: bool = attrs.field(default=False, validator=kinds.SWITCH)
    withhold_deltas: bool = attrs.field(default=False, validator=kinds.SWITCH)
    resume_max_events: float = attrs.field(default=RESUME_MAX_EVENTS, validator=kinds.AMOUNT)
    resume_max_bytes: float = attrs.field(default=RESUME_MAX_BYTES, validator=kinds.AMOUNT)
    reader_stall: float = attrs.field(default=60.0, validator=kinds.SECONDS)
    tool_deltas: bool = attrs.field(default=False, validator=kinds.SWITCH)
    allow_lenient_tool_json: bool = attrs.field(default=False, validator=kinds.SWITCH)
    output_type: type[OutputT_co] | OutputSpec[OutputT_co] | None = attrs.field(
        default=None, metadata=IN_CODE
    )
    output_retries: int = attrs.field(default=2, validator=kinds.whole(0))
    limits: UsageLimits = attrs.field(default=NO_LIMITS, validator=kinds.LIMITS)
    session_limits: UsageLimits = attrs.field(default=NO_LIMITS, validator=kinds.LIMITS)
    prices: Prices | None = attrs.field(default=None, validator=kinds.PRICES)

    # Made once here, since every run and every request needs them.
    tools_by_name: Mapping[str, Tool] = attrs.field(init=False, repr=False)
    tool_specs: tuple[ToolSpec, ...] = attrs.field(init=False, repr=False)
    settings: ModelSettings = attrs.field(init=False, repr=False)
    deadlines: Timeouts = attrs.field(init=False, repr=False)
    resume_window: ResumeWindow = attrs.field(init=False, repr=False)
    retry_policy: RetryPolicy = attrs.field(init=False, repr=False)
    hook_chain: HookChain = attrs.field(init=False, repr=False)
    fallback_options: "tuple[AgentOptions, ...]" = attrs.field(init=False, repr=False)
    resolved: ResolvedProvider | None = attrs.field(init=False, repr=False)
    output: OutputSpec[OutputT_co] | None = attrs.field(init=False, repr=False)

    if not TYPE_CHECKING:  # there, the fields themselves say what may be given

        def __new__(cls, *args: object, **fields: object) -> "AgentOptions[object]":
            """Refuse what is no field, before attrs does so with a bare `TypeError`."""
            if args or not fields.keys() <= _FIELDS:
                raise ConfigError(f"AgentOptions: {_find_call_error(args, fields)}")
            return object.__new__(cls)

    def __attrs_post_init__(self) -> None:
        _set(self, "tools_by_name", {tool.name: tool for tool in self.tools})
        _resolve(self)
        _check(self)
        _set(self, "tool_specs", tuple(tool.spec for tool in self.tools))
        _set(self, "settings", _settings_of(self))
        _set(self, "output", as_output_spec(self.output_type))
        _set(self, "resume_window", ResumeWindow(self.resume_max_events, self.resume_max_bytes))
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
        return _made({**fields_of_environ(os.environ, AgentOptions), **fields})

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
        found = fields_of_file(path, AgentOptions, os.environ, _made)
        with named(os.fspath(path)):
            return _made({**found, **fields})

    @property
    def output_schema(self) -> OutputSchema | None:
        """What a model is told of `output_type`; None if it names none."""
        return None if self.output is None else self.output.schema

    @property
    def resends_refused(self) -> bool:
        """Whether refused responses of earlier turns are sent again, as the profile says."""
        return self.resolved is not None and self.resolved.profile.resend_refused

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


def _find_call_error(args: tuple[object, ...], fields: Iterable[str]) -> str:
    if args:
        return f"fields need names, as in AgentOptions(model='qwen3-32b'); got {args[0]!r:.80}"
    return find_keyword_error(fields, _FIELDS)


def _check(options: AgentOptions[object]) -> None:
    """Check what depends on several fields; the validators of the fields have passed."""
    resolved = options.resolved
    error = find_model_error(options.model) or find_key_error(
        options.api_key if resolved is None else resolved.api_key
    )
    if not error and resolved is not None:
        error = find_url_error(resolved, passed=bool(options.base_url))
    error = (
        error
        or find_tool_choice_error(options.tool_choice, options.tools_by_name)
        or find_price_error(options.limits, options.session_limits, options.prices)
    )
    if error:
        raise ConfigError(f"AgentOptions: {error}")


def _made(fields: Mapping[str, object]) -> AgentOptions[object]:
    # What no type checker saw is checked where options are made.
    return cast("Callable[..., AgentOptions[object]]", AgentOptions)(**fields)


def _evolved(options: AgentOptions[object], changes: Mapping[str, object]) -> AgentOptions[object]:
    return cast("Callable[..., AgentOptions[object]]", attrs.evolve)(options, **changes)


# A frozen class sets its derived fields this way, in `__attrs_post_init__` only.
_set: Final = object.__setattr__


def _resolve(options: AgentOptions[object]) -> None:
    try:
        resolved = resolve_provider(
            options.provider,
            os.environ,
            base_url=options.base_url,
            model=options.model,
            api_key=options.api_key,
            api_key_header=options.api_key_header,
            headers=options.headers,
        )
    except ConfigError as error:
        raise ConfigError(f"AgentOptions: {error}") from error
    _set(options, "resolved", resolved)
    if not options.model.strip():
        _set(options, "model", default_model(os.environ) if resolved is None else resolved.model)


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
