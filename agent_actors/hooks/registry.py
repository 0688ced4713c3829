"""An agent's compiled hooks: the hooks for each phase, in order.

Hooks are validated here once, when the agent is defined. Runs spend no time on phases without
hooks.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, Never, TypeAlias, cast

import attrs

from agent_actors.errors import ConfigError
from agent_actors.hooks.hook import Hook
from agent_actors.hooks.phases import ALIASES, PHASES, Phase, phase_named

UNNAMED: Final = "<unnamed>"
# The minimum similarity at which a method name is considered a misspelled phase. It allows for one
# or two wrong letters.
_NEAR: Final = 0.9

# The signature depends on the phase and is known to the code that calls the phase's hooks.
HookFunction: TypeAlias = Callable[..., object]


@attrs.frozen
class HookMatcher:
    """Functions that are called for certain tools only.

    Attributes:
        matcher: Names and glob patterns separated by `|`, for example `Edit|Write` or `mcp_*`. They
            are case-sensitive; blanks around them are ignored. None, empty or `*` matches every
            tool.
        hooks: One function, or several.
        deadline: Timeout for one call, in seconds; None means the agent's `hook_timeout`.
    """

    matcher: str | None
    hooks: Sequence[HookFunction] | HookFunction
    deadline: float | None = None


# Maps phases to functions, `HookMatcher`s, or lists of them. Because signatures differ between
# phases, they are checked when the hooks are compiled, not by the type checker.
HookMapping: TypeAlias = Mapping[str, object]
# The accepted values for an agent's hooks: a `Hook`, a mapping, or several of either kind.
Hooks: TypeAlias = Hook[Never] | HookMapping | Iterable[Hook[Never] | HookMapping]


@attrs.frozen(eq=False)
class BoundHook:
    """A hook in one phase.

    Attributes:
        name: The hook's name.
        phase: The phase.
        function: The user's function, called with the event or request, then with the next step if
            the phase wraps, then with the context.
        takes: The number of arguments that the function accepts.
        matcher: The matcher as written; None for all tools.
        deadline: Timeout for one call, in seconds; None means the agent's `hook_timeout`.
    """

    name: str
    phase: Phase
    function: HookFunction
    takes: int
    matcher: str | None = None
    deadline: float | None = None
    _parts: tuple[str, ...] = ()

    async def call(self, *arguments: object) -> object:
        """Call the function, without the context if the function does not accept it.

        Cancellation: depends on the function.
        """
        result = self.function(*arguments[: self.takes])
        return await result if inspect.isawaitable(result) else result

    def matches(self, tool: str) -> bool:
        """Return whether the hook runs for this tool."""
        return not self._parts or any(fnmatchcase(tool, part) for part in self._parts)


@attrs.frozen(eq=False)
class HookChain:
    """An agent's hooks by phase, in order of registration. The first hook is the outermost.

    Attributes:
        names: The names of all `Hook` objects, in order.
        hooks: All `Hook` objects, in order.
    """

    names: tuple[str, ...] = ()
    _rows: Mapping[Phase, tuple[BoundHook, ...]] = attrs.field(
        factory=dict[Phase, tuple[BoundHook, ...]]
    )
    hooks: tuple[Hook, ...] = ()

    def __bool__(self) -> bool:
        """Return whether any phase has hooks."""
        return bool(self._rows)

    def row(self, phase: Phase) -> tuple[BoundHook, ...]:
        """Return the hooks for a phase, in order."""
        return self._rows.get(phase, ())

    def row_for(self, phase: Phase, tool: str) -> tuple[BoundHook, ...]:
        """Return the hooks for a phase that run for this tool, in order."""
        return tuple(hook for hook in self.row(phase) if hook.matches(tool))


NO_HOOKS: Final = HookChain()


def compile_hooks(hooks: Hooks) -> HookChain:
    """Compile hooks into a chain.

    Args:
        hooks: One hook, a mapping from phases to functions, or any number of both.

    Raises:
        ConfigError: A phase is unknown, two hooks have the same name, a value is not callable, or a
            phase without tools has a matcher.
    """
    items = _items(hooks)
    rows: dict[Phase, list[BoundHook]] = {}
    names: list[str] = []
    for item in items:
        if not isinstance(item, Hook):
            bound = _of_mapping(item)
        else:
            hook_object = cast("Hook[Never]", item)
            bound = _of_class(hook_object)
            name = _name_of(hook_object)
            if name in names:
                raise ConfigError(f"hooks: two hooks are named {name!r}; set `name` on one of them")
            names.append(name)
        for hook in bound:
            rows.setdefault(hook.phase, []).append(hook)
    objects = tuple(cast("Hook[object]", item) for item in items if isinstance(item, Hook))
    return HookChain(tuple(names), {phase: tuple(row) for phase, row in rows.items()}, objects)


def _items(hooks: object) -> tuple[object, ...]:
    if isinstance(hooks, Hook | Mapping):
        return (cast("Hook[Never] | HookMapping", hooks),)
    if isinstance(hooks, type) or not isinstance(hooks, Iterable):
        raise ConfigError(
            f"hooks: expected a Hook, a mapping from phases to functions, or several; got "
            f"{hooks!r:.80}"
        )
    return tuple(cast("Iterable[object]", hooks))


def _of_class(hook: Hook[Never]) -> list[BoundHook]:
    bound: list[BoundHook] = []
    _check_spelling(hook)
    for phase in Phase:
        spelt = [phase.value, *(alias for alias, meant in ALIASES.items() if meant is phase)]
        overridden = [name for name in spelt if _overrides(hook, name)]
        if len(overridden) > 1:
            raise ConfigError(
                f"hook {_name_of(hook)!r} defines both {overridden[0]} and {overridden[1]}, which "
                "are two names for the same phase; define only one of them"
            )
        for name in overridden:
            method = cast("HookFunction", getattr(hook, name))
            matcher = hook.matcher if PHASES[phase].matches else None
            bound.append(_bind(phase, method, matcher, hook.deadline, name=_name_of(hook)))
    return bound


def _check_spelling(hook: Hook[Never]) -> None:
    # Look for a method whose name is almost that of a phase, because such a method would never be
    # called.
    for name in dir(type(hook)):
        if name.startswith("_") or hasattr(Hook, name) or phase_named(name) is not None:
            continue
        near = get_close_matches(name, [*(p.value for p in Phase), *ALIASES], n=1, cutoff=_NEAR)
        if near and callable(getattr(hook, name)) and not _overrides(hook, near[0]):
            raise ConfigError(
                f"hook {_name_of(hook)!r}: {name} is not a phase; did you mean {near[0]!r}?"
            )


def _overrides(hook: Hook[Never], name: str) -> bool:
    own = getattr(type(hook), name, None)
    return own is not None and own is not getattr(Hook, name, None)


def _name_of(hook: Hook[Never]) -> str:
    name = cast(object, hook.name) or type(hook).__name__
    if not isinstance(name, str):
        raise ConfigError(f"hooks: a hook's name must be text; got {name!r:.80}")
    return name


def _of_mapping(mapping: object) -> list[BoundHook]:
    if not isinstance(mapping, Mapping):
        raise ConfigError(
            f"hooks: expected a Hook, or a mapping from phases to functions; got {mapping!r:.80}"
        )
    bound: list[BoundHook] = []
    for key, value in cast("Mapping[object, object]", mapping).items():
        phase = _phase(key)
        entries = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
        for entry in entries:
            match entry:
                case HookMatcher(matcher=matcher, deadline=deadline):
                    if matcher is not None and not PHASES[phase].matches:
                        raise ConfigError(
                            f"hooks: a matcher selects tools, but {phase} has no tool"
                        )
                    bound += [_bind(phase, one, matcher, deadline) for one in _functions(entry)]
                case _:
                    bound.append(_bind(phase, entry, None, None))
    return bound


def _functions(entry: HookMatcher) -> Iterable[object]:
    functions = cast(object, entry.hooks)
    if isinstance(functions, list | tuple):
        return cast("Sequence[object]", functions)
    return (functions,)


def _phase(key: object) -> Phase:
    phase = phase_named(key) if isinstance(key, str) else None
    if phase is not None:
        return phase
    known = [*(p.value for p in Phase), *ALIASES]
    near = get_close_matches(str(key), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known phases: {', '.join(known)}"
    raise ConfigError(f"hooks: there is no phase {key!r}{hint}")


def _bind(
    phase: Phase,
    function: object,
    matcher: object,
    deadline: object,
    *,
    name: str | None = None,
) -> BoundHook:
    if not callable(function):
        raise ConfigError(f"hooks: expected functions for {phase}; got {function!r:.80}")
    if deadline is not None and not (isinstance(deadline, int | float) and deadline > 0):
        raise ConfigError(f"hooks: a deadline must be above 0 seconds; got {deadline!r:.80}")
    if matcher is not None and not isinstance(matcher, str):
        raise ConfigError(f"hooks: a matcher must be text, as in 'Edit|Write'; got {matcher!r:.80}")
    expected = 3 if PHASES[phase].wraps else 2
    parts = tuple(part.strip() for part in (matcher or "").split("|") if part.strip())
    return BoundHook(
        name if name is not None else _function_name(function),
        phase,
        function,
        _taken_by(function, phase, expected),
        matcher,
        deadline,
        () if "*" in parts else parts,
    )


def _function_name(function: object) -> str:
    name = getattr(function, "__name__", "")
    return UNNAMED if not name or name == "<lambda>" else str(name)


def _taken_by(function: HookFunction, phase: Phase, expected: int) -> int:
    takes = _positional(function, expected)
    if takes not in (expected - 1, expected):
        raise ConfigError(
            f"hooks: {_function_name(function)} takes {takes} arguments; a hook for {phase} takes "
            f"{expected - 1}, or {expected} with the context"
        )
    return takes


def _positional(function: HookFunction, expected: int) -> int:
    try:
        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # the function is not written in Python
        return expected
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return expected
    return sum(
        kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for kind in kinds
    )
