from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import TextBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import ModelCompleted
from agent_actors.protocol.response.call_ids import CallIds, with_unique_ids


def test_a_free_id_is_kept() -> None:
    assert CallIds(turn=1, known=frozenset()).give(0, "call_a") == "call_a"


def test_missing_id_uses_turn_and_slot() -> None:
    ids = CallIds(turn=3, known=frozenset())
    assert [ids.give(0), ids.give(1)] == ["call_3_0", "call_3_1"]


def test_id_of_earlier_turn_is_rewritten() -> None:
    assert CallIds(turn=2, known={"list_dir:0"}).give(0, "list_dir:0") == "call_2_0"


def test_second_use_of_id_is_rewritten() -> None:
    ids = CallIds(turn=1, known=frozenset())
    assert [ids.give(0, "x"), ids.give(1, "x"), ids.give(1)] == ["x", "call_1_1", "call_1_1_2"]


def test_taken_generated_id_is_replaced() -> None:
    ids = CallIds(turn=1, known={"call_1_0", "call_1_0_2"})
    assert [ids.give(0), ids.give(0, "call_1_0")] == ["call_1_0_3", "call_1_0_4"]


@given(
    st.lists(st.sampled_from(["", "x", "call_1_0", "call_1_1", "call_1_1_2"]), max_size=12),
    st.sets(st.sampled_from(["x", "call_1_0", "call_1_1_2"])),
)
def test_no_id_is_ever_given_twice(wanted: list[str], known: set[str]) -> None:
    ids = CallIds(turn=1, known=known)
    given_ids = [ids.give(slot, one) for slot, one in enumerate(wanted)]
    assert len({*given_ids, *known}) == len(given_ids) + len(known)


def test_unique_ids_keep_the_same_object() -> None:
    answer = ModelCompleted((TextBlock("a"), ToolUseBlock("x", "now", {}), ToolUseError("bad")))
    named = with_unique_ids(answer, turn=1)
    assert [getattr(block, "id", None) for block in named.blocks] == [None, "x", "call_1_1"]
    assert with_unique_ids(named, turn=1) is named


def test_nameless_call_becomes_an_error() -> None:
    answer = ModelCompleted((ToolUseBlock("", "", {"a": 1}, '{"a":1}', extra={"k": 1}),))
    (block,) = with_unique_ids(answer, turn=2).blocks
    assert block == ToolUseError(
        "the call does not name a tool", '{"a":1}', "call_2_0", extra={"k": 1}
    )
