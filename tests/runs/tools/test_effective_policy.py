"""The policy of a parent run applies to nested runs, wherever and however late they begin."""

import gc

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.errors import SessionBusy
from agent_actors.permissions import PermissionPolicy
from agent_actors.runs.context import RunContext
from agent_actors.testing import ScriptedModel, call, pause, say
from tests.runs.hooks.helpers import USE, agent, ran, results

NO_ECHO = PermissionPolicy(deny=["echo"], mode="bypass")


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same runtime", "another runtime"])
async def test_policy_of_finished_parent_still_applies(
    elsewhere: bool, autojump_clock: MockClock
) -> None:
    observed: list[str] = []

    async def later() -> None:
        await trio.sleep(1)
        if not elsewhere:
            observed.extend(results(await runtime.run("Go.", agent(*USE))))
            return
        async with open_runtime() as other:
            observed.extend(results(await other.run("Go.", agent(*USE))))

    @tool
    async def leave_behind() -> str:
        """Start a task that continues after this run has ended."""
        nursery.start_soon(later)
        return "ok"

    model = ScriptedModel([call("leave_behind", {}), "Done."])
    options = AgentOptions(model="m", provider=model, tools=[leave_behind], permissions=NO_ECHO)
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        assert (await runtime.run("Go.", options)).text == "Done."
    assert ran == []
    assert observed == ["unknown tool 'echo'; the available tools are: none"]


async def test_unstarted_runs_leave_no_policy(autojump_clock: MockClock) -> None:
    # A separate policy, so that the runs of other tests do not count.
    own = PermissionPolicy(allow=["only_of_this_test"], mode="bypass")
    options = attrs.evolve(agent([pause(1), say("Done.")]), permissions=own)
    async with open_runtime() as runtime, runtime.stream("Go.", options, session_id="s") as events:
        for _ in range(5):
            with pytest.raises(SessionBusy):
                await runtime.run("Go.", options, session_id="s")
        gc.collect()
        contexts = [one for one in gc.get_objects() if isinstance(one, RunContext)]
        assert sum(one.permissions is own for one in contexts) == 1
        assert [event async for event in events]
