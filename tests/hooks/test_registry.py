"""Hooks are checked once and ordered: the phases in which each hook takes part."""

from functools import partial
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import ConfigError
from agent_actors.hooks import (
    Hook,
    HookContext,
    HookDecision,
    HookMatcher,
    Hooks,
    Phase,
    PreToolUseEvent,
    StopEvent,
    compile_hooks,
)
from agent_actors.hooks.phases import ALIASES, PHASES, phase_named
from agent_actors.hooks.registry import NO_HOOKS, UNNAMED


async def look(event: object) -> None:
    """Take part, and decide nothing."""


async def look_around(event: object, ctx: HookContext) -> None:
    """Take part with the context, and decide nothing."""


class Guard(Hook):
    """Overrides one phase."""

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> HookDecision | None:
        """Refuse."""
        return HookDecision(continue_=False)


class Aliased(Hook):
    """Uses aliases as the names of its phases."""

    name = "aliased"
    matcher: str | None = "Edit | Write"

    async def pre_tool_use(self, event: PreToolUseEvent, ctx: HookContext) -> None:
        """Look."""

    async def stop(self, event: StopEvent, ctx: HookContext) -> None:
        """Look."""


def names(hooks: Hooks, phase: Phase) -> list[str]:
    return [hook.name for hook in compile_hooks(hooks).row(phase)]


async def everything(*event: object) -> None:
    """Take any arguments."""


nameless = partial(look)


@pytest.mark.feature("WICK-035", "WICK-041")
def test_hook_joins_only_overridden_phases() -> None:
    chain = compile_hooks(Guard())
    assert [phase for phase in Phase if chain.row(phase)] == [Phase.BEFORE_TOOL]
    assert chain
    assert not compile_hooks(Hook())
    assert not NO_HOOKS


@pytest.mark.feature("OAS-012", "ASDK-003")
def test_hooks_run_in_registration_order() -> None:
    assert names(
        [Guard(), {"pre_tool_use": [look, look_around]}, Aliased()], Phase.BEFORE_TOOL
    ) == [
        "Guard",
        "look",
        "look_around",
        "aliased",
    ]


def test_phase_aliases_name_the_same_phase() -> None:
    assert names(Aliased(), Phase.ON_STOP) == ["aliased"]
    assert names(dict.fromkeys(ALIASES, look), Phase.AFTER_MODEL) == ["look"]
    assert phase_named("before_model_call") is Phase.BEFORE_MODEL
    assert phase_named("no_such") is None


@pytest.mark.feature("WICK-034")
def test_duplicate_hook_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="two hooks are named 'Guard'; set `name`"):
        compile_hooks([Guard(), Guard()])
    other = Guard()
    other.name = "other"
    assert compile_hooks([Guard(), other]).names == ("Guard", "other")


@pytest.mark.feature("ASDK-006")
def test_nameless_hook_is_called_unnamed() -> None:
    assert names({"stop": nameless}, Phase.ON_STOP) == [UNNAMED]


