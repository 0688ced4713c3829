"""The option `AgentOptions.agents`: the agents that the model may start with the tool `Task`."""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, cast

import attrs

from agent_actors.errors import ConfigError
from agent_actors.options.converters import as_policy
from agent_actors.options.factories import as_model
from agent_actors.options.validation import nearest
from agent_actors.permissions import PermissionPolicy
from agent_actors.tools import Tool, check_tools
from agent_actors.tools.tool import check_name

TASK: Final = "Task"
"""The name of the tool with which the model starts another agent."""

NO_AGENTS: Final[Mapping[str, "AgentDefinition"]] = MappingProxyType({})

AgentHandler: TypeAlias = Callable[[str], object | Awaitable[object]]
"""A function that does an agent's task: takes the prompt, and returns any value that a tool may
return.
"""


def _as_tool_list(tools: Iterable[object] | None) -> tuple[str | Tool, ...] | None:
    if tools is None:
        return None
    if isinstance(tools, str) or not isinstance(cast(object, tools), Iterable):
        raise ConfigError(
            f"AgentDefinition: tools must be a list of names and tools, or None; got {tools!r:.80}"
        )
    return tuple(one if isinstance(one, str) else check_tools((one,))[0] for one in tools)


@attrs.frozen
class AgentDefinition:
    """An agent that the model may start with the tool `Task`.

    Attributes:
        description: The purpose of the agent and when to use it, for the model.
        prompt: The system prompt of the agent.
        tools: The tools of the agent: names of the parent agent's tools, and further tools. None:
            the parent's tools. External tools are not inherited.
        model: The model, or a function that returns it, as in `AgentOptions`; None: the parent's
            model.
        max_iterations: Maximum number of model calls in one run; None: as the parent.
        permissions: The policy for the agent's calls, or the name of a mode. The policies of the
            ancestors apply too.
        inherit_context: True if a new run begins with the parent's conversation.
        timeout: Timeout for one run, in seconds; `math.inf`: no timeout.
        handler: A function, sync or async, that does the task instead of a model. A sync function
            runs in a thread.

    Raises:
        ConfigError: A field is not valid.
    """

    description: str
    prompt: str = ""
    tools: tuple[str | Tool, ...] | None = attrs.field(default=None, converter=_as_tool_list)
    model: str | None = attrs.field(default=None, converter=attrs.converters.optional(as_model))
    max_iterations: int | None = None
    permissions: PermissionPolicy | None = attrs.field(default=None, converter=as_policy)
    inherit_context: bool = attrs.field(default=False, kw_only=True)
    timeout: float = attrs.field(default=math.inf, kw_only=True)
    handler: AgentHandler | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        error = _find_error(self)
        if error:
            raise ConfigError(f"AgentDefinition: {error}")


def _find_error(made: AgentDefinition) -> str:
    for name in ("description", "prompt"):
        text: object = getattr(made, name)
        if not isinstance(text, str):
            return f"{name} must be a string; got {text!r:.80}"
    if not made.description.strip():
        return "description must not be blank; it tells the model when to use the agent"
    if made.model is not None and not (isinstance(cast(object, made.model), str) and made.model):
        return f"model must be the name of a model, or None; got {made.model!r:.80}"
    most: object = made.max_iterations
    if most is not None and (type(most) is not int or most < 1):
        return f"max_iterations must be an integer of at least 1, or None; got {most!r:.80}"
    policy = made.permissions
    if policy is not None and not isinstance(cast(object, policy), PermissionPolicy):
        return f"permissions must be a PermissionPolicy or the name of a mode; got {policy!r:.80}"
    timeout = made.timeout
    if type(timeout) not in {int, float} or not timeout > 0:
        return f"timeout must be a number of seconds above 0, or math.inf; got {timeout!r:.80}"
    if type(cast(object, made.inherit_context)) is not bool:
        return f"inherit_context must be True or False; got {made.inherit_context!r:.80}"
    if made.handler is not None and not callable(cast(object, made.handler)):
        return f"handler must be a function, or None; got {made.handler!r:.80}"
    return ""


def as_agents(value: object) -> Mapping[str, AgentDefinition]:
    """Return the agents by name, created from tables if necessary.

    Raises:
        ConfigError: The value is not a mapping of names to definitions, or a definition is not
            valid.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(
            "AgentOptions: agents must map names to AgentDefinitions, or to tables with their "
            f"fields; got {value!r:.80}"
        )
    found: dict[str, AgentDefinition] = {}
    for name, item in cast("Mapping[object, object]", value).items():
        try:
            check_name(cast(str, name))
            found[cast(str, name)] = _as_definition(item)
        except ConfigError as error:
            raise ConfigError(f"AgentOptions: agents: {name!r:.80}: {error}") from None
    return MappingProxyType(found) if found else NO_AGENTS


def _as_definition(item: object) -> AgentDefinition:
    if isinstance(item, AgentDefinition):
        return item
    if not isinstance(item, Mapping):
        hint = " (an instance, not the class)" if inspect.isclass(item) else ""
        raise ConfigError(f"expected an AgentDefinition or a table{hint}; got {item!r:.80}")
    known = [field.name for field in attrs.fields(AgentDefinition)]
    table = {str(key): one for key, one in cast("Mapping[object, object]", item).items()}
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown field {key!r}; {nearest(key, known)}")
    if "description" not in table:
        raise ConfigError("description is missing; it tells the model when to use the agent")
    return cast("Callable[..., AgentDefinition]", AgentDefinition)(**table)


def find_agent_error(agents: Mapping[str, AgentDefinition], tools: Iterable[str]) -> str:
    """Return an error message if an agent names a tool that does not exist; otherwise empty.

    Args:
        agents: The agents.
        tools: The names of the parent agent's tools. Names with `__` may belong to tools that are
            known only when a run begins.
    """
    known = (*tools, TASK)
    for name, definition in agents.items():
        for one in definition.tools or ():
            if isinstance(one, str) and one not in known and "__" not in one:
                return f"agents: {name!r}: unknown tool {one!r}; {nearest(one, known)}"
    return ""
