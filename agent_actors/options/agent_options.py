"""`AgentOptions`: the immutable definition of an agent, shared by any number of runs.

Options contain no per-run state. They are validated when they are created, so that mistakes are
found before the first request. Durations are in seconds, and `math.inf` means no deadline. A
sampling setting that is None is not sent.
"""

import inspect
import math
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Final,
    Generic,
    Literal,
    Never,
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
    DEFAULT_MAX_CALLS,
    DEFAULT_MAX_RESULT_BYTES,
    DEFAULT_TOOL_TIMEOUT,
    NO_LIMITS,
    Prices,
    Timeouts,
    UsageLimits,
    find_price_error,
)
from agent_actors.domain.model import ModelSettings, OutputSchema, ToolChoice, ToolSpec
from agent_actors.domain.provenance import public_url
from agent_actors.domain.run import AgentContext, DepsT_contra, OutputT_co
from agent_actors.domain.usage import TokenCallback
from agent_actors.domain.workspace.background import BackgroundOwner
from agent_actors.domain.workspace.project import SettingSource
from agent_actors.errors import ConfigError
from agent_actors.hooks.guardrail import Guardrail, as_guardrails
from agent_actors.hooks.registry import NO_HOOKS, HookChain, Hooks, compile_hooks
from agent_actors.hooks.summarization import SummarizationHook
from agent_actors.options import field_types as kinds
from agent_actors.options.agent_definition import (
    NO_AGENTS,
    TASK,
    AgentDefinition,
    as_agents,
    find_agent_error,
)
from agent_actors.options.checkpoints import Checkpoints, as_checkpoints
from agent_actors.options.compaction import Compaction, as_compaction
from agent_actors.options.converters import (
    as_builtin_tools,
    as_items,
    as_path,
    as_policy,
    as_stop,
    as_tools,
)
from agent_actors.options.dependencies import DepsNeed, needs_of
from agent_actors.options.factories import (
    DeferredModel,
    ModelFactory,
    as_model,
    is_provider_factory,
)
from agent_actors.options.files.agent_file import NO_REGISTRY, AgentRegistry
from agent_actors.options.files.loading import IN_CODE, fields_of_environ, fields_of_file, named
from agent_actors.options.mcp_servers import McpServer, as_mcp_servers
from agent_actors.options.project import (
    BrokenFiles,
    PathLike,
    as_commands,
    as_directory,
    as_memory_paths,
    as_skill_paths,
    as_skills,
    as_sources,
)
from agent_actors.options.validation import (
    find_key_error,
    find_keyword_error,
    find_model_error,
    find_tool_choice_error,
    find_url_error,
)
from agent_actors.options.workspace_config import WorkspaceSource, as_workspace
from agent_actors.permissions import CanUseTool, PermissionPolicy
from agent_actors.profiles.resolve import (
    NO_API_KEY,
    ResolvedProvider,
    default_model,
    resolve_provider,
)
from agent_actors.project.commands import Command
from agent_actors.project.skills import Skill
from agent_actors.protocol.retry import RetryPolicy
from agent_actors.tools import Tool, check_tools
from agent_actors.tools.builtin_names import expanded_names
from agent_actors.tools.output_spec import OutputSpec, as_output_spec
from agent_actors.tools.tool import ToolValidator

if TYPE_CHECKING:
    import httpx

# The behavior of a run when a person has to decide.
OnAsk: TypeAlias = Literal["wait", "suspend"]
OnSuspended: TypeAlias = Literal["raise", "deny"]
# The behavior when the endpoint refuses a request that is longer than the context window.
OnOverflow: TypeAlias = Literal["error", "compact"]
PromptCache: TypeAlias = Literal["off", "auto", "1h"]

_NewOutputT = TypeVar("_NewOutputT")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    _NewDepsT = TypeVarWithDefault("_NewDepsT", default=Never)
else:
    _NewDepsT = TypeVar("_NewDepsT")

# Returns the system prompt of a run. The function may declare the type of the dependencies that it
# needs.
Instructions: TypeAlias = Callable[[AgentContext[Never]], "str | Awaitable[str]"]

_NO_HEADERS: Final[Mapping[str, str]] = {}
_NO_BODY: Final[Mapping[str, JsonValue]] = {}


def _shown(url: str) -> str:
    return repr(public_url(url))


def _as_fallbacks(
    fallbacks: "str | AgentOptions[object] | Iterable[str | AgentOptions[object]]",
) -> "tuple[str | AgentOptions[object], ...]":
    if isinstance(fallbacks, str | AgentOptions):
        return (fallbacks,)
    found = as_items("fallbacks", "names of models, or of AgentOptions", fallbacks)
    for item in found:
        if not isinstance(item, str | AgentOptions):
            raise ConfigError(
                "AgentOptions: fallbacks must contain only names of models, or AgentOptions; "
                f"got {item!r:.80}"
            )
    return cast("tuple[str | AgentOptions[object], ...]", found)