@pytest.mark.parametrize(
    ("hooks", "says"),
    [
        ({"pre_tool": [look]}, "there is no phase 'pre_tool'; did you mean 'pre_tool_use'?"),
        ({"zzz": [look]}, "there is no phase 'zzz'; known phases: session_start, "),
        ({7: [look]}, "there is no phase 7"),
        ({"stop": ["look"]}, "expected functions for on_stop; got 'look'"),
        ([look], "expected a Hook, or a mapping from phases to functions; got <function look"),
        ({"stop": lambda: None}, "takes 0 arguments; a hook for on_stop takes 1, or 2 with the"),
        ({"wrap_tool_call": [look]}, "takes 1 arguments; a hook for wrap_tool_call takes 2, or 3"),
        ({"stop": HookMatcher("a", [look])}, "a matcher selects tools, but on_stop has no tool"),
        (
            {"pre_tool_use": HookMatcher("a", [look], deadline=0)},
            "a deadline must be above 0 seconds; got 0",
        ),
        (
            {"pre_tool_use": HookMatcher("a", [look], deadline=cast(float, "5"))},
            "a deadline must be above 0 seconds; got '5'",
        ),
        (
            {"pre_tool_use": HookMatcher(cast(str, ["a"]), [look])},
            "a matcher must be text, as in 'Edit|Write'; got ['a']",
        ),
        (look, "a mapping from phases to functions, or several; got <function look"),
        (Guard, "a mapping from phases to functions, or several; got <class"),
    ],
)
def test_mistake_raises_at_registration(hooks: object, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_hooks(cast(Hooks, hooks))
    assert says in str(caught.value)


def test_matcher_accepts_a_single_function() -> None:
    assert names({"pre_tool_use": HookMatcher("a", look)}, Phase.BEFORE_TOOL) == ["look"]


def test_non_text_name_is_refused() -> None:
    hook = Guard()
    hook.name = cast(str, 5)
    with pytest.raises(ConfigError, match="a hook's name must be text; got 5"):
        compile_hooks(hook)


def test_misspelt_phase_method_is_refused() -> None:
    class Slip(Hook):
        async def befor_tool(self, event: PreToolUseEvent, ctx: HookContext) -> None:
            """Refuse the call; but the method is never called, because its name is misspelt."""

    class Helped(Guard):
        before_tools = ("a", "b")

        def befor_tool(self) -> None:
            """Help `before_tool`; next to the correctly named method, this is not a misspelling."""

    with pytest.raises(
        ConfigError, match="hook 'Slip': befor_tool is not a phase; did you mean 'before_tool'"
    ):
        compile_hooks(Slip())
    assert compile_hooks(Helped())


def test_duplicate_phase_names_are_refused() -> None:
    class Twice(Guard):
        async def pre_tool_use(self, event: PreToolUseEvent, ctx: HookContext) -> None:
            """Define the same phase again."""

    with pytest.raises(ConfigError, match="defines both before_tool and pre_tool_use"):
        compile_hooks(Twice())


def test_extension_types_can_be_hooks() -> None:
    assert names({"stop": dict}, Phase.ON_STOP) == ["dict"]
    assert names({"stop": everything}, Phase.ON_STOP) == ["everything"]


# --- matchers ---


def matched(matcher: str | None, tool: str) -> bool:
    chain = compile_hooks({"pre_tool_use": HookMatcher(matcher, [look])})
    return bool(chain.row_for(Phase.BEFORE_TOOL, tool))


@pytest.mark.feature("OAGS-022")
@pytest.mark.parametrize(
    ("matcher", "yes", "no"),
    [
        (None, ["Edit", ""], []),
        ("", ["Edit"], []),
        ("*", ["Edit"], []),
        (" | ", ["Edit"], []),
        ("Edit|Write", ["Edit", "Write"], ["edit", "Edit ", "MultiEdit", "Edit|Write"]),
        (" Edit | Write ", ["Edit", "Write"], [" Edit "]),
        ("mcp_*|Read", ["mcp_", "mcp_files", "Read"], ["mcp", "Reads"]),
        ("[EF]dit?", ["Edit1", "Fdit2"], ["Edit"]),
    ],
)
def test_matcher_is_names_and_globs(matcher: str | None, yes: list[str], no: list[str]) -> None:
    assert [tool for tool in yes if not matched(matcher, tool)] == []
    assert [tool for tool in no if matched(matcher, tool)] == []


@given(st.lists(st.text("abcE_", min_size=1), min_size=1), st.text("abcE_"))
def test_plain_matcher_is_a_set(parts: list[str], tool: str) -> None:
    assert matched("|".join(parts), tool) == (tool in parts)


def test_every_phase_is_described() -> None:
    assert list(PHASES) == list(Phase)
    assert all(info.when and info.may for info in PHASES.values())
    assert [p for p, info in PHASES.items() if info.wraps] == [
        Phase.WRAP_MODEL_CALL,
        Phase.WRAP_TOOL_CALL,
    ]
