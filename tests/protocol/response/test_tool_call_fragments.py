import pytest

from agent_actors.domain.model import ToolCallDelta
from agent_actors.protocol.response.tool_call_fragments import SlotTable


def delta(
    index: int | None = None, call_id: str = "", name: str = "", arguments: str = ""
) -> ToolCallDelta:
    return ToolCallDelta(index, call_id, name, arguments)


def assembled(*fragments: ToolCallDelta) -> list[tuple[str, str, str]]:
    """Return the id, name and arguments of each slot, in order."""
    table = SlotTable()
    for fragment in fragments:
        table.slot_of(fragment).add(fragment)
    return [(slot.id, slot.name, slot.arguments) for slot in table]


@pytest.mark.feature("OAS-061")
def test_index_separates_interleaved_calls() -> None:
    assert assembled(
        delta(0, "a", "f"),
        delta(1, "b", "g"),
        delta(0, arguments='{"x":'),
        delta(1, arguments='{"y":'),
        delta(0, arguments="1}"),
        delta(1, arguments="2}"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


@pytest.mark.feature("OAGS-039")
def test_id_separates_interleaved_calls() -> None:
    assert assembled(
        delta(None, "a", "f"),
        delta(None, "b", "g"),
        delta(None, "a", arguments='{"x":1}'),
        delta(None, "b", arguments='{"y":2}'),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_an_id_seen_before_beats_the_index() -> None:
    assert assembled(
        delta(0, "a", "f"), delta(1, "b", "g"), delta(1, "a", arguments="{}"), delta(0, "b")
    ) == [("a", "f", "{}"), ("b", "g", "")]


def test_new_id_under_index_opens_slot() -> None:
    assert assembled(delta(0, "a", "f", "{"), delta(0, "b", "f", "{}")) == [
        ("a", "f", "{"),
        ("b", "f", "{}"),
    ]


def test_new_name_after_complete_object_opens_slot() -> None:
    assert assembled(delta(0, "", "f", '{"x":1}'), delta(0, "", "g", "{}")) == [
        ("", "f", '{"x":1}'),
        ("", "g", "{}"),
    ]


def test_bare_fragment_joins_the_last_slot() -> None:
    assert assembled(delta(0, "a", "f"), delta(1, "b", "g"), delta(None, arguments="{}")) == [
        ("a", "f", ""),
        ("b", "g", "{}"),
    ]


def test_without_any_slot_a_fragment_opens_one() -> None:
    assert assembled(delta(None, arguments="{}")) == [("", "", "{}")]


def test_new_id_or_name_opens_slot() -> None:
    assert assembled(
        delta(None, "a", "f", "{}"), delta(None, "b", "g", "{}"), delta(None, "", "h", "{}")
    ) == [("a", "f", "{}"), ("b", "g", "{}"), ("", "h", "{}")]


@pytest.mark.feature("OAS-062")
def test_late_id_joins_slot_of_index() -> None:
    assert assembled(delta(0, "", "f"), delta(0, "", "", '{"x":'), delta(0, "late", "", "1}")) == [
        ("late", "f", '{"x":1}')
    ]


def test_negative_index_counts_as_missing() -> None:
    assert assembled(
        delta(-1, "a", "f", "{}"), delta(-1, "b", "g", "{"), delta(-1, arguments="}")
    ) == [("a", "f", "{}"), ("b", "g", "{}")]


def test_negative_index_continues_complete_call() -> None:
    assert assembled(delta(0, "a", "f", "{}"), delta(-1, arguments='{"x":1}')) == [
        ("a", "f", '{}{"x":1}')
    ]


def test_unknown_index_continues_the_last_call() -> None:
    assert assembled(
        delta(0, "a", "f"),
        delta(1, arguments='{"x":'),
        delta(1, arguments="1}"),
        delta(1, "b", "g"),
        delta(2, arguments="{}"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


def test_index_of_complete_call_continues_last() -> None:
    assert assembled(
        delta(1, "a", "f"),
        delta(0, arguments='{"x":1}'),
        delta(2, "b", "g"),
        delta(0, arguments='{"y":2}'),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_new_index_after_complete_call_opens_slot() -> None:
    assert assembled(
        delta(0, "a", "f", '{"x":1}'), delta(1, arguments='{"y":2}'), delta(1, "", "g")
    ) == [("a", "f", '{"x":1}'), ("", "g", '{"y":2}')]


def test_unfinished_call_keeps_its_index() -> None:
    assert assembled(delta(0, "a", "f", "{"), delta(1, "b", "g"), delta(0, arguments="}")) == [
        ("a", "f", "{}"),
        ("b", "g", ""),
    ]


def test_same_id_with_other_name_splits() -> None:
    assert assembled(delta(None, "x", "f", "{}"), delta(None, "x", "g", '{"y":2}')) == [
        ("x", "f", "{}"),
        ("x", "g", '{"y":2}'),
    ]


def test_same_id_and_other_index_splits() -> None:
    assert assembled(delta(0, "x", "f"), delta(1, "x", "g")) == [("x", "f", ""), ("x", "g", "")]


def test_a_name_in_fragments_is_joined() -> None:
    assert assembled(
        delta(0, "a", "edit_ex"), delta(0, "", "isting_file"), delta(0, "a", "", "{}")
    ) == [("a", "edit_existing_file", "{}")]


def test_repeated_name_changes_nothing() -> None:
    repeated = [delta(0, "a", "final_result", piece) for piece in ("", '{"x"', ":1}", "")]
    assert assembled(*repeated) == [("a", "final_result", '{"x":1}')]


def test_another_name_amid_the_arguments_is_ignored() -> None:
    assert assembled(delta(0, "a", "f", "{"), delta(0, "a", "g", "}")) == [("a", "f", "{}")]


def test_name_after_arguments_is_accepted() -> None:
    assert assembled(delta(0, "a", "", "{}"), delta(0, "", "f")) == [("a", "f", "{}")]


def test_leaked_tokens_in_a_name_are_cut() -> None:
    assert assembled(delta(0, "a", "query<|channel|>commentary", "{}")) == [("a", "query", "{}")]


def test_an_object_counts_as_its_text() -> None:
    table = SlotTable()
    fragment = ToolCallDelta(0, "a", "f", {"x": "ü"}, {"signature": "s"})
    slot = table.slot_of(fragment)
    pieces = [slot.add(fragment), slot.add(ToolCallDelta(0))]
    assert pieces == ['{"x": "ü"}', ""]
    assert (slot.textual, slot.is_complete, slot.extra) == (False, True, {"signature": "s"})


def test_arguments_are_textual_until_an_object_comes() -> None:
    fragment = delta(0, "a", "f", "{}")
    slot = SlotTable().slot_of(fragment)
    slot.add(fragment)
    assert slot.textual


def test_slot_is_empty_until_named() -> None:
    table = SlotTable()
    assert SlotTable().last is None
    slot = table.slot_of(delta(0))
    slot.add(delta(0))
    seen = [slot.is_empty]
    slot.add(delta(0, name="f"))
    assert [*seen, slot.is_empty] == [True, False]
    assert (table.last, len(table)) == (slot, 1)


def test_trailing_blanks_keep_object_complete() -> None:
    fragment = delta(0, "a", "f", "{}")
    slot = SlotTable().slot_of(fragment)
    seen: list[bool] = []
    for piece in ("{}", "\n", "{"):
        slot.add(delta(0, "a", "f", piece))
        seen.append(slot.is_complete)
    assert seen == [True, True, False]


def test_name_fragments_are_bounded() -> None:
    slot = SlotTable().slot_of(delta(0))
    for number in range(2000):
        slot.add(delta(0, name=f"part{number}"))
    assert 1024 <= len(slot.name) < 1100


@pytest.mark.parametrize("index", [None, 0])
def test_same_name_with_other_arguments_splits(index: int | None) -> None:
    assert assembled(
        delta(index, "", "f", '{"x":1}'), delta(index, "", "f", '{"x":2}'), delta(index, "", "f")
    ) == [("", "f", '{"x":1}'), ("", "f", '{"x":2}')]


@pytest.mark.parametrize("text", ['{"x":1}', '{"x": 1}', "{}", '{"y":', ""])
def test_repeated_or_partial_arguments_open_no_slot(text: str) -> None:
    assert len(assembled(delta(None, "", "f", '{"x":1}'), delta(None, "", "f", text))) == 1


def test_arguments_after_empty_object_open_no_slot() -> None:
    assert len(assembled(delta(None, "", "f", "{}"), delta(None, "", "f", '{"x":1}'))) == 1


def test_each_call_keeps_its_own_extras() -> None:
    """Two calls without arguments differ only in their extra fields."""
    table = SlotTable()
    for signature in ("s", "t", "t"):
        extra = {"signature": signature}
        fragment = ToolCallDelta(None, "", "f", {}, extra)
        table.slot_of(fragment).add(fragment)
    assert [slot.extra for slot in table] == [{"signature": "s"}, {"signature": "t"}]