class OptionFields(TypedDict, total=False):
    """The fields of `AgentOptions` as keyword arguments, for type checkers; not used at run time.

    `output_type` and `deps_type` are missing here, because they determine the type of the options.
    A test compares this table with the fields.
    """

    model: str | ModelFactory
    base_url: str
    provider: object | None
    system_prompt: "str | Instructions"
    tools: Iterable[object]
    builtin_tools: str | Iterable[str]
    agents: "Mapping[str, AgentDefinition | Mapping[str, object]]"
    child_events: bool
    workspace: "WorkspaceSource | Mapping[str, object] | None"
    mcp_servers: "Mapping[str, McpServer | Mapping[str, object] | str] | None"
    checkpoints: "Checkpoints | Mapping[str, object] | str | os.PathLike[str] | bool | None"
    background_owner: BackgroundOwner
    setting_sources: str | Iterable[str]
    project_dir: str | os.PathLike[str] | None
    claude_dir: str | os.PathLike[str] | None
    skill_paths: "PathLike | Iterable[PathLike]"
    memory_paths: "PathLike | Iterable[PathLike]"
    skills: Skill | Iterable[Skill]
    slash_commands: bool
    commands: Command | Iterable[Command]
    broken_files: BrokenFiles
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
    resume: str | None
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
    tool_validator: ToolValidator | None
    max_calls_per_response: int
    max_result_bytes: float
    max_retries: int
    fallbacks: "str | AgentOptions[object] | Iterable[str | AgentOptions[object]]"
    hooks: Hooks
    guardrails: Guardrail | Iterable[Guardrail]
    hook_timeout: float
    permissions: PermissionPolicy | str | None
    can_use_tool: CanUseTool | None
    on_ask: OnAsk | None
    on_suspended: OnSuspended
    question_timeout: float
    allow_message_rewrite: bool
    withhold_deltas: bool
    compaction: "Compaction | Mapping[str, object] | bool | None"
    on_overflow: OnOverflow
    prompt_cache: PromptCache
    resume_max_events: float
    resume_max_bytes: float
    reader_stall: float
    tool_deltas: bool
    allow_lenient_tool_json: bool
    output_retries: int
    limits: UsageLimits
    session_limits: UsageLimits
    prices: Prices | None
    token_callback: TokenCallback | None


