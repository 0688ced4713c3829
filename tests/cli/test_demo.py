"""A demo in this process: its requests, its counts, and its check for leaks."""

import resource
from collections.abc import Callable

import pytest
import trio

from agent_actors import AgentOptions, Tool, open_runtime, tool
from agent_actors.cli.demo import runner
from agent_actors.cli.demo.runner import Demo, DemoPlan
from agent_actors.cli.demo.tally import ToolGauge, faults_of
from agent_actors.cli.demo.workload import demo_prompt, demo_tools
from agent_actors.testing import ReplyTurn, ScriptedEndpoint, call, reply, say, status, wait
from agent_actors.transport.backends.native import HttpExchange
from tests.cli.helpers import PATIENCE

pytestmark = pytest.mark.usefixtures("quick")


async def test_sessions_run_tools_and_leave_nothing() -> None:
    demo = Demo(DemoPlan(sessions=12, tools=5, turns=2))

    assert await demo.drive() == 0
    tally = demo.tally
    assert (tally.sessions, tally.runs, len(tally.first_tokens)) == (12, 24, 24)
    assert (tally.tools.calls, tally.tools.running) == (120, 0)
    assert tally.deltas == 24 * 8
    # Sessions 0 and 10 are rejected as busy, once each.
    assert (tally.busy, tally.let_in) == (2, 0)
    assert (tally.leaked_tasks, tally.leaked_connections) == (0, 0)
    assert demo.finished
    assert not demo.faults()


