"""The built-in tools, as complete vocabularies or by name."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from agent_actors.errors import ConfigError
from agent_actors.toolbox.code_tools import CODE_TOOLS
from agent_actors.toolbox.filesystem_tools import FILESYSTEM_TOOLS
from agent_actors.toolbox.operations import Operations, ToolLimits
from agent_actors.toolbox.web import web_fetch, web_search
from agent_actors.tools import Tool


def _make_web_fetch(_: Operations) -> Tool:
    return web_fetch()


def _make_web_search(_: Operations) -> Tool:
    return web_search()


_WEB_TOOLS: Final[Mapping[str, Callable[[Operations], Tool]]] = {
    "WebFetch": _make_web_fetch,
    "WebSearch": _make_web_search,
}
PRESETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"code": (*CODE_TOOLS, *_WEB_TOOLS), "filesystem": tuple(FILESYSTEM_TOOLS)}
)
"""The names of the tools of each vocabulary."""

_FACTORIES: Final[Mapping[str, Callable[[Operations], Tool]]] = {
    **CODE_TOOLS,
    **_WEB_TOOLS,
    **FILESYSTEM_TOOLS,
}


def code(limits: ToolLimits | None = None) -> tuple[Tool, ...]:
    """Return the tools with the names that current coding models know, such as `Read` and `Bash`.

    Args:
        limits: The limits of the tools; None for the defaults.
    """
    return select(["code"], limits)


def filesystem(limits: ToolLimits | None = None) -> tuple[Tool, ...]:
    """Return the tools with short names and few parameters, such as `read_file`.

    Args:
        limits: The limits of the tools; None for the defaults.
    """
    return select(["filesystem"], limits)


def select(names: Iterable[str], limits: ToolLimits | None = None) -> tuple[Tool, ...]:
    """Return tools by name. The tools share what each session has read.

    Tools of different calls share nothing: an edit by one then looks to the other like a change by
    another program. Therefore select all tools of an agent with one call, and once per runtime.

    Args:
        names: Names of tools, or of the vocabularies `code` and `filesystem`. A repeated name
            counts once. A vocabulary leaves out `WebFetch` without the package `markdownify`, and
            `WebSearch` without an API key; if you name these tools, that is an error.
        limits: The limits of the tools; None for the defaults.

    Raises:
        ConfigError: A name is unknown, a tool lacks a package or a key, or `names` is a single
            string.
    """
    if isinstance(names, str):
        raise ConfigError(f"expected a list of names of built-in tools; got the string {names!r}")
    names = tuple(names)
    operations = Operations.within(ToolLimits() if limits is None else limits)
    wanted = dict.fromkeys(tool for name in names for tool in PRESETS.get(name, (name,)))
    explicit = frozenset(names)
    made = (_made(name, operations, optional=name not in explicit) for name in wanted)
    return tuple(tool for tool in made if tool is not None)


def by_name(name: str, limits: ToolLimits | None = None) -> Tool:
    """Return one tool by its name; see `select` for several.

    Raises:
        ConfigError: The name is unknown.
    """
    return _factory(name)(Operations.within(ToolLimits() if limits is None else limits))


def _made(name: str, operations: Operations, *, optional: bool) -> Tool | None:
    try:
        return _factory(name)(operations)
    except ConfigError:
        if optional and name in _WEB_TOOLS:
            return None
        raise


def _factory(name: str) -> Callable[[Operations], Tool]:
    factory = _FACTORIES.get(name)
    if factory is None:
        near = get_close_matches(str(name), [*_FACTORIES, *PRESETS], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(_FACTORIES)}"
        raise ConfigError(f"unknown built-in tool {name!r:.80}; {hint}")
    return factory
