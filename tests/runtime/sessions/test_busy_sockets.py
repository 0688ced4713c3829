"""Busy sessions over real sockets.

A stopped run closes its connection at once. A steered run sends another request.
"""

import pytest
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.actors.session_gate import OnBusy
from agent_actors.testing import EndpointRequest, Reply, ScriptedEndpoint, hang, reply, say, wait
from tests.runs.helpers import check_quiet
from tests.runtime.sessions.busy_helpers import Runs, asked

# Seconds; only a failing test waits this long.
LIMIT = 10.0


def script(request: EndpointRequest) -> Reply:
    """Return a response that never ends for `endless`, and a complete one otherwise."""
    if request.last_content == "endless":
        return reply(say("It is "), hang())
    return reply(f"You said {request.last_content}.")


async def wait_for_response(endpoint: ScriptedEndpoint) -> None:
    """Wait until a response is in progress."""
    with trio.fail_after(LIMIT):
        while not endpoint.live_responses:  # noqa: ASYNC110 - real time, a few turns of the loop
            await trio.sleep(0.001)


@pytest.mark.parametrize("on_busy", ["interrupt", "rollback"])
async def test_stopped_run_closes_connection_first(
    on_busy: OnBusy,
) -> None:
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        options = AgentOptions(model="m", base_url=endpoint.base_url)
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                runs = Runs(runtime, nursery, options)
                await runs.start("endless", wait=0)
                await wait_for_response(endpoint)
                await runs.start("second", on_busy, wait=0)
            await endpoint.wait_quiet()
        first, second = runs.results["endless"], runs.results["second"]
        assert first.stop_reason == {"interrupt": "interrupted", "rollback": "rolled_back"}[on_busy]
        assert second.text == "You said second."
        kept = ["endless", "second"] if on_busy == "interrupt" else ["second"]
        assert asked(second.messages) == kept
        check_quiet(runtime)


async def test_interrupt_returns_after_connection_closed() -> None:
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        options = AgentOptions(model="m", base_url=endpoint.base_url)
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                runs = Runs(runtime, nursery, options)
                for _ in range(5):
                    await runs.start("endless", wait=0)
                    await wait_for_response(endpoint)
                    assert await runtime.interrupt("s", "stop")
                    check_quiet(runtime)
                    # The endpoint has not ended its response: only a closed connection ends the
                    # response.
                    await endpoint.wait_quiet()
        assert runs.ends == {"endless": "interrupted"}


async def test_steered_run_reuses_its_connection() -> None:
    spoken = trio.Event()

    def waits(request: EndpointRequest) -> Reply:
        if request.last_content == "one":
            return reply(say("You "), wait(spoken), say("said one."))
        return script(request)

    async with ScriptedEndpoint(waits) as endpoint, open_runtime() as runtime:
        options = AgentOptions(model="m", base_url=endpoint.base_url)
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                runs = Runs(runtime, nursery, options)
                await runs.start("one", wait=0)
                await wait_for_response(endpoint)
                await runs.steer("two", wait=0)
                while not runtime.statistics().gate.waiting:  # noqa: ASYNC110 - as above
                    await trio.sleep(0.001)
                spoken.set()
        assert runs.ends == {"two": "steered", "one": "completed"}
        assert runs.results["one"].text == "You said two."
        assert endpoint.connections == 1
