"""Notices about oddities of a stream, as the run's reader and its session see them."""

import pytest

from agent_actors import AgentOptions, open_runtime
from agent_actors.events import AssistantDelta, Event, StreamNotice
from agent_actors.testing import ScriptedEndpoint, raw, reply, say


@pytest.mark.feature("OAS-072")
async def test_broken_line_is_a_live_notice() -> None:
    odd = reply(say("Hel"), raw(b"data: {oops\n\n"), say("lo"))
    seen: list[Event] = []
    async with ScriptedEndpoint([odd, "Bye"]) as endpoint, open_runtime() as runtime:
        options = AgentOptions(model="m", base_url=endpoint.base_url)
        async with runtime.stream("Hi", options, session_id="s") as events:
            seen = [event async for event in events]
        await runtime.run("And?", options, session_id="s")
    assert events.result.text == "Hello"
    texts = [one for one in seen if isinstance(one, StreamNotice | AssistantDelta)]
    assert [one.text for one in texts] == [
        "Hel",
        "a data line that is not JSON was skipped: '{oops'",
        "lo",
    ]
    # A notice is not a record: the log does not contain it, and the numbers have no gap for it.
    assert {one.seq for one in texts} == {None}
    assert [one.seq for one in seen if one.recorded] == list(range(1, len(seen) - 2))