@attrs.frozen(kw_only=True, eq=False)
class AgentOptions(Generic[OutputT_co, DepsT_contra]):
    """The definition of an agent.

    The endpoint, the model and the key are determined once, when the options are created. Each is
    taken from the first of these sources that provides it: the arguments, the environment
    (`AGENT_ACTORS_BASE_URL`, `AGENT_ACTORS_MODEL`, `AGENT_ACTORS_API_KEY`), the provider's own
    variables (for example `OPENAI_API_KEY`), the provider's profile.

    Args:
        model: The model's name at the endpoint; or a function, sync or async, that returns it and
            may take a `RunInfo`. The function is called once per runtime, when a run first needs
            the name. Required unless the environment or the profile provides one.
        base_url: The endpoint's URL, for example `http://localhost:1234/v1`. Required without
            `provider`. With a profile, this URL (for example, that of a gateway) replaces the
            profile's URL.
        provider: The name of a provider profile, for example `ollama` or `anthropic`; a
            `ProviderProfile`; a custom `ModelProvider`; an object with only `complete` or `stream`;
            or a function that returns one of these, as for `model`.
        system_prompt: Sent at the beginning of every request and never stored. If empty, the
            profile's system prompt is used, if it has one. Or a function, sync or async, that takes
            an `AgentContext` and returns the text. It is called once per run, before the first
            model call, and must return within `hook_timeout`.
        tools: Tools, or any objects that implement `ToolProtocol`; their names must be unique.
        builtin_tools: Names of built-in tools, or of the vocabularies `code` and `filesystem`.
            Tools for files and commands require a workspace.
        agents: Agents by name, as `AgentDefinition` or as tables, which the model may start with
            the tool `Task`.
        child_events: True to receive the events of the agents that `Task` starts in the stream of
            the run, with their `agent_name` and `parent_tool_use_id`.
        workspace: The place where tools may use files and run commands: a `Workspace`, which is
            used as it is and never closed; a function, sync or async, that takes a `RunInfo` and
            returns the workspace of a session; or a table with the `type` (`local` or
            `bubblewrap`) and its fields, such as `root`. If None, a nested run uses the workspace
            of the run that started it, and any other run has none.
        mcp_servers: MCP servers by name: a `StdioServer`, an `HttpServer`, an `SseServer`, an
            `InProcessServer`, a table with the fields of one, or a text such as
            `stdio:python server.py`. The model calls their tools as `server__tool`. Requires the
            extra `mcp`.
        checkpoints: Copies of the workspace's files at the beginning and the end of each run, from
            which `runtime.sessions.rewind(…, files=True)` restores them: a `Checkpoints`, True for
            its defaults, or its directory. None or False: no copies.
        background_owner: The owner of the background commands that the agent starts. Commands of
            the `session` end when the session is deleted; commands of the `runtime` continue until
            the runtime closes.
        setting_sources: The groups of files that the agent may read: `user` for the user's
            settings (`~/.claude`), `project` for skills, memory files and rules of the project,
            `local` for `CLAUDE.local.md`. By default, no file is read.
        project_dir: The directory of the project; by default `cwd`.
        claude_dir: The directory with the project's settings; by default `.claude` in
            `project_dir`.
        skill_paths: Other directories with skills, which need no `setting_sources`.
        memory_paths: Other memory files, which need no `setting_sources`. Files that do not exist
            are skipped.
        skills: Skills that are defined in code.
        slash_commands: True to carry out the lines of a prompt that begin with `/name`, before the
            model is called. Leave it off for prompts from a network.
        commands: Slash commands that are defined in code, in addition to those in files.
        broken_files: `skip` to skip files of a project that cannot be used, and to report them in
            `RunResult.settings`; `refuse` to refuse the run.
        max_tokens: Maximum number of tokens in one response; not sent if None.
        temperature: Sampling temperature, from 0 to 2; not sent if None.
        top_p: Threshold for nucleus sampling, from 0 to 1.
        stop: One or several stop sequences, at which a response ends.
        seed: Seed for endpoints that support reproducible sampling.
        presence_penalty: From -2 to 2.
        frequency_penalty: From -2 to 2.
        tool_choice: `auto`, `none`, `required` or the name of a tool.
        parallel_tool_calls: True if one response may contain several calls.
        extra_body: Additional fields of the request body, sent unchanged.
        api_key: The key, sent as a bearer token, or unchanged in the header `api_key_header`. If
            empty, no key is sent. The default value means that no key was passed; local endpoints
            accept it as a key.
        api_key_header: The header in which to send the key unchanged. If None, the profile's header
            is used or, if it has none, `Authorization: Bearer`.
        headers: Additional HTTP headers.
        include_usage: True to request token counts (`stream_options.include_usage`).
        http_client: A custom `httpx.AsyncClient`, which is used as it is and never closed.
        cwd: The working directory passed to tools; by default, that of the process. With a
            workspace, tools get its root instead.
        agent_name: The agent's name on every event.
        resume: The id of an existing session, which runs, queries and clients without a session id
            continue. If None, each of them begins a new session.
        max_iterations: Maximum number of model calls in a run.
        auto_execute_tools: For `Client` and `query`: True to execute tools automatically. If False,
            the caller receives each call, executes it and adds the result.
        max_tool_iterations: For `Client` and `query`: maximum number of rounds of tools in one
            turn, instead of `max_iterations`. After the last round, the model is called once more
            for its final response.
        max_turns: For `Client`: maximum number of turns; None means no limit.
        run_timeout: Timeout for a complete run, including model and tool calls.
        connect_timeout: Timeout for opening a connection.
        first_token_timeout: Timeout from the start of a request to the first delta of the response.
        idle_timeout: Timeout between two deltas; comments and pings do not count.
        total_timeout: Timeout for one complete response.
        tool_timeout: Timeout for a tool call, unless the tool has its own.
        tool_validator: A function that takes the tool's name and a call's arguments. It is called
            for every call, after the tool's own validation, and returns an error message for the
            model, or None.
        max_calls_per_response: Maximum number of tool calls in one response that are run. The
            others get an error result, which tells the model to make them in its next response.
        max_result_bytes: Maximum size of the text of a tool result; at least 1,024, `math.inf` for
            no limit. A longer result is truncated, and the model can read the rest with the tool
            `ReadResult`. Images and files do not count.
        max_retries: Maximum number of retries of one model call after transient failures; no
            retries if it is 0 or less.
        fallbacks: Models to use, in order, when the previous one has failed permanently: names of
            models at this endpoint, or other `AgentOptions`, of which only the endpoint, the
            sampling settings and the timeouts are used. A run that has switched to a fallback keeps
            it.
        hooks: A `Hook`, a mapping from phases to functions, or any number of both; the first hook
            is the outermost.
        guardrails: Checks of the input and the output: a `Guardrail`, or any number of them. A
            violation ends the run with the stop reason `blocked:guardrail`.
        hook_timeout: Timeout for one call of a hook, unless the hook has its own, and for one call
            of the functions `system_prompt`, `offered` and `check`. The time that a hook spends in
            `call_next` does not count.
        permissions: A `PermissionPolicy`, or the name of a mode. If None, every call is allowed.
        can_use_tool: A function, sync or async, that decides about a call instead of a person.
        on_ask: The behavior when a person has to decide: `wait` for the answer (from
            `runtime.answer` or an `ApprovalQueue`), or `suspend` the run. With None, the run waits
            too, but the mode `prompt` then requires a `can_use_tool`.
        on_suspended: The behavior for a prompt to a session that is waiting for answers: `raise` an
            error, or `deny` the open calls and continue.
        question_timeout: Timeout for a question. If there is no answer by then, the call is denied.
        allow_message_rewrite: True if hooks may replace messages with `modified_messages`.
        withhold_deltas: True to emit a response as a whole, after its `after_model` hooks, without
            deltas.
        compaction: When and how a long conversation is made shorter: a `Compaction`, a table with
            its fields, or True for its defaults. The log keeps all messages. None or False: never.
        on_overflow: The behavior when the endpoint refuses a request that is longer than the
            model's context window: `error`, or `compact` to make the conversation shorter once and
            ask again.
        prompt_cache: The use of the endpoint's prompt cache. `auto` marks the tools, the system
            prompt and the conversation for Anthropic's cache, and sends the session's id as
            `prompt_cache_key` to endpoints with OpenAI's protocol, which must accept that field.
            `1h` is the same with a lifetime of one hour at Anthropic. `off` sends nothing.
        resume_max_events: Maximum number of a session's messages that are sent; `math.inf` means no
            limit. The newest messages are sent, and calls are always sent with their results. The
            last user message and everything after it are always sent completely. The stored session
            is not changed.
        resume_max_bytes: Maximum number of bytes of these messages, as JSON; `math.inf` means no
            limit.
        reader_stall: Maximum time that a reader of events may let pass without reading one.
        tool_deltas: True to emit `tool.delta` events while the arguments of a call are streamed.
        allow_lenient_tool_json: True to execute a call whose arguments are almost JSON (with an
            extra comma, single quotes, unquoted text or a code fence) if only one interpretation is
            possible. Such a call is marked as `repaired`. Incomplete arguments are never executed.
        output_type: The type of the last response: an attrs class, a dataclass, a TypedDict, or a
            list of these; or an `OutputSpec` for a JSON Schema and for types that type checkers do
            not treat as classes (unions, literals). `result.output` then has this type. If None,
            any text is accepted.
        deps_type: The class of the dependencies that the agent's tools, hooks and functions use as
            `ctx.deps`; None if they use none. Runs are given such an object as `deps=`, and nested
            runs share it. Type checkers and the runtime check it.
        output_retries: Maximum number of times that a run requests a valid response after an
            invalid one. Each request contains the validation error and counts as an iteration.
        limits: Limits for one run. If a limit is reached, the run ends with the stop reason
            `budget:<what>`.
        session_limits: Limits for all runs of the session together. If a limit is reached, the run
            ends with the stop reason `budget:session_<what>`.
        prices: Token prices; required for cost limits and for the `cost` of results.
        token_callback: A sync function that is called with the `TokenStats` of each model call,
            before they are recorded. If it raises an exception, the exception is logged.

    Attributes:
        resolved: The endpoint, the key and the request dialect; None with a custom provider, or
            with a function that returns the provider.
        deferred: True if `model` or `provider` is a function that a run calls.

    Raises:
        ConfigError: A field is invalid. The message names the field and the expected and actual
            values. If a key is missing, the message names its environment variable.
    """

    # All fields are defined here. Validators check types and ranges; `__attrs_post_init__` checks
    # rules that involve several fields. Fields with `IN_CODE` cannot be set in a file.
    model: str = attrs.field(default="", converter=as_model, validator=kinds.TEXT_OR_ENVIRONMENT)
    base_url: str = attrs.field(default="", validator=kinds.TEXT_OR_ENVIRONMENT, repr=_shown)
    provider: object | None = attrs.field(default=None, validator=kinds.PROVIDER)
    system_prompt: "str | Instructions" = attrs.field(default="", validator=kinds.INSTRUCTIONS)
    tools: tuple[Tool, ...] = attrs.field(default=(), converter=as_tools, metadata=IN_CODE)
    builtin_tools: tuple[str, ...] = attrs.field(
        default=(), converter=as_builtin_tools, validator=kinds.BUILTIN_TOOLS
    )
    agents: Mapping[str, AgentDefinition] = attrs.field(
        default=NO_AGENTS, converter=as_agents, validator=kinds.AGENTS
    )
    child_events: bool = attrs.field(default=False, validator=kinds.SWITCH)
    workspace: WorkspaceSource | None = attrs.field(
        default=None, converter=as_workspace, validator=kinds.WORKSPACE
    )
    mcp_servers: Mapping[str, McpServer] = attrs.field(
        factory=dict[str, McpServer], converter=as_mcp_servers, validator=kinds.MCP_SERVERS
    )
    checkpoints: Checkpoints | None = attrs.field(
        default=None, converter=as_checkpoints, validator=kinds.CHECKPOINTS
    )
    background_owner: BackgroundOwner = attrs.field(
        default="session", validator=kinds.choice("session", "runtime")
    )
    setting_sources: tuple[SettingSource, ...] = attrs.field(default=(), converter=as_sources)
    project_dir: Path | None = attrs.field(default=None, converter=as_directory)
    claude_dir: Path | None = attrs.field(default=None, converter=as_directory)
    skill_paths: tuple[Path, ...] = attrs.field(default=(), converter=as_skill_paths)
    memory_paths: tuple[Path, ...] = attrs.field(default=(), converter=as_memory_paths)
    skills: tuple[Skill, ...] = attrs.field(default=(), converter=as_skills, metadata=IN_CODE)
    slash_commands: bool = attrs.field(default=False, validator=kinds.SWITCH)
    commands: tuple[Command, ...] = attrs.field(default=(), converter=as_commands, metadata=IN_CODE)
    broken_files: BrokenFiles = attrs.field(
        default="skip", validator=kinds.choice("skip", "refuse")
    )
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
    resume: str | None = attrs.field(default=None, validator=kinds.SESSION_ID)
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
    tool_validator: ToolValidator | None = attrs.field(
        default=None, validator=kinds.TOOL_VALIDATOR, metadata=IN_CODE
    )
    max_calls_per_response: int = attrs.field(default=DEFAULT_MAX_CALLS, validator=kinds.whole(1))
    max_result_bytes: float = attrs.field(
        default=DEFAULT_MAX_RESULT_BYTES, validator=kinds.RESULT_BYTES
    )
    max_retries: int = attrs.field(default=RetryPolicy().max_retries, validator=kinds.WHOLE)
    fallbacks: "tuple[str | AgentOptions[object], ...]" = attrs.field(
        default=(), converter=_as_fallbacks
    )
    hooks: Hooks = attrs.field(default=(), metadata=IN_CODE)
    guardrails: tuple[Guardrail, ...] = attrs.field(
        default=(), converter=as_guardrails, metadata=IN_CODE
    )
    hook_timeout: float = attrs.field(default=60.0, validator=kinds.SECONDS)
    permissions: PermissionPolicy | None = attrs.field(
        default=None, converter=as_policy, validator=kinds.POLICY
    )
    can_use_tool: CanUseTool | None = attrs.field(
        default=None, validator=kinds.FUNCTION, metadata=IN_CODE
    )
    on_ask: OnAsk | None = attrs.field(
        default=None, validator=kinds.choice_or_none("wait", "suspend")
    )
    on_suspended: OnSuspended = attrs.field(
        default="raise", validator=kinds.choice("raise", "deny")
    )
    question_timeout: float = attrs.field(default=300.0, validator=kinds.SECONDS)
    allow_message_rewrite: bool = attrs.field(default=False, validator=kinds.SWITCH)
    withhold_deltas: bool = attrs.field(default=False, validator=kinds.SWITCH)
    compaction: Compaction | None = attrs.field(
        default=None, converter=as_compaction, validator=kinds.COMPACTION
    )
    on_overflow: OnOverflow = attrs.field(
        default="error", validator=kinds.choice("error", "compact")
    )
    prompt_cache: PromptCache = attrs.field(
        default="off", validator=kinds.choice("off", "auto", "1h")
    )
    resume_max_events: float = attrs.field(default=RESUME_MAX_EVENTS, validator=kinds.AMOUNT)
    resume_max_bytes: float = attrs.field(default=RESUME_MAX_BYTES, validator=kinds.AMOUNT)
    reader_stall: float = attrs.field(default=60.0, validator=kinds.SECONDS)
    tool_deltas: bool = attrs.field(default=False, validator=kinds.SWITCH)
    allow_lenient_tool_json: bool = attrs.field(default=False, validator=kinds.SWITCH)
    output_type: type[OutputT_co] | OutputSpec[OutputT_co] | None = attrs.field(
        default=None, metadata=IN_CODE
    )
    deps_type: type[DepsT_contra] | None = attrs.field(default=None, metadata=IN_CODE)
    output_retries: int = attrs.field(default=2, validator=kinds.whole(0))
    limits: UsageLimits = attrs.field(default=NO_LIMITS, validator=kinds.LIMITS)
    session_limits: UsageLimits = attrs.field(default=NO_LIMITS, validator=kinds.LIMITS)
    prices: Prices | None = attrs.field(default=None, validator=kinds.PRICES)
    token_callback: TokenCallback | None = attrs.field(
        default=None, validator=kinds.TOKEN_CALLBACK, metadata=IN_CODE
    )

    # Computed once, because every run and every request needs these values.
    tools_by_name: Mapping[str, Tool] = attrs.field(init=False, repr=False)
    tool_specs: tuple[ToolSpec, ...] = attrs.field(init=False, repr=False)
    settings: ModelSettings = attrs.field(init=False, repr=False)
    deadlines: Timeouts = attrs.field(init=False, repr=False)
    resume_window: ResumeWindow = attrs.field(init=False, repr=False)
    retry_policy: RetryPolicy = attrs.field(init=False, repr=False)
    hook_chain: HookChain = attrs.field(init=False, repr=False)
    fallback_options: "tuple[AgentOptions, ...]" = attrs.field(init=False, repr=False)
    summary_options: "AgentOptions | None" = attrs.field(init=False, repr=False)
    resolved: ResolvedProvider | None = attrs.field(init=False, repr=False)
    deferred: bool = attrs.field(init=False, repr=False)
    output: OutputSpec[OutputT_co] | None = attrs.field(init=False, repr=False)
    needed_deps: tuple[DepsNeed, ...] = attrs.field(init=False, repr=False)
    offers_by_turn: bool = attrs.field(init=False, repr=False)

    if not TYPE_CHECKING:  # type checkers use the parameters derived from the fields

        def __new__(cls, *args: object, **fields: object) -> "AgentOptions[object]":
            """Reject unknown fields before attrs raises a less helpful `TypeError`."""
            if args or not fields.keys() <= _FIELDS:
                raise ConfigError(f"AgentOptions: {_find_call_error(args, fields)}")
            return object.__new__(cls)

    def __attrs_post_init__(self) -> None:
        _set(self, "tools_by_name", {tool.name: tool for tool in self.tools})
        _resolve(self)
        deferred = isinstance(self.model, DeferredModel) or is_provider_factory(self.provider)
        _set(self, "deferred", deferred)
        _check(self)
        _set(self, "tool_specs", tuple(tool.spec for tool in self.tools))
        _set(self, "settings", _settings_of(self))
        _set(self, "output", as_output_spec(self.output_type))
        _set(self, "needed_deps", needs_of(self.deps_type, self.tools))
        _set(self, "offers_by_turn", any(tool.offered is not None for tool in self.tools))
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
            has_approver = self.can_use_tool is not None or self.on_ask is not None
            self.permissions.check(has_approver, self.tools)
        _set(self, "retry_policy", RetryPolicy(max_retries=self.max_retries))
        _set(self, "hook_chain", compile_hooks(self.hooks) if self.hooks else NO_HOOKS)
        if self.compaction is None:
            _set(self, "compaction", _compaction_of(self.hook_chain))
        _set(self, "summary_options", _summary_options(self))
        _set(self, "fallback_options", tuple(_fallback(self, item) for item in self.fallbacks))

    @overload
    def evolve(
        self,
        *,
        output_type: type[_NewOutputT] | OutputSpec[_NewOutputT],
        **changes: Unpack[OptionFields],
    ) -> "AgentOptions[_NewOutputT, DepsT_contra]": ...
    @overload
    def evolve(
        self, *, deps_type: type[_NewDepsT], **changes: Unpack[OptionFields]
    ) -> "AgentOptions[OutputT_co, _NewDepsT]": ...
    @overload
    def evolve(
        self, **changes: Unpack[OptionFields]
    ) -> "AgentOptions[OutputT_co, DepsT_contra]": ...
    def evolve(self, **changes: object) -> "AgentOptions[object]":
        """Return a copy with these fields changed; it is validated like new options.

        Values that were determined, not passed (for example, the endpoint's URL), are determined
        again. The model is an exception: if you change the provider, pass a model too.

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
        deps_type: type[_NewDepsT] | None = None,
        **fields: Unpack[OptionFields],
    ) -> "AgentOptions[_NewOutputT, _NewDepsT]": ...
    @overload
    @classmethod
    def from_env(
        cls, *, deps_type: type[_NewDepsT] | None = None, **fields: Unpack[OptionFields]
    ) -> "AgentOptions[str, _NewDepsT]": ...
    @classmethod
    def from_env(cls, **fields: object) -> "AgentOptions[object]":
        """Create options from environment variables.

        A field's variable is `AGENT_ACTORS_` followed by the field's name in upper case, for
        example `AGENT_ACTORS_TEMPERATURE=0.2` or `AGENT_ACTORS_PROVIDER=ollama`. Values are
        numbers, strings, booleans (`true`, `false`), and `none` and `inf` for fields that accept
        them. The models in `fallbacks` are separated by commas. A blank variable counts as not set.

        Args:
            **fields: Additional fields; they take precedence over the environment.

        Raises:
            ConfigError: A variable cannot be converted to the type of its field, sets a field that
                variables cannot set, or has almost the name of a field; or the options are invalid.
        """
        return _made({**fields_of_environ(os.environ, AgentOptions), **fields})

    @overload
    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        output_type: type[_NewOutputT] | OutputSpec[_NewOutputT],
        deps_type: type[_NewDepsT] | None = None,
        registry: AgentRegistry = NO_REGISTRY,
        **fields: Unpack[OptionFields],
    ) -> "AgentOptions[_NewOutputT, _NewDepsT]": ...
    @overload
    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        deps_type: type[_NewDepsT] | None = None,
        registry: AgentRegistry = NO_REGISTRY,
        **fields: Unpack[OptionFields],
    ) -> "AgentOptions[str, _NewDepsT]": ...
    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        registry: AgentRegistry = NO_REGISTRY,
        **fields: object,
    ) -> "AgentOptions[object]":
        """Create options from a YAML, TOML or JSON file, whose keys are the field names.

        The file is read synchronously, which blocks for a moment. In `model`, `base_url`, `api_key`
        and the values of `headers`, `${NAME}` is replaced with the environment variable. `cwd` is
        relative to the file's directory. Pass fields that are not data (tools, hooks, functions,
        clients, types) as arguments.

        A file with the key `name` describes an agent. It may have these keys too: `model` as a
        table, `tools` and `hooks` as lists of names, `backend` (the `workspace`), `skills.paths`
        and `memory.paths`. Tools for files, skills and memory are used only with a backend.

        Args:
            path: The file, with the extension `.yaml`, `.yml`, `.toml` or `.json`.
            registry: The tools, hooks and providers that the file may name, in addition to built-in
                tools and known providers.
            **fields: Additional fields; they take precedence over the file.

        Raises:
            ConfigError: The file cannot be read, has an invalid format, or contains an unknown
                field or an invalid value. The message names the file.
        """
        found = fields_of_file(path, AgentOptions, os.environ, _made, registry)
        with named(os.fspath(path)):
            return _made({**found, **fields})

    @property
    def output_schema(self) -> OutputSchema | None:
        """The schema for `output_type` to send to the model; None without an `output_type`."""
        return None if self.output is None else self.output.schema

    @property
    def provider_name(self) -> str:
        """The name of the provider profile, or the class of a custom provider."""
        resolved = self.resolved
        return type(self.provider).__name__ if resolved is None else resolved.profile.name

    @property
    def offers_skills(self) -> bool:
        """True if the agent may have skills, so that it needs the tools for them."""
        searched = "user" in self.setting_sources or "project" in self.setting_sources
        return bool(self.skills or self.skill_paths or searched)

    @property
    def uses_project(self) -> bool:
        """True if a run reads files of a project, or has skills that are defined in code."""
        commands = self.slash_commands and self.commands
        return bool(self.setting_sources or self.memory_paths or commands) or self.offers_skills

    @property
    def resends_refused(self) -> bool:
        """True if refused responses from earlier turns are sent again; depends on the profile."""
        return self.resolved is not None and self.resolved.profile.resend_refused

    @property
    def sends_cache_key(self) -> bool:
        """True if requests contain the session's id as `prompt_cache_key`."""
        openai = self.resolved is not None and self.resolved.profile.protocol == "openai"
        return openai and self.prompt_cache != "off"

    @property
    def profile_window(self) -> int:
        """The size of the context window in the provider's profile, in tokens; 0: unknown."""
        return 0 if self.resolved is None else self.resolved.profile.context_window

    @property
    def retries_of_output(self) -> int | None:
        """Maximum number of retries after an invalid output; None if any response is accepted."""
        return None if self.output is None else self.output_retries


