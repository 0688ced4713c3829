"""Conversations truncated to a size, in either form."""

import copy
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.openai_messages import MessageDict, messages_to_openai
from agent_actors.context import TokenCounter, Trimmer, estimate_tokens, truncate_messages
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import ConfigError, MessageError
from agent_actors.testing import strategies

# Untyped on purpose: values that a type checker would reject must also be refused at run time.
truncate: Callable[..., object] = truncate_messages
make_trimmer: Callable[..., Trimmer] = Trimmer
trim: Callable[..., object] = Trimmer(100).trim
estimate: Callable[..., object] = estimate_tokens

CHAT: list[dict[str, object]] = [
    {"role": ("user", "assistant")[at % 2], "content": f"{at}"} for at in range(20)
]
CHAT.insert(0, {"role": "system", "content": "Be brief."})
TOOLS: list[dict[str, object]] = [
    {"role": "user", "content": "Add."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "add", "arguments": "{"}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "3"},
    {"role": "tool", "tool_call_id": "b", "content": "4", "own": "key"},
    {"role": "assistant", "content": "3 and 4."},
]


def is_complete(dicts: Sequence[MessageDict]) -> bool:
    """Return whether each call has a result and each result has a call."""
    called = [one["id"] for message in dicts for one in message.get("tool_calls", [])]
    answered = [message.get("tool_call_id") for message in dicts if message["role"] == "tool"]
    return sorted(called) == sorted(map(str, answered))


@pytest.mark.feature("OAS-084", "OAS-085")
def test_ten_messages_and_system_message_stay() -> None:
    assert truncate_messages(CHAT) == [CHAT[0], *CHAT[-10:]]
    assert truncate_messages(CHAT, 3) == [CHAT[0], *CHAT[-3:]]
    assert truncate_messages(CHAT, 3, False) == CHAT[-3:]
    assert truncate_messages(CHAT, keep=100) == CHAT
    assert truncate_messages(CHAT, 100, preserve_system=False) == CHAT


@pytest.mark.feature("OAS-086")
def test_keeping_none_leaves_the_system_message_alone() -> None:
    assert truncate_messages(CHAT, keep=0) == CHAT[:1]
    assert truncate_messages(CHAT, keep=0, preserve_system=False) == []
    assert truncate_messages([], keep=0) == []


@pytest.mark.feature("OAS-087")
def test_trimmed_list_contains_same_objects() -> None:
    before = copy.deepcopy(TOOLS)
    kept = truncate_messages(TOOLS, keep=10)
    assert kept is not TOOLS
    assert all(one is other for one, other in zip(kept, TOOLS, strict=True))
    assert before == TOOLS
    given = tuple(TOOLS)
    assert truncate_messages(given, keep=1) == TOOLS[-1:]


@pytest.mark.feature("OAS-088")
@pytest.mark.parametrize(("keep", "left"), [(1, 1), (2, 4), (3, 4), (4, 4), (5, 5)])
def test_call_and_results_stay_together(keep: int, left: int) -> None:
    assert truncate_messages(TOOLS, keep) == TOOLS[-left:]


@pytest.mark.feature("OAS-088")
@given(strategies.messages(), st.integers(0, 12), st.booleans())
def test_valid_input_gives_valid_output(
    messages: Messages, keep: int, preserve_system: bool
) -> None:
    # One message for each result, so that both forms have the same positions.
    dicts = messages_to_openai(messages)
    kept = truncate_messages(dicts, keep, preserve_system)
    assert is_complete(kept) or not is_complete(dicts)
    assert kept[len(kept) - min(keep, len(kept)) :] == dicts[len(dicts) - min(keep, len(kept)) :]
    ours = truncate_messages(messages, keep, preserve_system)
    assert type(ours) is Messages
    assert is_complete(messages_to_openai(ours)) or not is_complete(dicts)
    assert truncate_messages(list(messages), keep, preserve_system) == list(ours)


