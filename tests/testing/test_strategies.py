import json
import math
import sys
from subprocess import run

from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import AssistantBlock, ToolResultBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelDelta, ThinkingDelta, ToolCallDelta
from agent_actors.testing.conformance import split_body
from agent_actors.testing.script import Step, finished
from agent_actors.testing.strategies import (
    assistant_blocks,
    call_ids,
    chunks,
    cuts,
    json_objects,
    json_values,
    messages,
    mixes,
    splits,
    texts,
    tool_names,
    turns,
)


@given(json_values())
def test_json_values_survive_being_written_and_read(value: JsonValue) -> None:
    assert json.loads(json.dumps(value).encode()) == value
    assert not isinstance(value, float) or math.isfinite(value)


@given(json_objects())
def test_json_objects_are_objects(value: JsonObject) -> None:
    assert json.loads(json.dumps(value, ensure_ascii=False).encode()) == value


@given(texts(min_size=1))
def test_texts_are_what_utf8_can_hold(text: str) -> None:
    assert text.encode().decode() == text != ""


@given(tool_names(), call_ids())
def test_names_are_those_that_endpoints_take(name: str, call_id: str) -> None:
    assert 1 <= len(name) <= 64
    assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
    assert call_id.startswith("call_")


@given(assistant_blocks(ids=st.just("x")))
def test_response_blocks_use_given_ids(block: AssistantBlock) -> None:
    assert block.type in {"text", "thinking", "tool_use"}
    assert block.type != "tool_use" or block.id == "x"


@given(messages())
def test_conversations_are_valid_and_answered(chain: Messages) -> None:
    chain.validate()
    known: set[str] = set()
    waiting: set[str] = set()
    for message in chain:
        if message.role == "tool":
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            waiting = {call.id for call in message.tool_calls}
            assert not waiting & known
            known |= waiting
    assert not waiting


@given(messages(with_system=False))
def test_conversations_may_be_without_a_system_message(chain: Messages) -> None:
    assert not chain.system_messages()


@given(st.data(), st.binary(max_size=60), st.booleans())
def test_splits_join_to_what_was_split(data: st.DataObject, content: bytes, empty: bool) -> None:
    pieces = data.draw(splits(content, empty=empty))

    assert b"".join(pieces) == content
    assert empty or content == b"" or b"" not in pieces


@given(st.data(), st.binary(max_size=60))
def test_cuts_are_places_of_a_body(data: st.DataObject, body: bytes) -> None:
    assert b"".join(split_body(body, data.draw(cuts(body)))) == body


@given(st.data())
def test_mixes_go_together(data: st.DataObject) -> None:
    mix = data.draw(mixes(["cr", "crlf", "pings"], protocol="messages"))
    assert mix <= {"cr", "crlf", "pings"}
    assert not {"cr", "crlf"} <= mix


@given(turns(finishes=True))
def test_truncated_turn_has_complete_calls(turn: list[Step]) -> None:
    answer = finished(turn, call_id=str)
    calls = [block for block in answer.blocks if block.type == "tool_use"]
    assert answer.finish_reason not in {"length", "refusal"} or all(one.input for one in calls)


@given(turns())
def test_turns_have_a_complete_response(turn: list[Step]) -> None:
    answer = finished(turn, call_id=str)

    assert "tool_use_error" not in {block.type for block in answer.blocks}


@given(chunks())
def test_chunks_are_the_turn_in_fragments(drawn: tuple[list[Step], list[ModelDelta]]) -> None:
    turn, deltas = drawn
    answer = finished(turn, call_id="call_0_{}".format)

    said: dict[object, str] = {}
    named: dict[object, str] = {}
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            assert (delta.index in named) == (delta.name == "" == delta.id)
            named.setdefault(delta.index, delta.id)
            said[delta.index] = said.get(delta.index, "") + str(delta.arguments)
        elif isinstance(delta, ThinkingDelta):
            said["thinking"] = said.get("thinking", "") + delta.text
    calls = [block for block in answer.blocks if block.type == "tool_use"]
    assert [(block.id, block.raw_arguments) for block in calls] == [
        (named[index], said[index]) for index in named
    ]
    thoughts = [block.thinking for block in answer.blocks if block.type == "thinking"]
    assert said.get("thinking", "") == "".join(thoughts)


def test_conversations_vary_in_results() -> None:
    seen: set[str] = set()

    @given(messages())
    def look(chain: Messages) -> None:
        for message in chain:
            if len(message.tool_calls) > 1:
                seen.add("several")
            if any(isinstance(one, ToolResultBlock) and one.is_error for one in message.blocks):
                seen.add("failed")

    look()
    assert seen == {"several", "failed"}


def test_kit_works_without_hypothesis() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import agent_actors.testing"
    run([sys.executable, "-c", code], check=True)
