"""Adds built-in tools to the options that name them, and the tools for skills.

Options only check the names, because the tools are defined in a package above them. The tools are
created when a run first needs them, once per runtime and list of names: runs then share what a
session has read.
"""

from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from agent_actors.errors import ConfigError
from agent_actors.options.agent_options import AgentOptions, with_tools
from agent_actors.runs.project.skill_tools import SKILL_TOOLS
from agent_actors.tools import Tool
from agent_actors.tools.builtin_names import tools_in_workspace


class BuiltinTools:
    """The built-in tools of one runtime.

    Args:
        select: Creates the tools with these names.
    """

    def __init__(self, select: Callable[[Iterable[str]], tuple[Tool, ...]]) -> None:
        self._select = select
        self._created: dict[tuple[str, ...], tuple[Tool, ...]] = {}
        # The runs of an agent share the completed options, as they share the agent's own.
        self._completed: WeakKeyDictionary[AgentOptions, AgentOptions] = WeakKeyDictionary()

    def added_to(self, options: AgentOptions, *, has_workspace: bool) -> AgentOptions:
        """Return the options with their built-in tools and the tools for skills among their tools.

        Args:
            options: The options, which name built-in tools or enable skills.
            has_workspace: True if the run has a workspace.

        Raises:
            ConfigError: A tool requires a workspace and the run has none; the tools are not
                available; or a name is used twice.
        """
        names = options.builtin_tools
        confined = tools_in_workspace(names)
        if confined and not has_workspace:
            raise ConfigError(
                f"the built-in tool {confined[0]!r} requires a workspace; pass "
                "AgentOptions(workspace={'type': 'local', 'root': '.'}), for example"
            )
        completed = self._completed.get(options)
        if completed is None:
            tools = self._created.get(names)
            if tools is None:
                tools = self._created[names] = self._select(names) if names else ()
            if options.offers_skills:
                tools = (*tools, *SKILL_TOOLS)
            completed = self._completed[options] = with_tools(options, tools)
        return completed