@pytest.mark.parametrize(
    ("keep", "words"),
    [(-1, "keep must not be negative; got -1"), (1.5, "whole number"), (True, "whole number")],
)
def test_invalid_count_is_refused(keep: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        truncate(CHAT, keep=keep)


@pytest.mark.parametrize(
    ("messages", "index", "words"),
    [
        ([CHAT[0], "Hi"], 1, "message 1: expected a Message or a dict .* got 'Hi'"),
        ("Hi", 0, "message 0: expected a Message"),
        ([{"role": "bot", "content": "Hi"}], 0, "unknown role 'bot'"),
        ([*CHAT, {"content": "Hi"}], len(CHAT), f"message {len(CHAT)}: unknown role None"),
        ([{"role": "user", "content": [1]}], 0, "content must be a list"),
    ],
)
def test_invalid_message_is_named_by_position(
    messages: list[object], index: int, words: str
) -> None:
    for use in (truncate, trim, estimate):
        with pytest.raises(MessageError, match=words) as caught:
            use(messages)
        assert caught.value.index == index


def one_each(text: str, /) -> int:
    return 1


# Five tokens for each message of the chat, including the four that each message costs.
FIVE = 5


@pytest.mark.feature("ASDK-046")
def test_trimmer_fills_budget_from_the_end() -> None:
    trimmer = Trimmer(3 * FIVE + 4, one_each)
    assert trimmer.trim(CHAT) == CHAT[-3:]
    assert trimmer.trim(tuple(CHAT)) == CHAT[-3:]
    assert Trimmer(len(CHAT) * FIVE, one_each).trim(CHAT) == CHAT
    assert Trimmer(FIVE - 1, one_each).trim(CHAT) == []


def test_trimmer_pays_for_system_messages_first() -> None:
    assert Trimmer(3 * FIVE, one_each, preserve_system=True).trim(CHAT) == [CHAT[0], *CHAT[-2:]]
    assert Trimmer(FIVE, one_each, preserve_system=True).trim(CHAT) == CHAT[:1]
    assert Trimmer(FIVE - 1, one_each, preserve_system=True).trim(CHAT) == []


@pytest.mark.feature("ASDK-047")
@pytest.mark.parametrize("max_tokens", [0, -1, -(10**9)])
def test_a_trimmer_without_a_budget_keeps_nothing(max_tokens: int) -> None:
    assert Trimmer(max_tokens, one_each).trim(CHAT) == []
    assert Trimmer(max_tokens, preserve_system=True).trim(CHAT) == []
    assert Trimmer(max_tokens).trim(Messages().user("Hi")) == Messages()


def test_trimmer_keeps_call_with_its_result() -> None:
    # The last message costs 5, each result 5, and the calls 4 plus two texts for each of two.
    assert Trimmer(22, one_each).trim(TOOLS) == TOOLS[-1:]
    assert Trimmer(23, one_each).trim(TOOLS) == TOOLS[1:]


@pytest.mark.feature("ASDK-045")
@given(strategies.messages(), st.integers(-5, 400), st.booleans())
def test_trimmed_messages_never_exceed_budget(
    messages: Messages, budget: int, preserve_system: bool
) -> None:
    counters: list[TokenCounter | None] = [None, one_each, len]
    for counter in counters:
        trimmer = Trimmer(budget, counter, preserve_system=preserve_system)
        kept = trimmer.trim(messages)
        assert type(kept) is Messages
        assert is_complete(messages_to_openai(kept)) or not is_complete(
            messages_to_openai(messages)
        )
        if counter is not None:
            assert estimate_tokens(kept, counter=counter) <= max(budget, 0)
        assert trimmer.trim(kept) == kept


def test_uncallable_counter_is_refused_early() -> None:
    with pytest.raises(ConfigError, match="counter must be a function that counts"):
        Trimmer(5, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("max_tokens", [1.5, "100", None, False])
def test_non_integer_budget_is_refused(max_tokens: object) -> None:
    with pytest.raises(ConfigError, match="max_tokens must be a whole number"):
        make_trimmer(max_tokens)


def test_messages_and_dicts_may_be_mixed() -> None:
    mixed: list[Message | dict[str, object]] = [Messages().user("Hi")[0], CHAT[2]]
    assert truncate_messages(mixed, 1) == [CHAT[2]]