async def test_tools_measure_their_parallelism(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_run = trio.Event()

    def waiting_for_each_other(gauge: ToolGauge) -> tuple[Tool, ...]:
        @tool
        async def meet(item: int) -> str:
            """Return when 30 tools have run at once."""
            with gauge.ran():
                if gauge.running == 30:
                    all_run.set()
                await all_run.wait()
            return "met"

        return (meet,)

    monkeypatch.setattr(runner, "demo_tools", waiting_for_each_other)
    demo = Demo(DemoPlan(sessions=5, tools=6))
    with trio.fail_after(PATIENCE):
        assert await demo.drive() == 0

    assert (demo.tally.tools.calls, demo.tally.tools.peak) == (30, 30)


async def test_snapshot_shows_the_progress() -> None:
    looked = trio.Event()
    async with ScriptedEndpoint([reply(say("one "), wait(looked), say("two"))]) as endpoint:
        plan = DemoPlan(sessions=1, tools=0, base_url=endpoint.base_url, model="m")
        demo = Demo(plan)
        before = demo.snapshot()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(demo.drive)
            await endpoint.wait_live(1)
            under_way = demo.snapshot()
            looked.set()

    assert (before.live_streams, before.seconds) == (0, 0)
    assert under_way.live_streams == 1
    assert under_way.seconds > 0
    assert demo.finished


async def test_provider_name_finds_real_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedEndpoint(["Hello."]) as endpoint:
        monkeypatch.setenv("VLLM_BASE_URL", endpoint.base_url)
        demo = Demo(DemoPlan(sessions=1, tools=0, provider="vllm", model="m"))
        assert await demo.drive() == 0

    assert [request.model for request in endpoint.requests] == ["m"]


async def test_real_endpoint_may_call_any_tool() -> None:
    script = [reply(call("get_price", {"item": "?"})), reply("Done.")]
    async with ScriptedEndpoint(script) as endpoint:
        demo = Demo(DemoPlan(sessions=1, tools=8, base_url=endpoint.base_url, model="real"))
        assert await demo.drive() == 0

    assert (demo.tally.tools.calls, demo.tally.tool_errors) == (0, 1)
    asked = endpoint.requests[0]
    assert asked.body["model"] == "real"
    assert len(asked.tool_names) == 4
    assert "with 8 tool calls in one reply" in asked.last_content


async def test_failed_session_leaves_others_running() -> None:
    script: list[ReplyTurn] = [status(400, "on fire"), "one", "two"]
    async with ScriptedEndpoint(script) as endpoint:
        plan = DemoPlan(sessions=2, tools=0, turns=2, base_url=endpoint.base_url, model="m")
        demo = Demo(plan)
        assert await demo.drive() == 1

    assert (demo.tally.sessions, demo.tally.runs, len(demo.tally.failures)) == (1, 2, 1)
    (fault,) = demo.faults()
    assert fault.startswith("2 of 4 runs did not finish; the first failure: http://")


async def test_overlapping_run_in_session_is_a_failure() -> None:
    demo = Demo(DemoPlan(sessions=1, tools=0))
    async with ScriptedEndpoint(["Hello."]) as endpoint, open_runtime() as runtime:
        options = AgentOptions(model="m", base_url=endpoint.base_url)
        await demo._intrude(runtime, options, "nobody holds it")

    assert (demo.tally.busy, demo.tally.let_in) == (0, 1)
    assert len(faults_of(demo.tally, runs=0)) == 1


@pytest.mark.parametrize("embedded", [True, False])
async def test_connections_that_outlive_the_runtime_are_counted(
    embedded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[HttpExchange] = []
    close = HttpExchange.aclose

    async def forget(self: HttpExchange) -> None:
        left.append(self)

    monkeypatch.setattr(HttpExchange, "aclose", forget)
    monkeypatch.setattr(runner, "_GRACE", 0.01)
    async with ScriptedEndpoint(lambda _: "Hello.") as endpoint:
        base_url = "" if embedded else endpoint.base_url
        demo = Demo(DemoPlan(sessions=3, tools=0, base_url=base_url, model="m"))
        assert await demo.drive() == 1
        assert demo.tally.leaked_connections > 0
        assert any("connections outlived the runtime" in fault for fault in demo.faults())
        for exchange in left:
            await close(exchange)


async def test_tasks_that_outlive_the_runtime_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_GRACE", 0.01)
    async with trio.open_nursery() as nursery:

        def start_one(wanted: Callable[[], bool]) -> None:
            nursery.start_soon(trio.sleep_forever)

        demo = Demo(DemoPlan(sessions=1, tools=1))
        monkeypatch.setattr(demo, "_count", start_one)
        assert await demo.drive() == 1
        nursery.cancel_scope.cancel()

    assert demo.tally.leaked_tasks > 0
    assert f"{demo.tally.leaked_tasks} tasks outlived the runtime" in demo.faults()


@pytest.mark.parametrize(
    ("limits", "wanted", "becomes"),
    [
        ((100, 1000), 50, None),
        ((100, 1000), 500, (500, 1000)),
        ((100, 1000), 5000, (1000, 1000)),
        ((100, resource.RLIM_INFINITY), 5000, (5000, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 5000, None),
    ],
)
def test_descriptor_limit_is_raised(
    limits: tuple[int, int],
    wanted: int,
    becomes: tuple[int, int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_to: list[object] = []

    def get(what: int) -> tuple[int, int]:
        return limits

    def put(what: int, wanted: object) -> None:
        set_to.append(wanted)

    monkeypatch.setattr(resource, "getrlimit", get)
    monkeypatch.setattr(resource, "setrlimit", put)
    runner._allow_descriptors(wanted)

    assert set_to == ([] if becomes is None else [becomes])


def test_sockets_are_unknown_without_proc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_DESCRIPTORS", runner._DESCRIPTORS / "none")

    assert runner._open_sockets() == 0


@pytest.mark.parametrize("name", ["get_price", "get_stock", "get_rating", "get_delivery"])
async def test_demo_tool_is_deterministic_and_counted(name: str) -> None:
    gauge = ToolGauge()
    (one,) = (one for one in demo_tools(gauge) if one.name == name)

    first, second, other = [await one.execute({"item": item}) for item in (1, 1, 2)]
    assert first == second != other
    assert gauge.calls == 3


def test_the_prompt_asks_for_each_fact_once() -> None:
    prompt = demo_prompt(5)

    assert "the price of item 0, the stock of item 1" in prompt
    assert "the price of item 4." in prompt
    assert "tool" not in demo_prompt(0)