def as_agent(options: object) -> AgentOptions:
    """Return the options without their output type, as internal code uses them.

    Raises:
        ConfigError: The value is not `AgentOptions`. The message shows only the value's type,
            because the value may contain a key.
    """
    if not isinstance(options, AgentOptions):
        raise ConfigError(
            f"options must be AgentOptions; got a value of type {type(options).__name__}; write "
            "AgentOptions(model='qwen3-32b', base_url='http://localhost:1234/v1'), for example"
        )
    return cast(AgentOptions, options)


_FIELDS: Final = frozenset(field.name for field in attrs.fields(AgentOptions) if field.init)


def _show_fields() -> None:
    """Set the signature for `help` and for completion, because `__new__` accepts anything."""
    made = inspect.signature(AgentOptions.__init__)
    _, *fields = made.parameters.values()  # without `self`
    setattr(AgentOptions, "__signature__", made.replace(parameters=fields))  # noqa: B010 - type checkers do not know the attribute


_show_fields()


def _find_call_error(args: tuple[object, ...], fields: Iterable[str]) -> str:
    if args:
        return (
            "fields must be passed by name, as in AgentOptions(model='qwen3-32b'); "
            f"got {args[0]!r:.80}"
        )
    return find_keyword_error(fields, _FIELDS)


