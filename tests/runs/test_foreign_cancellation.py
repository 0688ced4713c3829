"""Users' code that raises another task's `trio.Cancelled` fails like any other code."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from agent_actors import AgentOptions, PermissionPolicy, open_runtime, tool
from agent_actors.domain.events import Event
from agent_actors.errors import AgentError, HookError
from agent_actors.testing import ScriptedModel, call
from tests.runs.helpers import check_history, check_quiet


async def kept_cancellation() -> trio.Cancelled:
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept.append(error)
            raise
    return kept[0]


@pytest.mark.parametrize("form", ["async", "sync", "group"])
async def test_tool_raising_foreign_cancellation_fails(form: str) -> None:
    cancelled = await kept_cancellation()

    @tool
    async def broken() -> str:
        """Raise."""
        if form == "group":
            raise BaseExceptionGroup("tasks", [cancelled])
        raise cancelled

    @tool(name="broken")
    def broken_sync() -> str:
        """Raise in a thread."""
        raise cancelled

    chosen = broken_sync if form == "sync" else broken
    model = ScriptedModel([call("broken"), "Done."])
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", AgentOptions(model="m", provider=model, tools=[chosen]))
        assert result.text == "Done."
        [output] = result.tool_calls
        assert output.is_error
        assert "tool 'broken' raised " in str(output.content)
        assert "Cancelled" in str(output.content) or form == "group"
        check_history(result.messages)
        check_quiet(runtime)


class _Provider:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def complete(self, _: object) -> str:
        raise self._error


def _hook(error: BaseException) -> dict[str, Any]:
    async def decide(_: object) -> None:
        raise error

    return {"provider": ScriptedModel(["Done."]), "hooks": {"before_model": decide}}


def _wrapper(error: BaseException) -> dict[str, Any]:
    async def around(*_: object) -> None:
        raise error

    return {"provider": ScriptedModel(["Done."]), "hooks": {"wrap_model_call": around}}


def _provider(error: BaseException) -> dict[str, Any]:
    return {"provider": _Provider(error)}


def _approver(error: BaseException) -> dict[str, Any]:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    async def can_use(_: object) -> bool:
        raise error

    policy = PermissionPolicy(ask=["look"])
    model = ScriptedModel([call("look"), "Done."])
    return {"provider": model, "tools": [look], "can_use_tool": can_use, "permissions": policy}


def _validator(error: BaseException) -> dict[str, Any]:
    def check(_city: object, _field: object, _name: str) -> None:
        raise error

    @attrs.define
    class City:
        name: str = attrs.field(validator=check)

    return {"provider": ScriptedModel(['{"name": "Rome"}']), "output_type": City}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (_hook, HookError),
        (_wrapper, HookError),
        (_approver, HookError),
        (_provider, AgentError),
        (_validator, AgentError),
    ],
)
async def test_foreign_cancellation_fails_only_its_run(
    options: Callable[[BaseException], dict[str, Any]], expected: type[AgentError]
) -> None:
    error = await kept_cancellation()
    async with open_runtime() as runtime:
        with pytest.raises(expected, match=r"Cancelled"):
            await runtime.run("Go.", AgentOptions(model="m", **options(error)), session_id="s")
        healthy = AgentOptions(model="m", provider=ScriptedModel(["Fine."]))
        result = await runtime.run("And now?", healthy, session_id="s")
        assert result.text == "Fine."
        check_history(result.messages)
        check_quiet(runtime)


async def test_observer_raising_foreign_cancellation_continues() -> None:
    error = await kept_cancellation()
    seen: list[str] = []

    async def observe(event: Event) -> None:
        seen.append(event.type)
        if len(seen) == 1:
            raise error

    async with open_runtime() as runtime:
        subscription = runtime.subscribe(observe)
        options = AgentOptions(model="m", provider=ScriptedModel(["Fine."]))
        assert (await runtime.run("Go.", options)).text == "Fine."
        await wait_all_tasks_blocked()
        assert seen[-1] == "result"
        assert subscription.statistics().failed == 1
