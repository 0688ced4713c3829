"""Check captures of an endpoint: splitting the bytes differently must not change the blocks."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_actors.profiles.dialect import ChatDialect
from agent_actors.testing import body_of, call, check_capture, check_turn, say, usage
from agent_actors.testing.conformance import QUIRKS, DistortedTurn
from agent_actors.testing.strategies import cuts, distorted_turns

# In practice, `curl` has recorded this.
answer = body_of([say("It is ", "sunny."), call("get_weather", {"city": "Paris"}), usage(9, 4)])


def test_splits_do_not_change_the_capture() -> None:
    reading = check_capture(answer, dialect=ChatDialect(cumulative=False))
    print(reading.finish_reason, [block.type for block in reading.blocks], reading.usage)


def test_capture_has_the_expected_content() -> None:
    check_turn([say("It is sunny."), call("get_weather", {"city": "Paris"})], answer)


@settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(distorted_turns(protocol="chat"), st.data())
def test_quirks_and_splits_change_no_block(found: DistortedTurn, data: st.DataObject) -> None:
    check_turn(found.turn, found.body, data.draw(cuts(found.body)), quirks=found.quirks)


def test_endpoint_with_quirks_is_decoded() -> None:
    found = QUIRKS["chat"].distorted("Hello!", ["cumulative", "reason_empty", "crlf"])
    print(found.body.decode()[:120])
    check_turn(found.turn, found.body, quirks=found.quirks)


if __name__ == "__main__":
    test_splits_do_not_change_the_capture()
    test_capture_has_the_expected_content()
    test_quirks_and_splits_change_no_block()
    test_endpoint_with_quirks_is_decoded()