def _check(options: AgentOptions[object]) -> None:
    """Check rules that involve several fields. Each field is already valid by itself."""
    resolved = options.resolved
    error = find_model_error(options.model) or find_key_error(
        options.api_key if resolved is None else resolved.api_key
    )
    if not error and resolved is not None:
        error = find_url_error(resolved, passed=bool(options.base_url))
    names = (*options.tools_by_name, *expanded_names(options.builtin_tools))
    if options.agents:
        error = error or find_agent_error(options.agents, names)
        names = (*names, TASK)
    error = (
        error
        or find_tool_choice_error(options.tool_choice, names)
        or find_price_error(options.limits, options.session_limits, options.prices)
    )
    if error:
        raise ConfigError(f"AgentOptions: {error}")


def with_tools(options: AgentOptions, tools: Iterable[Tool]) -> AgentOptions:
    """Return a copy that has these tools too, and no built-in tools to be added.

    The endpoint is not determined again, since the environment may have changed.

    Raises:
        ConfigError: Two tools have the same name, or a permission rule does not fit its tool.
    """
    copy = object.__new__(AgentOptions)
    for field in attrs.fields(AgentOptions):
        _set(copy, field.name, getattr(options, field.name))
    together = check_tools((*options.tools, *tools))
    _set(copy, "tools", together)
    _set(copy, "builtin_tools", ())
    _set(copy, "tools_by_name", {tool.name: tool for tool in together})
    _set(copy, "tool_specs", tuple(tool.spec for tool in together))
    if options.permissions is not None:
        has_approver = options.can_use_tool is not None or options.on_ask is not None
        options.permissions.check(has_approver, together)
    return copy


