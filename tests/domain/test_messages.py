"""Messages and chains: builders, filters, rules, estimates and their text form."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_actors.domain.messages import (
    ROLES,
    Message,
    Messages,
    assistant,
    system,
    tool,
    user,
    user_input_role,
    valid_role,
)
from agent_actors.errors import MessageError

CALL = ToolUseBlock("c1", "weather", {"city": "Paris"}, '{"city":"Paris"}')
TALK = (
    Messages()
    .system("Be brief.")
    .user("Weather?")
    .assistant("Let me look.", [CALL])
    .tool("c1", "weather", "sunny")
    .assistant("Sunny.")
)


# --- one message ----------------------------------------------------------------------------------


@pytest.mark.feature("WICK-001")
def test_message_exposes_role_content_and_calls() -> None:
    asked = assistant("Let me look.", [CALL])
    assert (asked.role, asked.content, asked.tool_calls) == ("assistant", "Let me look.", (CALL,))
    assert (asked.tool_call_id, asked.name) == ("", "")
    answered = tool("c1", "weather", {"sky": "blue"})
    assert (answered.role, answered.content) == ("tool", '{"sky": "blue"}')
    assert (answered.tool_call_id, answered.name, answered.tool_calls) == ("c1", "weather", ())


@pytest.mark.feature("WICK-009", "OAS-019")
def test_each_role_has_a_builder() -> None:
    assert system("a") == Message("system", (TextBlock("a"),))
    assert user("a") == Message("user", (TextBlock("a"),))
    assert user([ImageBlock("data:,")]) == Message("user", (ImageBlock("data:,"),))
    assert assistant("a") == Message("assistant", (TextBlock("a"),))
    assert assistant(tool_calls=[CALL]) == Message("assistant", (CALL,))
    assert assistant("").blocks == ()
    assert tool("c1", "t", "no", is_error=True).blocks == (ToolResultBlock("c1", "no", True, "t"),)


def test_content_joins_all_text_blocks() -> None:
    blocks = (TextBlock("a"), ThinkingBlock("hidden"), TextBlock("b"), CALL)
    assert Message("assistant", blocks).content == "ab"
    assert Message("user", (ImageBlock("data:,"),)).content == ""


@pytest.mark.feature("WICK-002", "WICK-003")
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_there_are_four_valid_roles(role: str) -> None:
    assert valid_role(role)
    assert len(ROLES) == 4


@pytest.mark.feature("WICK-002", "WICK-003")
@pytest.mark.parametrize("role", ["robot", "", "User", "function"])
def test_any_other_role_is_an_error(role: Any) -> None:
    assert not valid_role(role)
    with pytest.raises(MessageError, match=f"unknown role {role!r}; expected one of system"):
        Message(role, (TextBlock("a"),)).validate()


@pytest.mark.feature("WICK-004")
def test_callers_speak_as_user_and_system_only() -> None:
    assert [role for role in ROLES if user_input_role(role)] == ["system", "user"]


# --- chains ---------------------------------------------------------------------------------------


@pytest.mark.feature("WICK-010", "ASDK-043")
def test_a_chain_grows_by_copies() -> None:
    start = Messages().user("a")
    longer = start.user("b").append(system("c"), system("d"))
    assert [message.content for message in longer] == ["a", "b", "c", "d"]
    assert len(start) == 1
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        start._items = ()  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.feature("WICK-011", "WICK-012")
def test_a_chain_is_filtered_by_role() -> None:
    assert [m.content for m in TALK.system_messages()] == ["Be brief."]
    assert [m.content for m in TALK.user_messages()] == ["Weather?"]
    assert [m.content for m in TALK.assistant_messages()] == ["Let me look.", "Sunny."]
    assert [m.content for m in TALK.tool_messages()] == ["sunny"]
    assert TALK.by_role("user") == TALK.user_messages()


@pytest.mark.feature("WICK-013")
def test_messages_expose_last_item_and_length() -> None:
    assert (TALK.last_content(), len(TALK)) == ("Sunny.", 5)
    assert TALK.last() == TALK[-1] == TALK.as_tuple()[4]
    assert TALK[1:3] == Messages(TALK.as_tuple()[1:3])
    assert Messages().last() is None
    assert Messages().last_content() == ""
    assert Messages() == Messages([]) != TALK


def test_a_chain_takes_results_of_every_shape() -> None:
    chain = Messages().assistant([TextBlock("a")]).tool("c1", "t", [1], is_error=True)
    assert chain[0].content == "a"
    assert chain[1].content == "[1]"


# --- rules ----------------------------------------------------------------------------------------


def test_a_good_conversation_breaks_no_rule() -> None:
    TALK.validate()
    Messages().assistant(tool_calls=[CALL]).user([ImageBlock("data:,")]).validate()
    Messages().tool("c1", "t", "").validate()
    opaque = OpaqueBlock({"type": "document"}, "anthropic")
    Messages().user([opaque]).assistant([opaque]).validate()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        pytest.param(
            tool("", "t", "x"), "needs the id of its call", marks=pytest.mark.feature("WICK-014")
        ),
        pytest.param(tool("c1", "", "x"), "needs the name", marks=pytest.mark.feature("WICK-014")),
        pytest.param(
            Message("tool", (TextBlock("x"),)),
            "needs the id of its call",
            marks=pytest.mark.feature("WICK-014"),
        ),
        pytest.param(
            assistant(""), "needs content or tool calls", marks=pytest.mark.feature("WICK-015")
        ),
        pytest.param(
            assistant("a", [CALL, ToolUseBlock("", "t", {})]),
            r"tool call 1 \(t\) has no id",
            marks=pytest.mark.feature("WICK-016"),
        ),
        pytest.param(
            assistant("a", [ToolUseBlock("", "", {})]),
            r"tool call 0 \(unnamed\) has no id",
            marks=pytest.mark.feature("WICK-016"),
        ),
        pytest.param(
            assistant("a", [ToolUseBlock("c9", "", {})]),
            r"tool call 0 \(c9\) has no name",
            marks=pytest.mark.feature("WICK-016"),
        ),
        pytest.param(
            user(""), "a user message needs content", marks=pytest.mark.feature("WICK-017")
        ),
        pytest.param(
            system(" \n"), "a system message needs content", marks=pytest.mark.feature("WICK-017")
        ),
    ],
)
def test_broken_rule_names_its_message(message: Message, said: str) -> None:
    with pytest.raises(MessageError, match=said) as alone:
        message.validate()
    assert alone.value.index is None
    with pytest.raises(MessageError, match=f"message 1: .*{said}") as chained:
        Messages([user("a"), message]).validate()
    assert chained.value.index == 1


@pytest.mark.feature("WICK-018")
def test_user_input_needs_content_and_role() -> None:
    Messages().system("a").user("b").validate_user_input()
    with pytest.raises(MessageError, match="at least one user or system message"):
        Messages().validate_user_input()
    with pytest.raises(MessageError, match="message 1: role 'assistant' is not allowed here"):
        Messages().user("a").assistant("b").validate_user_input()
    with pytest.raises(MessageError, match="message 0: a user message needs content"):
        Messages().user(" ").validate_user_input()


# --- estimates and text form ----------------------------------------------------------------------


@pytest.mark.feature("WICK-019", "WICK-005")
def test_token_estimate_is_quarter_of_content() -> None:
    assert user("x" * 11).estimate_tokens() == 2
    raw = ToolUseBlock("c1", "t", {}, "y" * 9)
    assert assistant("x" * 7, [raw, raw]).estimate_tokens() == 1 + 2 + 2
    assert assistant("", [ToolUseBlock("c1", "t", {"abc": 1})]).estimate_tokens() == 10 // 4
    assert Messages().user("x" * 8).user("x" * 7).estimate_tokens() == 3


@given(st.text(max_size=50), st.text(min_size=1, max_size=50))
def test_estimate_never_exceeds_a_quarter(text: str, raw: str) -> None:
    message = assistant(text, [ToolUseBlock("c1", "t", {}, raw)])
    assert message.estimate_tokens() == len(text) // 4 + len(raw) // 4


@pytest.mark.feature("WICK-020")
def test_conversation_has_a_readable_form() -> None:
    assert TALK.pretty() == (
        "[System] Be brief.\n"
        "[Human] Weather?\n"
        "[AI] Let me look.\n"
        '  -> weather({"city":"Paris"}) (call_id=c1)\n'
        "[Tool: weather (call_id=c1)] sunny\n"
        "[AI] Sunny."
    )
    assert assistant(tool_calls=[CALL]).pretty().startswith("[AI]\n  -> weather(")
    assert Message("robot", ()).pretty() == "[robot]"  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
