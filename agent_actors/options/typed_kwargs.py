"""The fields of `AgentOptions` as keywords, for a type checker and an editor.

Read by those alone: nothing here runs. A test holds it to the fields that there are. `output_type`
is not among them, since it decides the type of the options.
"""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict

from agent_actors.domain.json import JsonValue
from agent_actors.domain.limits import Prices, UsageLimits
from agent_actors.domain.model import ToolChoice
from agent_actors.hooks.registry import Hooks
from agent_actors.permissions import CanUseTool, PermissionPolicy

if TYPE_CHECKING:
    import httpx

    from agent_actors.options.agent_options import AgentOptions, OnAsk, OnSuspended


class OptionFields(TypedDict, total=False):
    """Any of the fields; `AgentOptions` says what each is."""

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
    on_ask: "OnAsk"
    on_suspended: "OnSuspended"
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