def _made(fields: Mapping[str, object]) -> AgentOptions[object]:
    # The values were not type-checked, but they are validated when the options are created.
    return cast("Callable[..., AgentOptions[object]]", AgentOptions)(**fields)


def _evolved(options: AgentOptions[object], changes: Mapping[str, object]) -> AgentOptions[object]:
    return cast("Callable[..., AgentOptions[object]]", attrs.evolve)(options, **changes)


# Sets derived fields of a frozen class; used only in `__attrs_post_init__`.
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
    if resolved is not None:
        _set(options, "model", resolved.model)
        _set(options, "system_prompt", options.system_prompt or resolved.profile.system_prompt)
    elif not options.model.strip():
        _set(options, "model", default_model(os.environ))


def _fallback(options: AgentOptions[object], item: str | AgentOptions[object]) -> AgentOptions:
    # The run's own options define the output type, so that of a fallback does not matter.
    if isinstance(item, str):
        return cast(AgentOptions, attrs.evolve(options, model=item, fallbacks=()))
    if item.deferred:
        raise ConfigError(
            "AgentOptions: a fallback cannot have a function as its model or provider; pass their "
            "values"
        )
    if item.fallbacks:
        raise ConfigError(
            f"AgentOptions: the fallback {item.model!r} has its own fallbacks; list them all "
            "on the agent itself, in order"
        )
    return cast(AgentOptions, item)


def _compaction_of(chain: HookChain) -> Compaction | None:
    """Return the settings of the first `SummarizationHook`; None without one."""
    for hook in chain.hooks:
        if isinstance(hook, SummarizationHook):
            return Compaction(model=hook.model, context_window=hook.context_window)
    return None


def _summary_options(options: AgentOptions[object]) -> AgentOptions | None:
    """Return the options of the model that writes summaries; None: the agent's own model."""
    if options.compaction is None or options.compaction.model is None:
        return None
    model = options.compaction.model
    changed = attrs.evolve(
        options, model=model, compaction=None, fallbacks=(), tool_choice=None, hooks=()
    )
    return cast(AgentOptions, changed)


def _settings_of(options: AgentOptions[object]) -> ModelSettings:
    resolved = options.resolved
    # For chat completions, the complete dialect is applied when the request body is created. For
    # Anthropic's protocol, these settings are the complete dialect.
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
