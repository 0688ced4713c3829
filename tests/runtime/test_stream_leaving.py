"""A reader may leave at any event: the run is joined and committed, and has an outcome."""

import trio
from trio.testing import MockClock

from tests.runs.helpers import house


async def leave_after(count: int) -> bool:
    """Leave after `count` events; return False if the run had ended before."""
    async with house() as home:
        seen = 0
        async with home.runtime.stream("go", home.options, session_id="s") as events:
            home.streams.append(events)
            async for event in events:
                seen += 1
                if seen == count and event.type != "result":
                    break
            else:
                return False
        # If the reader leaves at the last response, the run may already have ended.
        answered = events.result.text == "It rains."
        assert events.result.stop_reason == ("completed" if answered else "interrupted")
        home.check_silent()
        assert events.result.messages == home.runtime.history("s")
        await home.check("s")
    return True


def test_leaving_at_any_event_joins_run() -> None:
    count = 1
    while trio.run(leave_after, count, clock=MockClock(autojump_threshold=0)):
        count += 1
    assert count > 15
