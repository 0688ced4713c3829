"""The hooks of an agent, made ready: who takes part in which phase, and in which order.

Everything about them is checked here, once, where the agent is defined. A phase in which nobody
takes part has an empty row, and a run looks at nothing else of it.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, TypeAlias, cast

import attrs

from agent_actors.errors import ConfigError
from agent_actors.hooks.hook import Hook
from agent_actors.hooks.phases import ALIASES, PHASES, Phase, phase_named

UNNAMED: Final = "<unnamed>"
# How like a phase's name another has to be to be taken for a slip: a letter or two.
_NEAR: Final = 0.9

# What the phases call has a shape of its own for each; the ring knows which it calls.
HookFunction: TypeAlias = Callable[..., object]


@attrs.frozen
class HookMatcher:
    """Functions for some tools only.

    Attributes:
        matcher: Names and globs, parted by `|`, such as `Edit|Write` or `mcp_*`; case counts,
            blanks around a part do not. None, empty or `*`: every tool.
        hooks: The functions, or one alone.
        deadline: Seconds that one call may take; None: the agent's `hook_timeout`.
    """

    matcher: str | None
    hooks: Sequence[HookFunction] | HookFunction
    deadline: float | None = None


# From phases to functions, `HookMatcher`s, or lists of them. Their shapes differ from phase to
# phase, so what they are is checked when they are made ready, not by their type.
HookMapping: TypeAlias = Mapping[str, object]
# What an agent takes: hooks of either kind, alone or together.
Hooks: TypeAlias = Hook | HookMapping | Iterable[Hook | HookMapping]


@attrs.frozen(eq=False)
class BoundHook:
    """One hook in one phase.

    Attributes:
        name: Who it is.
        phase: In which phase.
        call: What is called: with the event or request, what wraps also with the next step, and
            with the context.
        matcher: For which tools, as written; None: all.
        deadline: Seconds that one call may take; None: the agent's `hook_timeout`.
    """

    name: str
    phase: Phase
    call: Callable[..., Awaitable[object]]
    matcher: str | None = None
    deadline: float | None = None
    _parts: tuple[str, ...] = ()

    def matches(self, tool: str) -> bool:
        """Whether this is for that tool."""
        return not self._parts or any(fnmatchcase(tool, part) for part in self._parts)


@attrs.frozen(eq=False)
class HookChain:
    """The hooks of an agent, by phase, the first registered first: it is the outermost.

    Attributes:
        names: The hooks that have names, in order.
    """

    names: tuple[str, ...] = ()
    _rows: Mapping[Phase, tuple[BoundHook, ...]] = attrs.field(
        factory=dict[Phase, tuple[BoundHook, ...]]
    )

    def __bool__(self) -> bool:
        """True if anybody takes part in anything."""
        return bool(self._rows)

    def row(self, phase: Phase) -> tuple[BoundHook, ...]:
        """Who takes part in a phase, in order."""
        return self._rows.get(phase, ())

    def row_for(self, phase: Phase, tool: str) -> tuple[BoundHook, ...]:
        """Who takes part in a phase of a call of this tool, in order."""
        return tuple(hook for hook in self.row(phase) if hook.matches(tool))


NO_HOOKS: Final = HookChain()


def compile_hooks(hooks: Hooks) -> HookChain:
    """Make hooks ready.

    Args:
        hooks: One hook, a mapping from phases to functions, or any number of both.

    Raises:
        ConfigError: A phase that there is none of, two hooks of one name, something that cannot be
            called, or a matcher where there is no tool.
    """
    items = _items(hooks)
    rows: dict[Phase, list[BoundHook]] = {}
    names: list[str] = []
    for item in items:
        bound = _of_class(item) if isinstance(item, Hook) else _of_mapping(item)
        if isinstance(item, Hook):
            name = _name_of(item)
            if name in names:
                raise ConfigError(f"hooks: two hooks are named {name!r}; set `name` on one of them")
            names.append(name)
        for hook in bound:
            rows.setdefault(hook.phase, []).append(hook)
    return HookChain(tuple(names), {phase: tuple(row) for phase, row in rows.items()})


def _items(hooks: object) -> tuple[object, ...]:
    if isinstance(hooks, Hook | Mapping):
        return (cast("Hook | HookMapping", hooks),)
    if isinstance(hooks, type) or not isinstance(hooks, Iterable):
        raise ConfigError(
            f"hooks: expected a Hook, a mapping from phases to functions, or several; got "
            f"{hooks!r:.80}"
        )
    return tuple(cast("Iterable[object]", hooks))


def _of_class(hook: Hook) -> list[BoundHook]:
    bound: list[BoundHook] = []
    _check_spelling(hook)
    for phase in Phase:
        spelt = [phase.value, *(alias for alias, meant in ALIASES.items() if meant is phase)]
        overridden = [name for name in spelt if _overrides(hook, name)]
        if len(overridden) > 1:
            raise ConfigError(
                f"hook {_name_of(hook)!r} has both {overridden[0]} and {overridden[1]}, which are "
                "two names of one phase"
            )
        for name in overridden:
            method = cast("HookFunction", getattr(hook, name))
            matcher = hook.matcher if PHASES[phase].matches else None
            bound.append(_bind(phase, method, matcher, hook.deadline, name=_name_of(hook)))
    return bound


def _check_spelling(hook: Hook) -> None:
    # A gate that never closes, as its method has nearly the name of a phase, is found out here.
    for name in dir(type(hook)):
        if name.startswith("_") or hasattr(Hook, name) or phase_named(name) is not None:
            continue
        near = get_close_matches(name, [*(p.value for p in Phase), *ALIASES], n=1, cutoff=_NEAR)
        if near and callable(getattr(hook, name)) and not _overrides(hook, near[0]):
            raise ConfigError(
                f"hook {_name_of(hook)!r}: {name} is no phase; did you mean {near[0]!r}?"
            )


def _overrides(hook: Hook, name: str) -> bool:
    own = getattr(type(hook), name, None)
    return own is not None and own is not getattr(Hook, name, None)


def _name_of(hook: Hook) -> str:
    name = cast(object, hook.name) or type(hook).__name__
    if not isinstance(name, str):
        raise ConfigError(f"hooks: a hook's name is text; got {name!r:.80}")
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
                            f"hooks: a matcher is for tools, and {phase} comes for none"
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
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known)}"
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
        raise ConfigError(f"hooks: {phase} takes functions; got {function!r:.80}")
    if deadline is not None and not (isinstance(deadline, int | float) and deadline > 0):
        raise ConfigError(f"hooks: a deadline must be above 0 seconds; got {deadline!r:.80}")
    if matcher is not None and not isinstance(matcher, str):
        raise ConfigError(f"hooks: a matcher is text such as 'Edit|Write'; got {matcher!r:.80}")
    wanted = 3 if PHASES[phase].wraps else 2
    parts = tuple(part.strip() for part in (matcher or "").split("|") if part.strip())
    return BoundHook(
        name if name is not None else _function_name(function),
        phase,
        _called_with(function, phase, wanted),
        matcher,
        deadline,
        () if "*" in parts else parts,
    )


def _function_name(function: object) -> str:
    name = getattr(function, "__name__", "")
    return UNNAMED if not name or name == "<lambda>" else str(name)


def _called_with(
    function: HookFunction, phase: Phase, wanted: int
) -> Callable[..., Awaitable[object]]:
    """The function, called with as many arguments as it takes; the context may be left."""
    takes = _positional(function, wanted)
    if takes not in (wanted - 1, wanted):
        raise ConfigError(
            f"hooks: {_function_name(function)} takes {takes} arguments; a hook for {phase} takes "
            f"{wanted - 1}, or {wanted} with the context"
        )

    async def call(*arguments: object) -> object:
        result = function(*arguments[:takes])
        return await result if inspect.isawaitable(result) else result

    return call


def _positional(function: HookFunction, wanted: int) -> int:
    try:
        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # of what is not written in Python
        return wanted
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return wanted
    return sum(
        kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for kind in kinds
    )
